// What strangers can send to a rank: a listener's handshake, a caller's handshake, and the frames of a pair. No input
// may be accepted as proven, and readers must read only the bytes that are there.
#include <sys/socket.h>

#include <chrono>
#include <cstring>

#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "weft/dist/group/gloo/socket_frames.h"
#include "weft/dist/net/handshake.h"

namespace {

using namespace weft;

struct Ends {
  Socket ours, theirs;
};
Ends Connected() {
  int fds[2];
  fuzz::Check(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "two sockets can be made");
  return {Socket(fds[0]), Socket(fds[1])};
}

// Sends `text` from the other end and closes it.
void Say(Ends& ends, std::string_view text) {
  fuzz::Check(::send(ends.theirs.fd(), text.data(), text.size(), MSG_DONTWAIT) == ssize_t(text.size()), "it is sent");
  ::shutdown(ends.theirs.fd(), SHUT_WR);
}

// Sends the text in pieces. A listener never waits for more bytes than are there.
void Listen(std::string_view text) {
  Ends ends = Connected();
  Guest guest(std::move(ends.ours), "a stranger", std::chrono::steady_clock::time_point::max());
  size_t piece = text.empty() ? 1 : 1 + size_t(uint8_t(text.back()));
  Guest::Step step = Guest::Step::kWaiting;
  for (; step == Guest::Step::kWaiting && !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    std::string_view part = text.substr(0, piece);
    fuzz::Check(::send(ends.theirs.fd(), part.data(), part.size(), MSG_DONTWAIT) == ssize_t(part.size()), "it is sent");
    step = guest.Advance(Key{1});
  }
  fuzz::Check(step != Guest::Step::kProven, "no stranger is proven");
  fuzz::Check((step == Guest::Step::kRefused) != guest.reason().empty(), "a refusal has a reason");
}

void Call(std::string_view text) {
  Ends ends = Connected();
  Say(ends, text);
  Admission admission = Introduce(ends.ours, Key{1}, Purpose::kPair, {}, std::chrono::steady_clock::now());
  fuzz::Check(!IsProven(admission), "no stranger is proven");
}

// Takes frames as SocketPair does: a payload has only the granted room, and no more is read.
class Room final : public FrameReader::Sink {
 public:
  char* Begin(const FrameHeader& header) override {
    fuzz::Check(!under_way_, "payloads do not overlap");
    bool has_payload =
        header.kind == FrameKind::kEager || header.kind == FrameKind::kDirect || header.kind == FrameKind::kBody;
    under_way_ = has_payload;
    if (has_payload && header.bytes > sizeof(room_)) throw kTooLong;  // a pair fails here
    return room_;
  }
  void End() override { under_way_ = false; }

 private:
  static constexpr int kTooLong = 1;
  char room_[4096];
  bool under_way_ = false;
};

void ReadFrames(std::string_view text) {
  Ends ends = Connected();
  Say(ends, text);
  FrameReader reader;
  Room room;
  try {
    for (int error = 0; error == 0;) error = reader.Read(ends.ours.fd(), room);
  } catch (int) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > (64 << 10)) return 0;
  fuzz::AllocationBound bound(size, {.largest = 40 << 10, .live = 48 << 10});
  std::string_view text = fuzz::Text(data + 1, size - 1);
  if (data[0] % 3 == 0) Listen(text);
  if (data[0] % 3 == 1) Call(text);
  if (data[0] % 3 == 2) ReadFrames(text);
  return 0;
}
