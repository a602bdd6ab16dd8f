// StreamEncoder: encodes documents that arrive in blocks. The tokens do not depend on the block boundaries. Tokens that
// every text begins with come once, before the first document. An end-of-text token separates documents.
//
//   StreamEncoder encoder(tokenizer, [&](std::span<const int32_t> tokens) { return writer.Write(tokens); });
//   for (...) status = encoder.Add(block);
//   status = encoder.Finish();
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

class StreamEncoder {
 public:
  using Sink = std::function<absl::Status(std::span<const int32_t>)>;
  StreamEncoder(const Tokenizer& tokenizer, Sink sink)
      : tokenizer_(tokenizer), begin_(tokenizer.begin()), encoder_(tokenizer.Start()), sink_(std::move(sink)) {}

  // Text added from here on belongs to a new document. Without an end-of-text token it continues the previous text.
  absl::Status BeginDocument();
  // Requires whole code points if the tokenizer requires UTF-8.
  absl::Status Add(std::string_view text);
  absl::Status Finish() { return Encode(/*ends=*/true); }

 private:
  absl::Status Encode(bool ends);

  Tokenizer tokenizer_;
  std::vector<int32_t> begin_;  // still to be written before the first token
  std::unique_ptr<TokenEncoder> encoder_;
  Sink sink_;
  std::string waiting_;  // text not encoded yet
  size_t due_ = 0;       // size of waiting_ from which Add tries again
  bool has_text_ = false;
};

}  // namespace weft
