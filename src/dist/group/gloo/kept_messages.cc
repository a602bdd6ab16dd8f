#include "weft/dist/group/gloo/kept_messages.h"

namespace weft {

KeptMessages::KeptMessages(size_t block_bytes)
    : block_bytes_(block_bytes), blocks_(std::make_unique_for_overwrite<char[]>(kBlocks * block_bytes)) {
  for (size_t i = 0; i < kBlocks; i++) free_[i] = uint8_t(kBlocks - 1 - i);
}

KeptMessages::Memory KeptMessages::Take(size_t bytes) {
  if (bytes > block_bytes_ || num_free_ == 0) return Memory(new char[bytes], {this});
  return Memory(&blocks_[free_[--num_free_] * block_bytes_], {this});
}

void KeptMessages::Return(char* data) {
  size_t offset = size_t(reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(blocks_.get()));
  if (offset < kBlocks * block_bytes_)
    free_[num_free_++] = uint8_t(offset / block_bytes_);
  else
    delete[] data;
}

}  // namespace weft
