// Frames: the encoding of slot messages on a socket. A frame is a header and, for some kinds, a payload.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

class SocketBuffer;

enum class FrameKind : uint32_t {
  kEager = 1,  // a small message, expected or not; the payload follows
  kOffer,      // a message of `bytes` waits for a permit
  kPermit,     // memory of `bytes` waits for a message
  kDirect,     // a message that was not offered, because there was a permit; the payload follows
  kBody,       // the payload of an offered message
  kCredit      // `bytes` of small messages have been taken
};

struct FrameHeader {
  uint64_t slot = 0;
  uint64_t bytes = 0;
  FrameKind kind{};
  uint32_t none = 0;
};

// Queues and writes frames. Not thread-safe.
class FrameWriter {
 public:
  FrameWriter() { frames_.reserve(32); }  // enough for a step without an allocation
  // Queues a frame. The payload must stay valid until it is written, and belongs to `owner`. A frame without a payload
  // has no owner.
  void Push(const FrameHeader& header, const char* payload = nullptr, SocketBuffer* owner = nullptr);
  bool empty() const { return first_ == frames_.size(); }
  // Writes as much as the socket accepts. Returns 0 or errno, and appends the owners of written payloads.
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
  size_t first_ = 0;      // the first unwritten frame
  uint64_t written_ = 0;  // bytes of that frame that are written
};

// Reads frames. Not thread-safe.
class FrameReader {
 public:
  // Receives frames. Begin returns the memory for the payload, if any. End is called after the payload.
  class Sink {
   public:
    virtual char* Begin(const FrameHeader& header) = 0;
    virtual void End() = 0;

   protected:
    ~Sink() = default;
  };
  // Reads per call, so that other sockets have their turn.
  static constexpr int kReads = 16;

  // Reads the available data. Returns 0, errno, or kClosed if the other side has closed the connection.
  static constexpr int kClosed = -1;
  int Read(int fd, Sink& sink);
  // Moves the part of the current payload that has arrived to `payload`, and reads the rest there too.
  void Redirect(char* payload);

 private:
  static constexpr size_t kStaged = 32 << 10;
  void Take(Sink& sink);
  static bool HasPayload(FrameKind kind);

  std::unique_ptr<char[]> staged_ = std::make_unique_for_overwrite<char[]>(kStaged);
  size_t begin_ = 0, end_ = 0;    // the staged bytes
  char* payload_ = nullptr;       // the current payload
  uint64_t bytes_ = 0, got_ = 0;  // its size, and the bytes that have arrived
};

}  // namespace weft
