#include "parallel/train/stream_encoder.h"

namespace weft {

absl::Status StreamEncoder::Add(std::string_view text) {
  waiting_ += text;
  return Encode(tokenizer_.Encodable(waiting_));
}

absl::Status StreamEncoder::Encode(size_t size) {
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer_.Encode(std::string_view(waiting_).substr(0, size), offset_);
  if (!tokens.ok()) return tokens.status();
  waiting_.erase(0, size);
  offset_ += int64_t(size);
  return sink_(*tokens);
}

}  // namespace weft
