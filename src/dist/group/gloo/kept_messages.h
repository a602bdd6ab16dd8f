// KeptMessages: memory for messages that arrive before a receive is posted.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft {

// The number of early messages varies, and a training step must not allocate. So kBlocks blocks are allocated up front,
// whose pages stay untouched until use. Larger messages, and messages beyond kBlocks, are allocated one by one. Not
// thread-safe.
class KeptMessages {
 public:
  static constexpr size_t kBlocks = 64;
  struct Release {
    KeptMessages* owner = nullptr;
    void operator()(char* data) const { owner->Return(data); }
  };
  using Memory = std::unique_ptr<char[], Release>;

  explicit KeptMessages(size_t block_bytes);
  // Returns memory, never null, even for 0 bytes. It must not outlive this object.
  Memory Take(size_t bytes);

 private:
  void Return(char* data);

  const size_t block_bytes_;
  std::unique_ptr<char[]> blocks_;
  std::array<uint8_t, kBlocks> free_;  // the block released last comes last
  size_t num_free_ = kBlocks;
};

}  // namespace weft
