#include "weft/dist/group/gloo/socket_frames.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft {
namespace {

constexpr size_t kParts = 16;             // per write
constexpr uint64_t kPayload = 128 << 10;  // per read, so that other sockets and writes have their turn
constexpr size_t kWritten = 256;          // written frames that are kept before the list is compacted

iovec Part(const void* data, uint64_t bytes) { return {const_cast<void*>(data), size_t(bytes)}; }

}  // namespace

void FrameWriter::Push(const FrameHeader& header, const char* payload, SocketBuffer* owner) {
  if (first_ >= kWritten) {  // new frames may keep the list from becoming empty
    frames_.erase(frames_.begin(), frames_.begin() + std::ptrdiff_t(first_));
    first_ = 0;
  }
  frames_.push_back({header, payload, owner});
}

void FrameWriter::Clear() {
  frames_.clear();
  first_ = 0;
  written_ = 0;
}

int FrameWriter::Flush(int fd, std::vector<SocketBuffer*>& written) {
  while (!empty()) {
    iovec parts[kParts];
    size_t count = 0;
    uint64_t skip = written_;
    auto add = [&](const void* data, uint64_t bytes) {
      uint64_t cut = std::min(skip, bytes);
      skip -= cut;
      if (cut < bytes) parts[count++] = Part(static_cast<const char*>(data) + cut, bytes - cut);
    };
    for (size_t i = first_; i < frames_.size() && count + 2 <= kParts; i++) {
      add(&frames_[i].header, sizeof(FrameHeader));
      if (frames_[i].payload) add(frames_[i].payload, frames_[i].header.bytes);
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN ? 0 : errno;
    Advance(uint64_t(n), written);
  }
  Clear();
  return 0;
}

void FrameWriter::Advance(uint64_t bytes, std::vector<SocketBuffer*>& written) {
  written_ += bytes;
  while (!empty() && written_ >= frames_[first_].bytes()) {
    written_ -= frames_[first_].bytes();
    if (frames_[first_].owner) written.push_back(frames_[first_].owner);
    first_++;
  }
}

bool FrameReader::HasPayload(FrameKind kind) {
  return kind == FrameKind::kEager || kind == FrameKind::kDirect || kind == FrameKind::kBody;
}

void FrameReader::Redirect(char* payload) {
  if (got_) std::memcpy(payload, payload_, got_);
  payload_ = payload;
}

// Processes the staged frames and parts of a payload.
void FrameReader::Take(Sink& sink) {
  for (;;) {
    uint64_t part = std::min<uint64_t>(bytes_ - got_, end_ - begin_);
    if (part) std::memcpy(payload_ + got_, staged_.get() + begin_, part);
    got_ += part;
    begin_ += part;
    if (part && got_ == bytes_) sink.End();
    if (got_ < bytes_ || end_ - begin_ < sizeof(FrameHeader)) return;
    FrameHeader header;
    std::memcpy(&header, staged_.get() + begin_, sizeof(header));
    begin_ += sizeof(header);
    got_ = 0;
    bytes_ = HasPayload(header.kind) ? header.bytes : 0;
    payload_ = sink.Begin(header);
    if (HasPayload(header.kind) && bytes_ == 0) sink.End();
  }
}

int FrameReader::Read(int fd, Sink& sink) {
  for (int i = 0; i < kReads; i++) {
    if (begin_ > 0) std::memmove(staged_.get(), staged_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    uint64_t left = std::min(bytes_ - got_, kPayload), staged = got_ + left < bytes_ ? 0 : kStaged - end_;
    iovec parts[] = {Part(payload_ + got_, left), Part(staged_.get() + end_, staged)};
    msghdr message{};
    message.msg_iov = left ? parts : parts + 1;
    message.msg_iovlen = left && staged ? 2 : 1;
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN ? 0 : errno;
    if (n == 0) return kClosed;
    uint64_t direct = std::min(left, uint64_t(n));
    got_ += direct;
    end_ += size_t(n) - direct;
    if (direct && got_ == bytes_) sink.End();
    Take(sink);
    if (uint64_t(n) < left + staged) return 0;
  }
  return 0;
}

}  // namespace weft
