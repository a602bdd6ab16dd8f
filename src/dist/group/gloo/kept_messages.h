// KeptMessages: memory for messages that a context of sockets has read before anyone asked for them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft {

// How many messages are early depends on the moment, and a step of training is not to allocate: so there are kBlocks
// blocks from the start, of pages that nothing has touched. Larger messages and more of them are allocated.
// Not thread-safe.
class KeptMessages {
 public:
  static constexpr size_t kBlocks = 64;
  struct Release {
    KeptMessages* owner = nullptr;
    void operator()(char* data) const { owner->Return(data); }
  };
  using Memory = std::unique_ptr<char[], Release>;

  explicit KeptMessages(size_t block_bytes);
  // Not null, also of no bytes. It must not outlive this object.
  Memory Take(size_t bytes);

 private:
  void Return(char* data);

  const size_t block_bytes_;
  std::unique_ptr<char[]> blocks_;
  std::array<uint8_t, kBlocks> free_;  // the one that was used last comes last
  size_t num_free_ = kBlocks;
};

}  // namespace weft
