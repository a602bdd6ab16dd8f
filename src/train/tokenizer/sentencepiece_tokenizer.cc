#include "weft/train/tokenizer/sentencepiece_tokenizer.h"

#include <algorithm>
#include <thread>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "weft/core/host/utf8.h"
#include "weft/train/io/json_object.h"
#include "weft/train/tokenizer/sentencepiece_library.h"

namespace weft {
namespace {

constexpr size_t kLongestLine = size_t{1} << 14;
constexpr std::string_view kSpace = "\xE2\x96\x81";  // how pieces spell a space

// Returns the end of the text's first line, or of the first part of a long line. Returns 0 if that lies beyond `text`.
size_t LineEnd(std::string_view text) {
  std::string_view line = text.substr(0, kLongestLine);
  if (size_t newline = line.find('\n'); newline != line.npos) return newline + 1;
  return text.size() < kLongestLine ? 0 : WholeCodePoints(line);
}

// State shared by the encoders of all texts.
struct Pieces {
  std::unique_ptr<SentencePieceModel> model;
  // For the lines after a text's first; null: `model` encodes all lines.
  std::unique_ptr<SentencePieceModel> unprefixed;
  std::vector<int32_t> space_bytes;  // the byte pieces of U+2581; empty: the model encodes that character
};

class SentencePieceEncoder : public TokenEncoder {
 public:
  explicit SentencePieceEncoder(std::shared_ptr<const Pieces> pieces)
      : pieces_(std::move(pieces)), model_(pieces_->model.get()) {}

  absl::StatusOr<size_t> Encode(std::string_view text, bool ends, std::vector<int32_t>& tokens) override {
    if (absl::Status s = CheckUtf8(text, offset_); !s.ok()) return s;
    size_t done = 0;
    while (done < text.size()) {
      size_t end = LineEnd(text.substr(done));
      if (end == 0 && !ends) break;
      if (end == 0) end = text.size() - done;
      EncodeLine(text.substr(done, end), tokens);
      if (pieces_->unprefixed) model_ = pieces_->unprefixed.get();
      done += end;
    }
    offset_ += int64_t(done);
    return done;
  }

 private:
  // The model would decode U+2581 in the text as a space, so it is encoded as bytes instead.
  void EncodeLine(std::string_view line, std::vector<int32_t>& tokens) const {
    const std::vector<int32_t>& space_bytes = pieces_->space_bytes;
    for (size_t at = 0; !space_bytes.empty() && (at = line.find(kSpace)) != line.npos;) {
      if (at > 0) model_->Encode(line.substr(0, at), tokens);
      tokens.insert(tokens.end(), space_bytes.begin(), space_bytes.end());
      line.remove_prefix(at + kSpace.size());
    }
    if (!line.empty()) model_->Encode(line, tokens);
  }

  std::shared_ptr<const Pieces> pieces_;
  const SentencePieceModel* model_;  // for the next line
  int64_t offset_ = 0;
};

// For example, returns 10 for "<0x0A>".
char ByteOf(const std::string& spelling) {
  int byte = 0;
  return spelling.size() == 6 && absl::SimpleHexAtoi(spelling.substr(3, 2), &byte) ? char(byte) : '?';
}

std::string TextOf(const SentencePieceModel::Piece& piece) {
  switch (piece.kind) {
    case SentencePieceModel::kControl:
      return "";
    case SentencePieceModel::kUnknown:
      return "\xEF\xBF\xBD";
    case SentencePieceModel::kByte:
      return std::string(1, ByteOf(piece.spelling));
    case SentencePieceModel::kText:
      break;
  }
  std::string text = piece.spelling;
  for (size_t at = 0; (at = text.find(kSpace, at)) != text.npos; at++) text.replace(at, kSpace.size(), " ");
  return text;
}

// Returns the ids of the bytes of U+2581, or nothing if the model has no byte pieces.
std::vector<int32_t> SpaceBytes(const std::vector<SentencePieceModel::Piece>& pieces) {
  std::vector<int32_t> numbers;
  for (char byte : kSpace)
    for (size_t i = 0; i < pieces.size(); i++)
      if (pieces[i].kind == SentencePieceModel::kByte && ByteOf(pieces[i].spelling) == byte)
        numbers.push_back(int32_t(i));
  return numbers.size() == kSpace.size() ? numbers : std::vector<int32_t>();
}

// Supplies training sentences for the library: the lines of a text without their newlines.
class Lines {
 public:
  Lines(const NextText& next, double share) : next_(next), share_(share) {}

  bool Next(std::string& line) {
    while (Cut(line)) {
      seen_ += double(line.size());
      bool due = !line.empty() && taken_ <= seen_ * share_;
      if (!due) continue;
      taken_ += double(line.size());
      return true;
    }
    return false;
  }
  const absl::Status& status() const { return status_; }

 private:
  bool Cut(std::string& line) {
    size_t end = 0;
    while ((end = LineEnd(std::string_view(text_).substr(at_))) == 0 && Read()) {
    }
    if (end == 0) end = text_.size() - at_;
    if (end == 0 || !status_.ok()) return false;
    line.assign(text_, at_, end);
    at_ += end;
    if (line.back() == '\n') line.pop_back();
    return true;
  }

  bool Read() {
    absl::StatusOr<std::string_view> more = next_();
    status_ = more.status();
    if (!more.ok() || more->empty()) return false;
    text_.erase(0, at_);
    at_ = 0;
    text_ += *more;
    return true;
  }

  const NextText& next_;
  double share_, seen_ = 0, taken_ = 0;  // in bytes
  std::string text_;
  size_t at_ = 0;  // where the next line begins
  absl::Status status_;
};

// Rewrites an error of the library in terms of the vocab that the user asked for.
absl::Status LearningFault(const std::string& fault, int64_t vocab) {
  size_t at = fault.find("required_chars. ");
  size_t versus = at == fault.npos ? fault.npos : fault.find(" vs ", at);
  int64_t least = 0;
  if (versus != fault.npos) {
    std::string number = fault.substr(versus + 4);
    if (absl::SimpleAtoi(number.substr(0, number.find('.')), &least))
      return absl::InvalidArgumentError(
          fmt::format("expected a vocab of at least the {} pieces that the characters of this text, 256 bytes and 3 "
                      "marks are, got {}; raise it",
                      least, vocab));
  }
  return absl::InvalidArgumentError(fmt::format("no pieces could be learned from this text: {}", fault));
}

std::vector<int32_t> TokensOf(const SentencePieceModel& model, std::string_view text) {
  std::vector<int32_t> tokens;
  model.Encode(text, tokens);
  return tokens;
}

// Returns the model without the space that it puts before a text, for the lines after a text's first. Returns null if
// encoding line by line in this way differs from encoding the whole text with `model`.
std::unique_ptr<SentencePieceModel> Unprefixed(const SentencePieceModel& model, const std::string& table) {
  // In a protobuf a later field overrides an earlier one: normalizer_spec { add_dummy_prefix: false }.
  constexpr std::string_view kField("\x1A\x02\x18\x00", 4);
  std::string fault;
  std::unique_ptr<SentencePieceModel> other = SentencePieceModel::Open(table + std::string(kField), fault);
  if (!other) return nullptr;
  std::vector<int32_t> lines = TokensOf(model, "a\n"), second = TokensOf(*other, "a");
  lines.insert(lines.end(), second.begin(), second.end());
  return lines == TokensOf(model, "a\na") ? std::move(other) : nullptr;
}

// A mask is a control piece, which has no text, or a piece that the user defined.
std::optional<int32_t> MaskOf(const std::vector<SentencePieceModel::Piece>& pieces) {
  for (const char* spelling : kMaskSpellings)
    for (size_t i = 0; i < pieces.size(); i++)
      if (pieces[i].spelling == spelling) return int32_t(i);
  return std::nullopt;
}

// Whether each text begins with <s>. Returns an error if the settings add a token at the end.
absl::StatusOr<bool> AddsBegin(const std::string& settings) {
  if (settings.empty()) return false;
  absl::StatusOr<nlohmann::json> json = ParseJsonObject(std::as_bytes(std::span(settings)), kTokenizerSettings);
  if (!json.ok()) return json.status();
  for (const char* key : {"add_bos_token", "add_eos_token"})
    if (json->contains(key) && !(*json)[key].is_boolean() && !(*json)[key].is_null())
      return absl::InvalidArgumentError(
          fmt::format("{}: {}: expected true or false, got {}", kTokenizerSettings, key, Shown((*json)[key])));
  auto is = [&](const char* key, const nlohmann::json& value) { return json->contains(key) && (*json)[key] == value; };
  if (is("add_eos_token", true))
    return absl::InvalidArgumentError(
        fmt::format("{}: add_eos_token: expected false, got true, which weft does not have", kTokenizerSettings));
  if (is("add_bos_token", true) || is("add_bos_token", false)) return is("add_bos_token", true);
  return is("tokenizer_class", "LlamaTokenizer") || is("tokenizer_class", "LlamaTokenizerFast");
}

}  // namespace

absl::StatusOr<Tokenizer> SentencePieceTokenizer(TokenizerFiles files) {
  std::string fault;
  auto shared = std::make_shared<Pieces>();
  shared->model = SentencePieceModel::Open(files.table, fault);
  if (!shared->model) return absl::InvalidArgumentError(fault);
  absl::StatusOr<bool> adds_begin = AddsBegin(files.settings);
  if (!adds_begin.ok()) return adds_begin.status();
  std::vector<int32_t> begin;
  if (*adds_begin) begin.push_back(shared->model->BeginOfText());
  if (*adds_begin && begin[0] < 0)
    return absl::InvalidArgumentError(
        fmt::format("{}: add_bos_token: expected a model with <s>, got one without", kTokenizerSettings));
  std::vector<SentencePieceModel::Piece> pieces = shared->model->Pieces();
  std::vector<std::string> texts;
  for (const SentencePieceModel::Piece& piece : pieces) texts.push_back(TextOf(piece));
  std::vector<int32_t> probe = TokensOf(*shared->model, "a");
  bool prefixed = !probe.empty() && texts[size_t(probe[0])].starts_with(' ');
  if (prefixed) shared->unprefixed = Unprefixed(*shared->model, files.table);
  // If the model puts a space before a text, the parts of a line would each get one, so lines are not split at U+2581.
  if (!prefixed) shared->space_bytes = SpaceBytes(pieces);
  bool once = shared->unprefixed != nullptr;
  int end = shared->model->EndOfText();
  return Tokenizer({.kind = TokenizerKind::kSentencePiece,
                    .files = std::move(files),
                    .texts = std::move(texts),
                    .begin = std::move(begin),
                    .end_of_text = end < 0 ? std::nullopt : std::optional<int32_t>(end),
                    .mask = MaskOf(pieces),
                    .start = [shared] { return std::make_unique<SentencePieceEncoder>(shared); },
                    .lines_are_prefixed = prefixed && !once,
                    .added = once ? std::vector<bool>(pieces.size()) : std::vector<bool>()});
}

absl::StatusOr<std::string> LearnSentencePiece(const NextText& next, int64_t vocab, double share) {
  constexpr int kMostThreads = 128;
  Lines lines(next, share);
  std::string fault;
  SentencePieceOptions options{.vocab = vocab,
                               .longest_sentence = int64_t(kLongestLine),
                               .threads = std::clamp(int(std::thread::hardware_concurrency()), 1, kMostThreads)};
  std::string bytes = LearnSentencePieces(
      options, [&](std::string& line) { return lines.Next(line); }, fault);
  if (!lines.status().ok()) return lines.status();
  if (bytes.empty()) return LearningFault(fault, vocab);
  std::unique_ptr<SentencePieceModel> model = SentencePieceModel::Open(bytes, fault);
  auto found = model ? int64_t(model->Pieces().size()) : 0;
  if (found < vocab)
    return absl::InvalidArgumentError(
        fmt::format("expected a vocab of at most the {} pieces that this text has, got {}; lower it or give more text",
                    found, vocab));
  return bytes;
}

}  // namespace weft
