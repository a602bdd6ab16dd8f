// StreamEncoder: the tokens of documents that come in blocks. The tokens of a document are those of its whole text,
// however it is cut. Those that every text begins with come first, once; an end-of-text token comes between documents.
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

  // What is added from here on is another document. Without an end-of-text token it continues the text before it.
  absl::Status BeginDocument();
  // `text` is whole code points where the tokenizer wants UTF-8.
  absl::Status Add(std::string_view text);
  absl::Status Finish() { return Encode(/*ends=*/true); }

 private:
  absl::Status Encode(bool ends);

  Tokenizer tokenizer_;
  std::vector<int32_t> begin_;  // to be given before the first token
  std::unique_ptr<TokenEncoder> encoder_;
  Sink sink_;
  std::string waiting_;  // for what follows
  size_t due_ = 0;       // bytes of it that are worth a try
  bool has_text_ = false;
};

}  // namespace weft
