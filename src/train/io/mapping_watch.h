// MappingWatch: detects bytes of a mapped file that could not be read.
//
// Touching a page that the disk fails to deliver (EIO), or that lies past the end of a truncated file, raises SIGBUS.
// By default that ends the process without a message. A watched mapping is replaced with zeros instead, all of it, and
// the offset of the first such access is recorded. Callers must check lost() before they use the bytes.
//
// A signal handler can only reach globals. This one walks a list of the watched mappings, whose nodes are never freed,
// and uses only async-signal-safe operations: loads and stores of lock-free numbers, and mmap. A SIGBUS at any other
// address is handled as it was before.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

struct WatchedMapping;

class MappingWatch {
 public:
  explicit MappingWatch(std::span<const std::byte> mapped);  // not empty; from mmap
  ~MappingWatch();                                           // before munmap
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  // Returns the offset of the first byte that could not be read, or -1 if there is none.
  int64_t lost() const;

 private:
  WatchedMapping* node_;
};

}  // namespace weft
