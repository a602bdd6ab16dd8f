#include "weft/dist/start/input_pipe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "weft/core/base/error.h"

namespace weft {

InputPipe::InputPipe() {
  std::array<int, 2> ends{};
  WEFT_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, fmt::format("pipe: {}", std::strerror(errno)));
  out_ = Socket(ends[0]);
  in_ = Socket(ends[1]);
  ::fcntl(in_.fd(), F_SETFL, O_NONBLOCK);
  std::signal(SIGPIPE, SIG_IGN);  // a child that ends early is no error here
}

void InputPipe::PassOn() {
  while (in_ && Fill())
    if (!Drain()) return;
}

bool InputPipe::Fill() {
  if (!waiting_.empty()) return true;
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (!ended_ && ::poll(&input, 1, 0) == 1) {
    std::array<char, 4096> block{};
    ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
    if (got > 0) waiting_.assign(block.data(), size_t(got));
    ended_ = got <= 0;
  }
  if (waiting_.empty() && ended_) in_ = Socket();
  return !waiting_.empty();
}

bool InputPipe::Drain() {
  ssize_t written = ::write(in_.fd(), waiting_.data(), waiting_.size());
  if (written < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (written < 0) {
    in_ = Socket();
    return false;
  }
  waiting_.erase(0, size_t(written));
  return waiting_.empty();
}

}  // namespace weft
