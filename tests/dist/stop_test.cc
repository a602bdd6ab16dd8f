// Stopping a job: gates, signals, and requests on the side channel. Ranks are threads, each with a bootstrap over TCP.
#include "weft/dist/failure/stop_agreement.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>
#include <functional>
#include <thread>

#include "weft/core/base/error.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Reach = SideChannel::Reach;

// Runs fn(bootstrap) for all ranks of a world, in threads.
void RunWorld(int ranks, const std::function<void(Bootstrap&)>& fn) {
  int port = PortOf(OpenListener("127.0.0.1", 0));
  ForAllRanks(ranks, [&](int rank) {
    auto bootstrap = MakeTcpBootstrap(rank, ranks, "127.0.0.1", port, 20s);
    fn(*bootstrap);
  });
}

TEST(StopGate, GoesOnUntilTheAgreedPiece) {
  StopGate gate;
  EXPECT_TRUE(gate.Enter() && gate.Enter());
  EXPECT_EQ(gate.Hold(), 2);
  gate.Release(3, "SIGTERM");
  gate.Release(5, "SIGINT");
  EXPECT_EQ(gate.Hold(), 3);
  EXPECT_TRUE(gate.Enter());
  EXPECT_FALSE(gate.Enter());
  EXPECT_EQ(gate.cause(), "SIGTERM");
}

TEST(StopGate, HoldsWhoeverEnters) {
  StopGate gate;
  gate.Hold();
  std::atomic<bool> entered{false};
  std::thread rank([&] { entered = gate.Enter(); });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(entered);
  gate.Resume();
  rank.join();
  EXPECT_TRUE(entered);
}

TEST(SideChannel, AnswersWhileItIsOpen) {
  RunWorld(3, [](Bootstrap& bootstrap) {
    SideChannel channel(bootstrap);
    channel.On('E', [&](std::string_view text) { return std::to_string(channel.rank()) + std::string(text); });
    channel.Open();
    std::string text(100'000, 'x');
    auto replies = channel.AskAll('E', text, 5s);
    for (int r = 0; r < 3; r++) {
      EXPECT_EQ(replies[size_t(r)].reach, Reach::kAnswered);
      EXPECT_EQ(replies[size_t(r)].text, std::to_string(r) + text);
    }
    bootstrap.Barrier();
    if (bootstrap.rank() == 1) channel.Close();
    bootstrap.Barrier();
    if (bootstrap.rank() == 0) {
      EXPECT_EQ(channel.Ask(1, 'E', "", 5s).reach, Reach::kLeft);
      EXPECT_EQ(channel.Ask(2, 'E', "", 5s).reach, Reach::kAnswered);
    }
    bootstrap.Barrier();
  });
}

TEST(SideChannel, TellsSilenceFromAnAnswer) {
  RunWorld(2, [](Bootstrap& bootstrap) {
    SideChannel channel(bootstrap);
    channel.On('W', [](std::string_view) {
      std::this_thread::sleep_for(600ms);
      return std::string();
    });
    channel.Open();
    EXPECT_EQ(channel.Ask(1 - bootstrap.rank(), 'W', "", 100ms).reach, Reach::kSilent);
    bootstrap.Barrier();
  });
}

// Connects to a port of this host.
Socket Stranger(int port) {
  Address address = Resolve("127.0.0.1", port).at(0);
  Socket s(socket(address.family(), SOCK_STREAM, 0));
  EXPECT_EQ(connect(s.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length), 0);
  return s;
}

TEST(SideChannel, IgnoresStrangers) {
  RunWorld(2, [](Bootstrap& bootstrap) {
    SideChannel channel(bootstrap);
    channel.On('E', [](std::string_view) { return std::string("secret"); });
    channel.Open();
    int port = channel.peer(1).port;
    if (bootstrap.rank() == 0) {
      Socket s = Stranger(port);
      char guess[64] = "E";
      auto deadline = std::chrono::steady_clock::now() + 5s;
      WriteAll(s.fd(), guess, sizeof(guess), deadline, "a rank");
      EXPECT_THROW(ReadAll(s.fd(), guess, 1, deadline, "a rank"), Error);
      EXPECT_EQ(channel.Ask(1, 'E', "", 5s).text, "secret");
    }
    bootstrap.Barrier();
  });
}

// A stranger that sends nothing, or stops within its first message, must not delay others.
TEST(SideChannel, AnswersBesideSilentStrangers) {
  RunWorld(2, [](Bootstrap& bootstrap) {
    SideChannel channel(bootstrap);
    channel.On('E', [](std::string_view) { return std::string("answer"); });
    channel.Open();
    if (bootstrap.rank() == 0) {
      auto deadline = std::chrono::steady_clock::now() + 5s;
      std::vector<Socket> strangers;
      for (int i = 0; i < 100; i++) {
        strangers.push_back(Stranger(channel.peer(1).port));
        if (i % 2) WriteAll(strangers.back().fd(), "?", 1, deadline, "a stranger");
      }
      EXPECT_EQ(channel.Ask(1, 'E', "", 300ms).text, "answer");
    }
    bootstrap.Barrier();
  });
}

TEST(SignalCatcher, HoldsTheFirst) {
  SignalCatcher signals({SIGUSR1, SIGTERM});
  EXPECT_THROW(SignalCatcher({SIGUSR1}), Error);
  EXPECT_EQ(signals.signal(), 0);
  raise(SIGUSR1);
  raise(SIGTERM);  // a second signal of the same burst
  EXPECT_EQ(signals.signal(), SIGUSR1);
  pollfd ready{signals.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 1);
}

TEST(SignalCatcher, HoldsTheNextOnceItIsRearmed) {
  SignalCatcher signals({SIGINT, SIGUSR1}), others({SIGTERM});
  for (int signal : {SIGUSR1, SIGINT, SIGUSR1}) {
    raise(signal);
    EXPECT_EQ(signals.signal(), signal);
    EXPECT_EQ(others.signal(), 0);
    signals.Rearm();
    EXPECT_EQ(signals.signal(), 0);
    pollfd ready{signals.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 0), 0);
  }
  raise(SIGTERM);
  EXPECT_EQ(others.signal(), SIGTERM);
}

TEST(SignalCatcherDeathTest, ASecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        SignalCatcher signals({SIGTERM});
        raise(SIGTERM);
        std::this_thread::sleep_for(100ms);
        raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

// Ranks that work at their own pace, without collectives, stop after the same piece.
TEST(StopAgreement, AllRanksStopAfterTheSamePiece) {
  SignalCatcher signals({SIGUSR1});
  std::vector<int> done(4);
  RunWorld(4, [&](Bootstrap& bootstrap) {
    SideChannel channel(bootstrap);
    StopAgreement stop(channel);
    channel.Open();
    stop.Follow(signals);  // a signal to this process reaches all ranks
    int& mine = done[size_t(bootstrap.rank())];
    while (stop.gate().Enter()) {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * (bootstrap.rank() + 1)));
      if (++mine == 20 && bootstrap.rank() == 2) raise(SIGUSR1);
    }
    EXPECT_EQ(stop.gate().cause(), "SIGUSR1");
    bootstrap.Barrier();
  });
  EXPECT_GE(done[0], 20);
  for (int n : done) EXPECT_EQ(n, done[0]);
}

// A rank that does not answer for longer than the others wait is stopped when it answers again.
TEST(StopAgreement, AsksAgainOfARankThatStalled) {
  SignalCatcher signals({SIGINT});
  std::vector<int> done(2);
  RunWorld(2, [&](Bootstrap& bootstrap) {
    SideChannel channel(bootstrap);
    StopAgreement stop(channel);
    channel.On('Z', [](std::string_view) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return std::string();
    });
    channel.Open();
    if (bootstrap.rank() == 0) {
      stop.Follow(signals);
      channel.Ask(1, 'Z', "", std::chrono::milliseconds(10));
      raise(SIGINT);
    }
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    int& mine = done[size_t(bootstrap.rank())];
    for (; std::chrono::steady_clock::now() < end && stop.gate().Enter(); mine++)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(stop.gate().cause(), "SIGINT");
    bootstrap.Barrier();
  });
  EXPECT_EQ(done[0], done[1]);
}

}  // namespace
}  // namespace weft
