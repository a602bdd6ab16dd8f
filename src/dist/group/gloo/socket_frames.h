// Frames: how a pair of sockets carries messages of Gloo's slots. A frame is a header and, of some kinds, a payload.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

class SocketBuffer;

enum class FrameKind : uint32_t {
  kEager = 1,  // a small message, whether or not it is expected; the payload follows
  kOffer,      // a message of `bytes` waits for a permit
  kPermit,     // memory of `bytes` waits for a message
  kDirect,     // a message that was not offered, because a permit was there; the payload follows
  kBody,       // the payload of a message that was offered
  kCredit      // of small messages `bytes` have been taken
};

struct FrameHeader {
  uint64_t slot = 0;
  uint64_t bytes = 0;
  FrameKind kind{};
  uint32_t none = 0;
};

// What is to be written. Not thread-safe.
class FrameWriter {
 public:
  FrameWriter() { frames_.reserve(32); }  // as many wait in a step without an allocation
  // A payload stays where it is until it is written, and belongs to `owner`; a frame without one has none.
  void Push(const FrameHeader& header, const char* payload = nullptr, SocketBuffer* owner = nullptr);
  bool empty() const { return first_ == frames_.size(); }
  // Writes what the socket takes. Returns 0 or errno, and appends the owners of payloads that are written.
  int Flush(int fd, std::vector<SocketBuffer*>& written);
  template <class Fn>
  void ForEachOwner(Fn fn) const {
    for (size_t i = first_; i < frames_.size(); i++)
      if (frames_[i].owner) fn(frames_[i].owner);
  }
  void Clear();

 private:
  struct Frame {
    FrameHeader header;
    const char* payload;
    SocketBuffer* owner;
    uint64_t bytes() const { return sizeof(header) + (payload ? header.bytes : 0); }
  };
  void Advance(uint64_t bytes, std::vector<SocketBuffer*>& written);

  std::vector<Frame> frames_;
  size_t first_ = 0;      // not written
  uint64_t written_ = 0;  // of the first one
};

// What is read. Not thread-safe.
class FrameReader {
 public:
  // Takes frames. The memory of Begin receives the payload, unless it is empty; then End is called.
  class Sink {
   public:
    virtual char* Begin(const FrameHeader& header) = 0;
    virtual void End() = 0;

   protected:
    ~Sink() = default;
  };
  // Of one call, before other sockets have their turn.
  static constexpr int kReads = 16;

  // Reads what is there. Returns 0, errno, or kClosed when the other side has closed the connection.
  static constexpr int kClosed = -1;
  int Read(int fd, Sink& sink);
  // The rest of the payload that is under way goes to the memory that begins at `payload`, as did its beginning.
  void Redirect(char* payload);

 private:
  static constexpr size_t kStaged = 32 << 10;
  void Take(Sink& sink);
  static bool HasPayload(FrameKind kind);

  std::unique_ptr<char[]> staged_ = std::make_unique_for_overwrite<char[]>(kStaged);
  size_t begin_ = 0, end_ = 0;    // of what is staged
  char* payload_ = nullptr;       // that is under way
  uint64_t bytes_ = 0, got_ = 0;  // of it
};

}  // namespace weft
