// Bootstraps without MPI: from environment variables, and between real processes on loopback.
#include "weft/dist/start/bootstrap.h"
#include "weft/dist/group/standard/group_maker.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "collective_law.h"
#include "error_of.h"
#include "weft/core/host/control_groups.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/net/tcp_exchange.h"
#include "weft/dist/start/launched.h"
#include "weft/dist/start/slurm.h"

namespace weft {
namespace {

using test::ErrorOf;

using namespace std::chrono_literals;

// Returns a port that was free a moment ago.
int FreePort() {
  Socket s(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(bind(s.fd(), reinterpret_cast<sockaddr*>(&address), length), 0);
  getsockname(s.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

constexpr const char* kVariables[] = {
    "RANK",           "WORLD_SIZE",          "LOCAL_RANK",         "MASTER_ADDR",          "MASTER_PORT",
    "SLURM_PROCID",   "SLURM_NTASKS",        "SLURM_LOCALID",      "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
    "PMI_RANK",       "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_JOB_ID",         "SLURM_STEP_ID",
    "WEFT_INTERFACE", "WEFT_SECRET",         "WEFT_SECRET_FILE",   "OMPI_COMM_WORLD_RANK", "PMI_SIZE"};

void SetOnly(const std::vector<std::pair<const char*, std::string>>& variables) {
  for (const char* name : kVariables) unsetenv(name);
  for (auto& [name, value] : variables) setenv(name, value.c_str(), 1);
}

// Runs fn in `count` processes and returns their exit codes: 1 after a failed expectation, 2 after an exception, whose
// message is printed.
std::vector<int> Fork(int count, const std::function<void(int rank)>& fn) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < count; rank++) {
    pid_t pid = fork();
    if (pid == 0) {
      int code = 0;
      try {
        fn(rank);
        code = testing::Test::HasFailure() ? 1 : 0;
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
        code = 2;
      }
      _exit(code);
    }
    pids.push_back(pid);
  }
  std::vector<int> codes;
  for (pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
  }
  return codes;
}

TEST(Bootstrap, AWorldOfOneNeedsNothing) {
  SetOnly({});
  auto b = Bootstrap::FromEnvironment();
  EXPECT_EQ(b->rank(), 0);
  EXPECT_EQ(b->world_size(), 1);
  EXPECT_EQ(b->local_size(), 1);
  EXPECT_EQ(b->AllGather("x"), std::vector<std::string>{"x"});
  b->Barrier();
  auto groups = MakeGroupFactory(*b);
  Context context(b->rank(), b->world_size());
  DeviceMesh mesh(context, *groups, {{"dp", "tp"}, {1, 1}});
  test::CheckCollectives(mesh.Group("tp"), DType::kF32, 10);
  SetOnly({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(Bootstrap::FromEnvironment()->world_size(), 1);
  // A command of a batch script runs as one process. Processes that srun starts have a step id.
  SetOnly({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  EXPECT_EQ(Bootstrap::FromEnvironment()->world_size(), 1);
  // So does a command of the shell that salloc starts: its step id is one that Slurm reserves.
  setenv("SLURM_STEP_ID", "4294967290", 1);
  EXPECT_EQ(Bootstrap::FromEnvironment()->world_size(), 1);
}

TEST(Launch, EachLauncherGivesARankAndASize) {
  struct Case {
    std::vector<std::pair<const char*, std::string>> variables;
    Launch::Meeting meeting;
    int64_t rank, size;
  };
  const Case cases[] = {
      {{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}}, Launch::kMpi, 3, 4},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMIX_RANK", "1"}}, Launch::kMpi, 1, 2},
      {{{"PMIX_RANK", "1"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}, Launch::kMpi, 1, 4},
      {{{"PMIX_RANK", "1"}}, Launch::kMpi, 1, 0},
      // In the shell that salloc starts, the number of tasks is the job's.
      {{{"PMIX_RANK", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "4294967290"}}, Launch::kMpi, 0, 0},
      {{{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"SLURM_PROCID", "0"}}, Launch::kVariables, 1, 3},
      {{{"WORLD_SIZE", "two"}}, Launch::kVariables, 0, 0},
      {{{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "7"}}, Launch::kSlurm, 2, 4},
  };
  for (const Case& c : cases) {
    SetOnly(c.variables);
    const Launch* launch = FindLaunch();
    ASSERT_NE(launch, nullptr) << c.variables[0].first;
    EXPECT_EQ(launch->meeting, c.meeting) << launch->mark;
    auto [rank, size] = RankOf(*launch);
    EXPECT_EQ(rank, c.rank) << launch->mark;
    EXPECT_EQ(size, c.size) << launch->mark;
  }
  SetOnly({});
  EXPECT_EQ(FindLaunch(), nullptr);
}

TEST(Bootstrap, WrongVariablesAreNamed) {
  auto error = [](std::vector<std::pair<const char*, std::string>> variables) {
    SetOnly(variables);
    return ErrorOf([] { Bootstrap::FromEnvironment(nullptr, nullptr, 100ms); });
  };
  auto names = [&](const char* what, std::vector<std::pair<const char*, std::string>> variables) {
    std::string text = error(variables);
    EXPECT_NE(text.find(what), std::string::npos) << "no " << what << " in: " << text;
  };
  names("WORLD_SIZE", {{"RANK", "0"}});
  names("RANK", {{"WORLD_SIZE", "2"}});
  names("RANK=\"2\"", {{"RANK", "2"}, {"WORLD_SIZE", "2"}});
  names("RANK=\"-1\"", {{"RANK", "-1"}, {"WORLD_SIZE", "2"}});
  names("WORLD_SIZE=\"two\"", {{"RANK", "0"}, {"WORLD_SIZE", "two"}});
  names("MASTER_ADDR", {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  names("MASTER_PORT", {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}});
  names("MASTER_PORT=\"0\"", {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "0"}});
  names("one interface", {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "0.0.0.0"}, {"MASTER_PORT", "29999"}});
  names("which other hosts can reach, and the ranks have no secret to know each other by; export the same WEFT_SECRET",
        {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "192.0.2.1"}, {"MASTER_PORT", "29999"}});
  names("which other hosts can reach, and the ranks have no secret",
        {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "192.0.2.1"}, {"MASTER_PORT", "29999"}});
  names("SLURM_NTASKS", {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}});
  names("export MASTER_ADDR", {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}});
  names("SLURM_JOB_NODELIST: \"n[1\" is not a Slurm host list",
        {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "n[1"}});
  names("export MASTER_PORT",
        {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  names("SLURM_JOB_ID=\"x\"", {{"SLURM_STEP_ID", "0"},
                               {"SLURM_PROCID", "0"},
                               {"SLURM_NTASKS", "2"},
                               {"SLURM_JOB_NODELIST", "n[1-2]"},
                               {"SLURM_JOB_ID", "x"}});
  names("cannot resolve \"no-such-host.invalid\"", {{"SLURM_STEP_ID", "0"},
                                                    {"SLURM_PROCID", "0"},
                                                    {"SLURM_NTASKS", "2"},
                                                    {"SLURM_STEP_NODELIST", "no-such-host.invalid,localhost"},
                                                    {"SLURM_JOB_NODELIST", "localhost"},
                                                    {"SLURM_JOB_ID", "7"}});
  SetOnly({});
}

TEST(Bootstrap, SaysWhoDidNotCome) {
  int port = FreePort();
  std::string listener = ErrorOf([&] { MakeTcpBootstrap(0, 3, "127.0.0.1", port, 200ms); });
  EXPECT_NE(listener.find("have not connected"), std::string::npos) << listener;
  EXPECT_NE(listener.find(": 1, 2"), std::string::npos) << listener;
  listener = ErrorOf([&] { MakeTcpBootstrap(0, 1'000'000, "127.0.0.1", port, 200ms); });
  EXPECT_NE(listener.find(": 1-999999"), std::string::npos) << listener.substr(0, 1000);
  std::string caller = ErrorOf([&] { MakeTcpBootstrap(1, 3, "127.0.0.1", port, 200ms); });
  EXPECT_NE(caller.find("could not connect to rank 0"), std::string::npos) << caller;
}

// Runs a torchrun-style start to its end: variables, exchange, Gloo, mesh and collectives.
void RunJob(int ranks) {
  auto b = Bootstrap::FromEnvironment(nullptr, nullptr, 20s);
  EXPECT_EQ(b->world_size(), ranks);
  EXPECT_EQ(b->local_size(), ranks);
  EXPECT_EQ(b->local_rank(), b->rank());
  auto all = b->AllGather(std::string(size_t(b->rank()) * 70000, 'x'));
  for (int r = 0; r < ranks; r++) EXPECT_EQ(all[size_t(r)].size(), size_t(r) * 70000);
  auto groups = MakeGroupFactory(*b);
  Context context(b->rank(), b->world_size());
  DeviceMesh mesh(context, *groups, {{"x"}, {ranks}});
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kBool}) {
    test::CheckCollectives(mesh.World(), dtype, 1000);
    test::CheckUneven(mesh.World(), dtype, 10);
    test::CheckRing(mesh.World(), dtype, 10);
  }
}

TEST(Bootstrap, TorchrunVariablesOverThreeProcesses) {
  std::string port = std::to_string(FreePort());
  auto codes = Fork(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(100ms);  // meanwhile the others retry
    SetOnly({{"RANK", std::to_string(rank)},
             {"WORLD_SIZE", "3"},
             {"LOCAL_RANK", std::to_string(rank)},
             {"MASTER_ADDR", "127.0.0.1"},
             {"MASTER_PORT", port}});
    RunJob(3);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
}

TEST(Bootstrap, SlurmVariablesOverTwoProcesses) {
  std::string port = std::to_string(FreePort());
  auto codes = Fork(2, [&](int rank) {
    SetOnly({{"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", std::to_string(rank)},
             {"SLURM_NTASKS", "2"},
             {"SLURM_LOCALID", std::to_string(rank)},
             {"MASTER_ADDR", "localhost"},
             {"MASTER_PORT", port}});
    RunJob(2);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

// Each rank keeps the cores to which only it is bound, and both share those of both.
TEST(Bootstrap, RanksShareOnlyCoresOfBoth) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &before)) cores.push_back(core);
  if (cores.size() < 2 || CoreQuota().value_or(2) < 2) GTEST_SKIP() << "needs two cores";
  auto counts = [&](const std::vector<std::vector<int>>& bound) {
    int port = FreePort();
    return Fork(int(bound.size()), [&](int rank) {
      SetOnly({});
      cpu_set_t mine;
      CPU_ZERO(&mine);
      for (int core : bound[size_t(rank)]) CPU_SET(core, &mine);
      ASSERT_EQ(sched_setaffinity(0, sizeof(mine), &mine), 0);
      int ranks = int(bound.size());
      auto b = ranks == 1 ? MakeSoloBootstrap() : MakeTcpBootstrap(rank, ranks, "127.0.0.1", port, 20s);
      b->Barrier();
      _exit(10 + b->cores());
    });
  };
  int a = cores[0], b = cores[1];
  EXPECT_EQ(counts({{a, b}}), (std::vector<int>{12}));
  EXPECT_EQ(counts({{a}}), (std::vector<int>{11}));
  EXPECT_EQ(counts({{a}, {b}}), (std::vector<int>{11, 11}));
  EXPECT_EQ(counts({{a, b}, {a, b}}), (std::vector<int>{11, 11}));
}

// Returns a job id whose port is free.
int64_t FreeSlurmJob() {
  for (int64_t job = getpid();; job++) {
    Socket s(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(uint16_t(SlurmPort(job, 3)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(s.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return job;
  }
}

TEST(Bootstrap, SlurmWithoutMasterMeetsOnTheFirstHostOfTheStep) {
  std::string job = std::to_string(FreeSlurmJob());
  auto codes = Fork(2, [&](int rank) {
    SetOnly({{"SLURM_PROCID", std::to_string(rank)},
             {"SLURM_NTASKS", "2"},
             {"SLURM_JOB_ID", job},
             {"SLURM_STEP_ID", "3"},
             {"SLURM_STEP_NODELIST", "127.0.0.[1,7],elsewhere"},
             {"SLURM_JOB_NODELIST", "no-such-host.invalid"},
             {"WEFT_INTERFACE", "lo"}});
    RunJob(2);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

TEST(Bootstrap, ARankThatThrowsEndsTheOthersSoon) {
  int port = FreePort();
  auto start = std::chrono::steady_clock::now();
  auto codes = Fork(3, [&](int rank) {
    auto b = MakeTcpBootstrap(rank, 3, "127.0.0.1", port, 20s);
    auto groups = MakeGroupFactory(*b);
    Context context(rank, 3);
    DeviceMesh mesh(context, *groups, {{"x"}, {3}});
    for (int i = 0;; i++) {
      if (rank == 1 && i == 5) throw std::runtime_error("the cause");
      mesh.World().Barrier();
    }
  });
  EXPECT_EQ(codes, (std::vector<int>{2, 2, 2}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

// Rank 3 never starts. Once rank 1 has ended, the others stop waiting and report that rank.
TEST(TcpExchange, ARankThatEndsBeforeAllHaveComeEndsTheStart) {
  int port = FreePort();
  auto start = std::chrono::steady_clock::now();
  auto codes = Fork(3, [&](int rank) {
    std::thread end([&] {
      std::this_thread::sleep_for(500ms);
      if (rank == 1) _exit(7);
    });
    std::string error = ErrorOf([&] { MakeTcpBootstrap(rank, 4, "127.0.0.1", port, 60s); });
    EXPECT_NE(error.find("bootstrap: rank 1 ended before all 4 ranks had connected"), std::string::npos) << error;
    end.join();
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 7, 0}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

// Rank 0 reports to the others which rank is gone. Otherwise they would report rank 0.
TEST(TcpExchange, TheOthersLearnWhichRankIsGone) {
  int port = FreePort();
  auto codes = Fork(3, [&](int rank) {
    auto b = MakeTcpBootstrap(rank, 3, "127.0.0.1", port, 20s);
    if (rank == 1) _exit(7);
    if (rank == 2) std::this_thread::sleep_for(200ms);  // meanwhile rank 0 ends
    std::string error = ErrorOf([&] { b->AllGather("x"); });
    EXPECT_EQ(error.substr(0, 25), "bootstrap: rank 1 is gone") << error;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 7, 0}));
}

// Both jobs share the user's secret here. The rank of the second job connects first.
TEST(TcpExchange, ARankOfAnotherJobTakesNoPlace) {
  SetOnly({});
  int port = FreePort();
  auto codes = Fork(4, [&](int process) {
    int rank = std::min(process, 2);
    if (process == 3) std::this_thread::sleep_for(700ms);
    std::string error = ErrorOf([&] {
      auto b = MakeTcpBootstrap(rank, 3, "127.0.0.1", port, 20s, process == 2 ? "train b.yaml" : "train a.yaml");
      EXPECT_EQ(b->AllGather("x").size(), 3u);
    });
    EXPECT_EQ(error.empty(), process != 2) << error;
    EXPECT_EQ(error.find("it is of another job") != std::string::npos, process == 2) << error;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0, 0}));
}

// Other users know a scheduler's job id, so it is no secret. On loopback the ranks also use a LocalSecret, which only
// this user can fetch.
TEST(TcpExchange, ASchedulersIdIsNotEnoughOnTheLoopback) {
  SetOnly({{"SLURM_JOB_ID", "77"}});
  int port = FreePort();
  auto codes = Fork(3, [&](int process) {
    if (process < 2) {
      testing::internal::CaptureStderr();
      if (process == 1) std::this_thread::sleep_for(700ms);
      EXPECT_EQ(MakeTcpBootstrap(process, 2, "127.0.0.1", port, 30s)->AllGather("x").size(), 2u);
      std::string lines = testing::internal::GetCapturedStderr();
      EXPECT_EQ(lines.find("can read"), std::string::npos) << lines;  // no warning is needed
      return;
    }
    std::this_thread::sleep_for(300ms);
    Connection rank0 = ConnectTo(Resolve("127.0.0.1", port).at(0), std::chrono::steady_clock::now() + 5s);
    Claim claim{.from = 1, .to = 0, .size = 2};
    EXPECT_EQ(Introduce(rank0.socket, SecretFromEnvironment()->key, Purpose::kRendezvous, claim,
                        std::chrono::steady_clock::now() + 5s),
              Admission::kOtherSecret);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
}

// A program that listens at rank 0's port before rank 0 does. It answers each caller with random bytes as challenge and
// answer, or with nothing.
void Usurp(int port, std::chrono::milliseconds time, bool silent) {
  Socket listener = OpenListener("127.0.0.1", port);
  auto end = std::chrono::steady_clock::now() + time;
  std::vector<Socket> guests;
  while (WaitReady(listener.fd(), POLLIN, end)) {
    Socket guest(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    const uint32_t other_secret = 2;
    char bytes[68] = {};
    std::memcpy(bytes + 32, &other_secret, sizeof(other_secret));
    if (guest && !silent) send(guest.fd(), bytes, sizeof(bytes), MSG_NOSIGNAL);
    guests.push_back(std::move(guest));
  }
}

// Rank 1 starts before rank 0 and gets a false answer or none. It retries, and prints that it waits.
TEST(TcpExchange, AFalseRankZeroIsNotBelievedAtOnce) {
  for (bool silent : {false, true}) {
    SetOnly({{"WEFT_SECRET", "a secret of two ranks"}});
    int port = FreePort();
    auto codes = Fork(3, [&](int process) {
      if (process == 2) return Usurp(port, 1s, silent);
      std::this_thread::sleep_for(process == 0 ? 1500ms : 300ms);
      testing::internal::CaptureStderr();
      EXPECT_EQ(MakeTcpBootstrap(process, 2, "127.0.0.1", port, 30s)->AllGather("x").size(), 2u);
      std::string lines = testing::internal::GetCapturedStderr();
      bool is_told = lines.find("note: rank 1 tries again for 7500 ms") != std::string::npos;
      EXPECT_EQ(is_told, process == 1 && !silent) << lines;
    });
    EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
  }
}

// The error names a listener that stays silent until the timeout. A wrong secret is an error well before the timeout.
TEST(TcpExchange, SaysWhoIsSilentAndWhoHasAnotherSecret) {
  SetOnly({{"WEFT_SECRET", "a secret of two ranks"}});
  for (bool silent : {false, true}) {
    int port = FreePort();
    auto codes = Fork(2, [&](int process) {
      if (process == 1) return Usurp(port, 8s, silent);
      std::this_thread::sleep_for(200ms);
      testing::internal::CaptureStderr();
      auto begin = std::chrono::steady_clock::now();
      std::string error = ErrorOf([&] { MakeTcpBootstrap(1, 2, "127.0.0.1", port, silent ? 7s : 12s); });
      std::string lines = testing::internal::GetCapturedStderr();
      EXPECT_NE(error.find(silent ? "it does not answer" : "rank 1 cannot join rank 0 at 127.0.0.1:"),
                std::string::npos)
          << error;
      EXPECT_EQ(lines.find("note: rank 1 waits for rank 0 at 127.0.0.1:") != std::string::npos, silent) << lines;
      EXPECT_TRUE(silent || std::chrono::steady_clock::now() - begin < 8s);
    });
    EXPECT_EQ(codes, (std::vector<int>{0, 0}));
  }
}

TEST(TcpExchange, StrangersDoNotHoldUpTheRanks) {
  int port = FreePort();
  auto codes = Fork(3, [&](int rank) {
    if (rank < 2) {
      if (rank == 1) std::this_thread::sleep_for(300ms);
      EXPECT_EQ(MakeTcpBootstrap(rank, 2, "127.0.0.1", port, 10s)->AllGather(std::to_string(rank)),
                (std::vector<std::string>{"0", "1"}));
      return;
    }
    std::vector<Socket> strangers;
    for (int i = 0; i < 20; i++) {  // some stay silent, some disconnect, some send nonsense
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(uint16_t(port));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      Socket s(socket(AF_INET, SOCK_STREAM, 0));
      while (connect(s.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 && i == 0)
        std::this_thread::sleep_for(5ms);
      std::string nonsense(size_t(i % 3) * 11, char(i));
      send(s.fd(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL);
      if (i % 2) strangers.push_back(std::move(s));
    }
    std::this_thread::sleep_for(500ms);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
}

}  // namespace
}  // namespace weft
