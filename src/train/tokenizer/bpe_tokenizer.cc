#include "weft/train/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <memory>

#include "fmt/format.h"

namespace weft {

const char* const kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

class BpeEncoder : public TokenEncoder {
 public:
  explicit BpeEncoder(std::shared_ptr<const BpeModel> model) : model_(std::move(model)), words_(model_->pairs) {
    for (const BpeModel::Split& split : model_->splits)
      searches_.push_back(split.pattern ? std::optional<RegexSearch>(*split.pattern) : std::nullopt);
  }

  absl::StatusOr<size_t> Encode(std::string_view text, bool ends, std::vector<int32_t>& tokens) override {
    if (absl::Status s = CheckUtf8(text, offset_); !s.ok()) return s;
    tokens_ = &tokens;
    absl::StatusOr<size_t> done = FindAdded(0, text, ends);
    if (done.ok()) offset_ += int64_t(*done);
    return done;
  }

 private:
  // Each of the functions below encodes the part of a piece that does not depend on the text that follows, or all of it
  // if the piece ends there. Each returns the number of bytes encoded.
  absl::StatusOr<size_t> FindAdded(size_t which, std::string_view text, bool ends) {
    if (which == model_->added.size()) return Split(0, text, ends);
    for (size_t at = 0;;) {
      auto [match, clear] = model_->added[which].Find(text, at, ends);
      absl::StatusOr<size_t> done = FindAdded(which + 1, text.substr(at, clear - at), ends || match.has_value());
      if (!done.ok()) return done;
      if (!match) return at + *done;
      tokens_->push_back(match->id);
      piece_begins_ = true;
      at = match->end;
    }
  }

  absl::StatusOr<size_t> Split(size_t step, std::string_view text, bool ends) {
    if (text.empty()) return 0;
    if (step == searches_.size()) return Word(text, ends);
    bool begins = step > 0 || piece_begins_, adds = begins && model_->splits[step].adds_space && text.front() != ' ';
    absl::StatusOr<size_t> done = adds ? Cut(step, fmt::format(" {}", text), ends) : Cut(step, text, ends);
    if (!done.ok() || *done == 0) return done;
    if (step == 0) piece_begins_ = false;
    return *done - size_t(adds);
  }

  absl::StatusOr<size_t> Cut(size_t step, std::string_view text, bool ends) {
    if (!searches_[step]) return ends ? Split(step + 1, text, ends) : 0;
    size_t done = 0;
    while (done < text.size()) {
      absl::StatusOr<std::optional<TextSpan>> match = searches_[step]->Next(text, done, ends);
      if (!match.ok()) return At(match.status(), done);
      if (!*match && !ends) break;
      TextSpan span = *match ? **match : TextSpan{text.size(), text.size()};
      for (auto [begin, end] : {TextSpan{done, span.begin}, span}) {
        absl::StatusOr<size_t> part = Split(step + 1, text.substr(begin, end - begin), true);
        if (!part.ok()) return part;
      }
      done = span.end;
    }
    return done;
  }

  absl::StatusOr<size_t> Word(std::string_view word, bool ends) {
    if (!ends) return 0;
    if (word.size() > WordEncoder::kLongest)
      return absl::InvalidArgumentError(fmt::format("expected words of at most {} bytes, got one of {} at offset {}",
                                                    WordEncoder::kLongest, word.size(), offset_));
    words_.Encode(word, *tokens_);
    return word.size();
  }

  absl::Status At(const absl::Status& status, size_t at) const {
    return absl::Status(status.code(),
                        fmt::format("{} near offset {}", std::string(status.message()), offset_ + int64_t(at)));
  }

  std::shared_ptr<const BpeModel> model_;
  WordEncoder words_;
  std::vector<std::optional<RegexSearch>> searches_;  // of the splits
  bool piece_begins_ = true;                          // whether the next byte starts a text or follows an added token
  int64_t offset_ = 0;
  std::vector<int32_t>* tokens_ = nullptr;
};

}  // namespace

Tokenizer BpeTokenizer(TokenizerKind kind, TokenizerFiles files, BpeModel model) {
  auto shared = std::make_shared<const BpeModel>(std::move(model));
  bool spaced = std::ranges::any_of(shared->splits, &BpeModel::Split::adds_space);
  return Tokenizer({.kind = kind,
                    .files = std::move(files),
                    .texts = shared->texts,
                    .begin = shared->begin,
                    .end_of_text = shared->end_of_text,
                    .mask = shared->mask,
                    .start = [shared] { return std::make_unique<BpeEncoder>(shared); },
                    .added = spaced ? shared->is_added : std::vector<bool>()});
}

}  // namespace weft
