#include "weft/dist/start/mpirun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "weft/core/base/error.h"
#include "weft/core/host/message.h"
#include "weft/dist/signals/signal_catcher.h"
#include "weft/dist/start/input_pipe.h"
#include "weft/dist/start/open_mpi.h"
#include "weft/dist/start/terminal.h"

namespace weft {
namespace {

// A pipe that is closed on exec.
struct Pipe {
  Pipe() { WEFT_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, fmt::format("pipe: {}", std::strerror(errno))); }
  ~Pipe() {
    for (int end : ends) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  std::array<int, 2> ends{};
};

// Runs in the child after fork, which has only one thread, so it makes only system calls. A process group of its own
// keeps the terminal's ctrl-C from mpirun, which would leave the ranks only about a second. Such a group must not read
// the terminal, so its stdin is `input`, or nothing if that is negative.
[[noreturn]] void Become(char** arguments, pid_t parent, int told, int input) {
  ::setpgid(0, 0);
  if (input < 0) input = ::open("/dev/null", O_RDONLY);
  if (input > 0) ::dup2(input, STDIN_FILENO);
  ::signal(SIGPIPE, SIG_DFL);  // ignored signals stay ignored across exec
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == parent) ::execvp(arguments[0], arguments);
  int error = errno;
  ssize_t written = ::write(told, &error, sizeof error);
  ::_exit(written == sizeof error ? 1 : 2);
}

// Returns the process id of the command once it has been found and executed.
pid_t Start(std::vector<std::string> command, int input) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Pipe pipe;
  pid_t parent = ::getpid(), child = ::fork();
  WEFT_CHECK(child >= 0, fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) Become(arguments.data(), parent, pipe.ends[1], input);
  ::close(std::exchange(pipe.ends[1], -1));
  int error = 0;
  if (::read(pipe.ends[0], &error, sizeof error) != sizeof error) return child;  // closed by exec
  ::waitpid(child, nullptr, 0);
  Fail(fmt::format("ranks: {} cannot be started ({}); install Open MPI (launcher/setup.sh does), or run without ranks",
                   command[0], std::strerror(error)));
}

// Turns off what mpirun prints when a rank ends with another exit code than 0: a dozen lines after that rank's own one.
void QuietMpirun() {
  for (const char* name : {"OMPI_MCA_orte_execute_quiet", "PRTE_MCA_prte_execute_quiet"})
    ::setenv(name, "1", /*overwrite=*/0);
}

}  // namespace

int RunMpirun(int ranks, const std::vector<std::string>& command, RankControl control) {
  for (auto [name, value] : MpirunVariables()) ::setenv(name, value, /*overwrite=*/0);
  QuietMpirun();
  ShareTerminal();
  std::vector<std::string> words = {"mpirun", "-np", fmt::format("{}", ranks)};
  words.insert(words.end(), command.begin(), command.end());
  SignalCatcher signals({SIGTERM, SIGINT, SIGUSR1});
  SignalRelay relay(signals, control);
  std::optional<InputPipe> input;
  if (control == RankControl::kConverse) input.emplace();
  pid_t mpirun = Start(words, input ? input->child_end() : -1);
  if (input) input->CloseChildEnd();
  for (;;) {
    int status = 0;
    pid_t ended = ::waitpid(mpirun, &status, WNOHANG);
    WEFT_CHECK(ended >= 0 || errno == EINTR, fmt::format("waitpid: {}", std::strerror(errno)));
    if (ended == mpirun) return relay.ExitCode(status);
    relay.Act(mpirun);
    if (input) input->PassOn();
    constexpr int kPauseMs = 20;
    pollfd event{.fd = signals.signal() != 0 ? -1 : signals.fd(), .events = POLLIN, .revents = 0};
    ::poll(&event, 1, kPauseMs);
  }
}

std::vector<std::string> OwnCommand() {
  std::array<char, PATH_MAX> path{};
  ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> command;
  for (std::string word; std::getline(file, word, '\0');) command.push_back(word);
  WEFT_CHECK(size > 0 && !command.empty(), "ranks: /proc/self does not say which program this is; use mpirun instead");
  command[0].assign(path.data(), size_t(size));
  return command;
}

}  // namespace weft
