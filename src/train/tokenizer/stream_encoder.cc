#include "weft/train/tokenizer/stream_encoder.h"

namespace weft {

absl::Status StreamEncoder::BeginDocument() {
  std::optional<int32_t> end = tokenizer_.end_of_text();
  if (!end || !has_text_) return absl::OkStatus();
  if (absl::Status s = Encode(/*ends=*/true); !s.ok()) return s;
  encoder_ = tokenizer_.Start();
  due_ = 0;
  return sink_({&*end, 1});
}

absl::Status StreamEncoder::Add(std::string_view text) {
  has_text_ = has_text_ || !text.empty();
  waiting_ += text;
  return waiting_.size() < due_ ? absl::OkStatus() : Encode(/*ends=*/false);
}

absl::Status StreamEncoder::Encode(bool ends) {
  if (waiting_.empty()) return absl::OkStatus();
  std::vector<int32_t> tokens = std::exchange(begin_, {});
  absl::StatusOr<size_t> done = encoder_->Encode(waiting_, ends, tokens);
  if (!done.ok()) return done.status();
  waiting_.erase(0, *done);
  due_ = 2 * waiting_.size();  // so that a word of many blocks is tried a few times, not once per block
  return sink_(tokens);
}

}  // namespace weft
