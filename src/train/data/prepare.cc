#include "weft/train/data/prepare.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "fmt/format.h"
#include "weft/core/host/utf8.h"
#include "weft/train/data/data.h"
#include "weft/train/data/document_reader.h"
#include "weft/train/data/prepare_config.h"
#include "weft/train/data/token_shard_writer.h"
#include "weft/train/io/staged_folder.h"
#include "weft/train/io/text_reader.h"
#include "weft/train/tokenizer/sentencepiece_tokenizer.h"
#include "weft/train/tokenizer/stream_encoder.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

absl::Status Refuse(const std::string& argument, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), fmt::format("{}: {}", argument, std::string(status.message())));
}

struct Text {
  std::vector<std::string> files;
  int64_t bytes = 0, characters = 0;
};

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options) : options_(options) {}

  absl::Status Find();
  absl::Status Scan();
  absl::Status Run(StagedFolder& out);
  const PrepareReport& report() const { return report_; }

 private:
  using Take = std::function<absl::Status(const TextBlock&)>;
  DocumentReader Reader(const Text& text) const { return {text.files, options_.field, options_.block}; }
  absl::Status ForEachBlock(DocumentReader reader, const Take& take, SkipCount* skipped = nullptr) const;
  absl::Status ScanText(Text& text);
  absl::StatusOr<Tokenizer> MakeTokenizer();
  absl::Status Keep(const Tokenizer& tokenizer, StagedFolder& out);
  absl::StatusOr<std::string> Learn();
  absl::Status Encode(const Tokenizer& tokenizer, StagedFolder& out);
  absl::Status EncodeTexts(StreamEncoder& train, StreamEncoder& val) const;
  absl::Status CheckLengths() const;

  const PrepareOptions& options_;
  Clock::time_point begin_ = Clock::now();
  Text train_, val_;  // val_: if val is not the tail of train_
  int64_t head_ = 0;  // characters of train_ before that tail
  CodePointSet chars_;
  SkipCount skipped_;
  PrepareReport report_;
};

absl::StatusOr<DataFiles> FindText(const PathList& inputs) {
  absl::StatusOr<DataFiles> files = FindDataFiles(inputs);
  if (!files.ok() || !files->format->holds_tokens()) return files;
  return absl::InvalidArgumentError(fmt::format(
      "{}: expected text, got {}; it is prepared already: give it as data.train", files->paths[0], files->format->one));
}

absl::Status Preparation::Find() {
  absl::StatusOr<DataFiles> train = FindText(options_.inputs), val = FindText(options_.val.paths);
  if (!train.ok()) return train.status();
  if (!val.ok()) return Refuse("val", val.status());
  report_.note = NoteOfShared(*train, *val);
  for (const DataFiles* files : {&*train, &*val}) skipped_.Add(files->skipped);
  train_.files = std::move(train->paths);
  val_.files = std::move(val->paths);
  report_.files = train_.files.size() + val_.files.size();
  return absl::OkStatus();
}

absl::Status Preparation::ForEachBlock(DocumentReader reader, const Take& take, SkipCount* skipped) const {
  while (true) {
    absl::StatusOr<TextBlock> block = reader.Next();
    if (!block.ok()) return block.status();
    if (block->text.empty()) break;
    if (absl::Status s = take(*block); !s.ok()) return s;
  }
  if (skipped) skipped->Add(reader.skipped());
  return absl::OkStatus();
}

absl::Status Preparation::ScanText(Text& text) {
  auto scan = [&](const TextBlock& block) {
    text.bytes += int64_t(block.text.size());
    text.characters += int64_t(CountCodePoints(block.text));
    if (options_.tokenizer == "chars") chars_.Add(block.text);
    return absl::OkStatus();
  };
  return ForEachBlock(Reader(text), scan, &skipped_);
}

// Reports errors in the texts before any output is written.
absl::Status Preparation::Scan() {
  if (absl::Status s = ScanText(train_); !s.ok()) return s;
  if (absl::Status s = ScanText(val_); !s.ok()) return Refuse("val", s);
  report_.bytes = train_.bytes + val_.bytes;
  report_.skipped = skipped_.Note();
  head_ = options_.val.fraction > 0 ? HeadLength(train_.characters, options_.val.fraction) : train_.characters;
  return absl::OkStatus();
}

// Pieces are learned from the training text only.
absl::StatusOr<std::string> Preparation::Learn() {
  Clock::time_point begin = Clock::now();
  DocumentReader reader = Reader(train_);
  int64_t left = head_;
  std::string apart;  // with a newline first, so that no line spans two documents
  auto next = [&]() -> absl::StatusOr<std::string_view> {
    if (left == 0) return std::string_view();
    absl::StatusOr<TextBlock> block = reader.Next();
    if (!block.ok()) return block.status();
    std::string_view text = block->text.substr(0, SkipCodePoints(block->text, left));
    if (!block->begins || text.empty()) return text;
    apart = fmt::format("\n{}", text);
    return apart;
  };
  double share = std::min(1.0, double(options_.sample) / double(std::max<int64_t>(train_.bytes, 1)));
  absl::StatusOr<std::string> model = LearnSentencePiece(next, options_.vocab, share);
  report_.learning_s = SecondsSince(begin);
  return model;
}

absl::StatusOr<Tokenizer> Preparation::MakeTokenizer() {
  const std::string& name = options_.tokenizer;
  if (name == "chars") return Tokenizer::Chars(chars_);
  if (name != "sentencepiece") return Tokenizer::Open(name);
  absl::StatusOr<std::string> model = Learn();
  if (!model.ok()) return model.status();
  return Tokenizer::FromFiles(TokenizerKind::kSentencePiece, {*std::move(model)});
}

// Stores the tokenizer's files next to the shards, so that a run needs only this folder. Bytes needs no file.
absl::Status Preparation::Keep(const Tokenizer& tokenizer, StagedFolder& out) {
  report_.vocab = tokenizer.vocab();
  auto [word, table] = tokenizer.names();
  report_.tokenizer = word;
  if (tokenizer.kind() == TokenizerKind::kBytes) return absl::OkStatus();
  report_.tokenizer += ":" + (std::filesystem::path(options_.out) / table).string();
  for (auto [name, text] : tokenizer.NamedFiles())
    if (absl::Status s = out.Write(name, *text); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status Preparation::EncodeTexts(StreamEncoder& train, StreamEncoder& val) const {
  int64_t left = head_, bytes = 0;
  auto add = [&](StreamEncoder& encoder, const TextBlock& block) {
    if (block.text.empty()) return absl::OkStatus();
    bytes += int64_t(block.text.size());
    absl::Status s = block.begins ? encoder.BeginDocument() : absl::OkStatus();
    if (s.ok()) s = encoder.Add(block.text);
    return absl::IsInvalidArgument(s) ? Refuse("tokenizer", s) : s;
  };
  absl::Status status = ForEachBlock(Reader(train_), [&](const TextBlock& block) {
    size_t cut = SkipCodePoints(block.text, left);
    absl::Status s = add(train, {block.text.substr(0, cut), block.begins});
    return s.ok() ? add(val, {block.text.substr(cut), block.begins && cut == 0}) : s;
  });
  if (status.ok()) status = ForEachBlock(Reader(val_), [&](const TextBlock& block) { return add(val, block); });
  if (status.ok()) status = train.Finish();
  if (status.ok()) status = val.Finish();
  if (status.ok() && bytes != report_.bytes)
    return absl::AbortedError(fmt::format(
        "the text changed while it was read: {} bytes at first, then {}; run this again", report_.bytes, bytes));
  return status;
}

absl::Status Preparation::Encode(const Tokenizer& tokenizer, StagedFolder& out) {
  auto staged = [&](std::vector<std::string>& paths, const std::string& name) {
    paths.push_back((std::filesystem::path(options_.out) / name).string());
    return out.Stage(name);
  };
  TokenShardWriter train([&](int n) { return staged(report_.train, fmt::format("train_{:06}.bin", n)); },
                         tokenizer.vocab(), options_.shard);
  TokenShardWriter val([&](int n) { return staged(report_.val, n == 1 ? "val.bin" : fmt::format("val_{:06}.bin", n)); },
                       tokenizer.vocab(), kMostShardTokens);
  auto into = [](TokenShardWriter& writer) {
    return [&writer](std::span<const int32_t> tokens) { return writer.Write(tokens); };
  };
  StreamEncoder to_train(tokenizer, into(train)), to_val(tokenizer, into(val));
  absl::Status status = EncodeTexts(to_train, to_val);
  if (status.ok()) status = train.Finish();
  if (status.ok()) status = val.Finish();
  report_.train_tokens = train.tokens();
  report_.val_tokens = val.tokens();
  return status;
}

absl::Status Preparation::CheckLengths() const {
  auto few = [](const char* what, int64_t got, const char* advice) {
    return absl::InvalidArgumentError(fmt::format("{}: expected at least 2 tokens, got {}; {}", what, got, advice));
  };
  if (report_.train_tokens < 2) return few("text", report_.train_tokens, "give more of it, or a smaller val");
  bool has_val = !options_.val.empty();
  if (has_val && report_.val_tokens < 2) return few("val", report_.val_tokens, "give more text, or val=0 for none");
  return absl::OkStatus();
}

absl::Status Preparation::Run(StagedFolder& out) {
  absl::StatusOr<Tokenizer> tokenizer = MakeTokenizer();
  if (!tokenizer.ok()) return Refuse("tokenizer", tokenizer.status());
  if (absl::Status s = Keep(*tokenizer, out); !s.ok()) return s;
  if (absl::Status s = Encode(*tokenizer, out); !s.ok()) return s;
  if (absl::Status s = CheckLengths(); !s.ok()) return s;
  report_.config = (std::filesystem::path(options_.out) / "config.yaml").string();
  if (absl::Status s = out.Write("config.yaml", PreparedConfig(report_)); !s.ok()) return s;
  absl::Status status = out.Publish();
  report_.seconds = SecondsSince(begin_);
  return status;
}

}  // namespace

absl::StatusOr<PrepareReport> Prepare(const PrepareOptions& options) {
  Preparation preparation(options);
  // This comes first, so that an `out` that names an input is reported as such.
  absl::StatusOr<StagedFolder> out = StagedFolder::Make(options.out);
  if (!out.ok()) return out.status();
  if (absl::Status s = preparation.Find(); !s.ok()) return s;
  if (absl::Status s = preparation.Scan(); !s.ok()) return s;
  if (absl::Status s = preparation.Run(*out); !s.ok()) return s;
  return preparation.report();
}

}  // namespace weft
