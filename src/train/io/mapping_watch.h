// MappingWatch: whether all of a mapped file could be read.
//
// Touching a page that the disk does not give (EIO), or that is past the end of a file that was cut short, raises
// SIGBUS, which ends the process without a word. Watched mappings have zeros there instead, all over the mapping, and
// note the first such place. Whoever reads asks afterwards, before the bytes are used.
//
// A handler reaches nothing but globals. This one reaches a list of the watched mappings, whose nodes are never freed,
// and does there what a handler may: loads and stores of lock-free numbers, and mmap. A SIGBUS from elsewhere does what
// it did before.
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

  // The offset of the first byte that could not be read, -1 where there is none.
  int64_t lost() const;

 private:
  WatchedMapping* node_;
};

}  // namespace weft
