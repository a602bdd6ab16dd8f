// weft prepare: converts text to token shards once, for any number of runs.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>

#include "launcher/command.h"
#include "weft/core/host/notice.h"
#include "weft/train/data/document_reader.h"
#include "weft/train/data/prepare.h"
#include "weft/train/io/path_advice.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft prepare OUT INPUT... [key=value...]
       weft prepare INPUT... --out OUT [key=value...]

Turns text in UTF-8 (files, folders or globs, as data.train takes them: plain or JSONL, also as gzip or Zstandard) into
token shards of llm.c's format in the folder OUT, which is new or empty: train_000001.bin and so on, val.bin, the
tokenizer's file, and config.yaml, which trains a small model on them. All of it appears at the end or nothing does.
Text may be larger than memory.

  tokenizer=bytes    bytes; chars: the sorted characters of the text; sentencepiece: pieces that are learnt from the text;
                     chars:PATH: those of such a file; huggingface:PATH: a published tokenizer, in a folder with
                     tokenizer.json or tokenizer.model, or such a file; sentencepiece:PATH or tiktoken:PATH: one of these
  vocab=8000         pieces that sentencepiece learns
  sample=100000000   bytes, spread over the text, that it learns from
  val=0.1            validation data: the share of the text that is cut off its tail, or a file, folder or glob; 0: none
  shard=100000000    tokens of a file of training data
  field=text         the field of a JSONL record that holds its text; each record is a document

  weft prepare data/mine book.txt notes/ tokenizer=sentencepiece vocab=4000
  weft train data/mine/config.yaml

Exit code: 0 done, 2 bad usage or text, 1 failed.
)";

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("weft prepare: " + what); }

std::vector<Option> OptionsOf(PrepareOptions& options) {
  constexpr double kMostTokens = std::numeric_limits<int32_t>::max();
  return {
      {{.key = "out", .help = "the folder to write to"}, &options.out},
      {{.key = "tokenizer",
        .help = "what a token is",
        .choices = {"bytes", "chars", "sentencepiece", "chars:", "huggingface:", "sentencepiece:", "tiktoken:"}},
       &options.tokenizer},
      {{.key = "vocab", .help = "pieces that sentencepiece learns", .bounds = {.low = 1, .high = 1e6}}, &options.vocab},
      {{.key = "sample", .help = "bytes of text that it learns from", .bounds = {.low = 1}}, &options.sample},
      {{.key = "val", .help = "validation data", .bounds = {.low = 0, .high = 1, .high_open = true}}, &options.val},
      {{.key = "field", .help = "of a JSONL record, which holds its text"}, &options.field},
      {{.key = "shard", .help = "tokens of a file", .bounds = {.low = 1, .high = kMostTokens}}, &options.shard},
  };
}

// Returns an error that names the missing operand. If the first path is an existing file, OUT is missing, because OUT
// is a folder.
absl::Status CheckOperands(const Words& paths) {
  std::error_code error;
  bool text = !paths.empty() && std::filesystem::is_regular_file(paths[0], error);
  if (text)
    return Bad(
        fmt::format("OUT is missing: the first path is the folder to write to, got {}, a file; weft prepare --help "
                    "says how to use it",
                    paths[0]));
  if (paths.size() >= 2) return absl::OkStatus();
  return Bad(fmt::format("{} is missing; weft prepare --help says how to use it", paths.empty() ? "OUT" : "INPUT"));
}

absl::StatusOr<PrepareOptions> Parse(Words words) {
  PrepareOptions options;
  std::vector<Option> rows = OptionsOf(options);
  absl::StatusOr<std::set<std::string>> given = TakeOptions(rows, words);
  if (!given.ok()) return given.status();
  Words paths;
  for (const std::string& word : words) {
    if (word.empty()) return Bad("expected a path or key=value, got an empty word");
    if (word.starts_with('-'))
      return Bad(fmt::format("unknown flag {:?}; weft prepare --help says how to use it", word));
    if (SetsKey(word))
      return Bad(fmt::format("unknown key {:?}; weft prepare --help lists them", word.substr(0, word.find('='))));
    paths.push_back(word);
  }
  for (const char* key : {"vocab", "sample"})
    if (options.tokenizer != "sentencepiece" && given->contains(key))
      return Bad(fmt::format("{}: has no effect, as tokenizer={} learns nothing; give tokenizer=sentencepiece", key,
                             options.tokenizer));
  if (options.field.find(kPairOfFields) != options.field.npos)
    return Bad(
        fmt::format("field: expected one field, got {:?}; pairs stay JSONL, which weft train reads", options.field));
  if (!options.out.empty()) paths.insert(paths.begin(), options.out);
  if (absl::Status s = CheckOperands(paths); !s.ok()) return s;
  options.out = paths[0];
  options.inputs.assign(paths.begin() + 1, paths.end());
  return options;
}

void Print(const PrepareReport& r) {
  auto shown = [](const std::vector<std::string>& paths) {
    return paths.size() == 1 ? paths[0] : fmt::format("{} to {}", paths.front(), paths.back());
  };
  if (!r.note.empty()) PrintNote("val: {}", r.note);
  if (!r.skipped.empty()) PrintNote("{}", r.skipped);
  PrintStdout("text: {} file{}, {} bytes\n", r.files, r.files == 1 ? "" : "s", r.bytes);
  std::string learning = r.learning_s > 0 ? fmt::format(", learnt in {:.1f} s", r.learning_s) : "";
  PrintStdout("tokenizer: {}, {} kinds of token{}\n", r.tokenizer, r.vocab, learning);
  PrintStdout("train: {} tokens in {}\n", r.train_tokens, shown(r.train));
  if (!r.val.empty()) PrintStdout("val: {} tokens in {}\n", r.val_tokens, shown(r.val));
  PrintStdout("{:.3f} bytes per token, {:.1f} s\n", double(r.bytes) / double(r.train_tokens + r.val_tokens), r.seconds);
  PrintStdout("next: {} train {}\n", ShellWord(program_invocation_name), ShellWord(r.config));
}

}  // namespace

std::vector<Completion> PrepareCompletions() {
  PrepareOptions options;
  return CompletionsOf(OptionsOf(options));
}

int PrepareCommand(const Words& words) {
  if (AsksForHelp(words)) {
    PrintStdout("{}", kHelp);
    return 0;
  }
  absl::StatusOr<PrepareOptions> options = Parse(words);
  absl::StatusOr<PrepareReport> report = options.ok() ? Prepare(*options) : options.status();
  if (!report.ok()) {
    PrintStderr("{}\n", std::string(report.status().message()));
    return absl::IsInvalidArgument(report.status()) ? 2 : 1;
  }
  Print(*report);
  return 0;
}

}  // namespace weft
