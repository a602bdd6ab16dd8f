// StreamEncoder: the tokens of a text that comes in blocks. They are those of the whole text, however it is cut.
//
//   StreamEncoder encoder(tokenizer, [&](std::span<const int32_t> tokens) { return writer.Write(tokens); });
//   for (...) status = encoder.Add(block);
//   status = encoder.Finish();
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "parallel/train/tokenizer.h"

namespace weft {

class StreamEncoder {
 public:
  using Sink = std::function<absl::Status(std::span<const int32_t>)>;
  StreamEncoder(const Tokenizer& tokenizer, Sink sink) : tokenizer_(tokenizer), sink_(std::move(sink)) {}

  // `text` is whole code points where the tokenizer wants UTF-8.
  absl::Status Add(std::string_view text);
  absl::Status Finish() { return Encode(waiting_.size()); }

 private:
  absl::Status Encode(size_t size);

  const Tokenizer& tokenizer_;
  Sink sink_;
  std::string waiting_;  // for what follows
  int64_t offset_ = 0;   // of waiting_ in the text
};

}  // namespace weft
