// weft prepare: text to token shards, once, for any number of runs.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "launcher/command.h"
#include "weft/core/host/message.h"
#include "weft/train/data/prepare.h"
#include "weft/train/io/path_advice.h"
#include "weft/train/io/suggest.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft prepare OUT INPUT... [key=value...]
       weft prepare INPUT... --out OUT [key=value...]

Turns text in UTF-8 (files, folders or globs, as data.train takes them) into token shards of llm.c's format in the
folder OUT, which is new or empty: train_000001.bin and so on, val.bin, the tokenizer's file, and config.yaml, which
trains a small model on them. All of it appears at the end or nothing does. Text may be larger than memory.

  tokenizer=bytes    bytes; chars: the sorted characters of the text; sentencepiece: pieces that are learnt from the text;
                     chars:PATH: those of such a file; huggingface:PATH: a published tokenizer, in a folder with
                     tokenizer.json or tokenizer.model, or such a file; sentencepiece:PATH or tiktoken:PATH: one of these
  vocab=8000         pieces that sentencepiece learns
  sample=100000000   bytes, spread over the text, that it learns from
  val=0.1            validation data: the share of the text that is cut off its tail, or a file, folder or glob; 0: none
  shard=100000000    tokens of a file of training data

  weft prepare data/mine book.txt notes/ tokenizer=sentencepiece vocab=4000
  weft train data/mine/config.yaml

Exit code: 0 done, 2 bad usage or text, 1 failed.
)";

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("weft prepare: " + what); }

// Sets an option from the text behind its '='; says what was expected where that is none.
using Setter = std::function<std::string(const std::string&)>;

Setter Integer(int64_t& out, int64_t least, int64_t most) {
  return [&out, least, most](const std::string& text) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < least || value > most)
      return fmt::format("an integer >= {} and <= {}", least, most);
    out = value;
    return std::string();
  };
}

std::string SetVal(ValSource& val, const std::string& text) {
  double fraction = 0;
  bool number = absl::SimpleAtod(text, &fraction);
  if (text.empty() || (number && !(fraction >= 0 && fraction < 1))) return "a path, or a number >= 0 and < 1";
  val = {.paths = {}, .fraction = number ? fraction : 0};
  if (!number) val.paths = {text};
  return "";
}

std::string SetTokenizer(std::string& tokenizer, const std::string& text) {
  tokenizer = text;
  for (const char* name : {"bytes", "chars", "sentencepiece"})
    if (text == name) return "";
  for (const char* prefix : {"chars:", "huggingface:", "sentencepiece:", "tiktoken:"})
    if (text.starts_with(prefix) && text != prefix) return "";
  return "one of bytes, chars, sentencepiece, chars:PATH, huggingface:PATH, sentencepiece:PATH, tiktoken:PATH";
}

std::map<std::string, Setter> Setters(PrepareOptions& options) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return {{"out", [&](const std::string& text) { return options.out = text, text.empty() ? "a folder" : ""; }},
          {"tokenizer", [&](const std::string& text) { return SetTokenizer(options.tokenizer, text); }},
          {"vocab", Integer(options.vocab, 1, 1'000'000)},
          {"sample", Integer(options.sample, 1, kMost)},
          {"val", [&](const std::string& text) { return SetVal(options.val, text); }},
          {"shard", Integer(options.shard, 1, std::numeric_limits<int32_t>::max())}};
}

absl::Status SetOption(const std::map<std::string, Setter>& setters, const std::string& word) {
  std::string key = word.substr(0, word.find('=')), text = word.substr(key.size() + 1);
  auto found = setters.find(key);
  if (found == setters.end()) {
    Words keys;
    for (const auto& [known, setter] : setters) keys.push_back(known);
    std::string nearest = Nearest(key, keys);
    return Bad(fmt::format("unknown key {:?}; {}", key,
                           nearest.empty() ? "weft prepare --help lists them" : "did you mean " + nearest + "?"));
  }
  std::string expected = found->second(text);
  return expected.empty() ? absl::OkStatus() : Bad(fmt::format("{}: expected {}, got {:?}", key, expected, text));
}

// A word such as ./a=b.txt is a path.
bool IsOption(const std::string& word) {
  size_t equals = word.find('=');
  if (equals == word.npos) return false;
  for (char ch : word.substr(0, equals))
    if (!std::isalpha(uint8_t(ch)) && ch != '_') return false;
  return true;
}

absl::Status Missing(const Words& paths) {
  std::error_code error;
  if (paths.size() == 1 && std::filesystem::is_regular_file(paths[0], error))
    return Bad(
        fmt::format("expected OUT and INPUT, got {} alone, which is a text: give OUT before it, the folder to "
                    "write to",
                    paths[0]));
  return Bad(fmt::format("{} is missing; weft prepare --help says how to use it", paths.empty() ? "OUT" : "INPUT"));
}

absl::StatusOr<PrepareOptions> Parse(const Words& words) {
  PrepareOptions options;
  std::map<std::string, Setter> setters = Setters(options);
  Words paths;
  std::set<std::string> given;
  for (const std::string& word : WithoutFlag(words, "--out", "out")) {
    if (word == "--out") return Bad("--out: expected a folder behind it, got nothing");
    if (word.empty()) return Bad("expected a path or key=value, got an empty word");
    if (word.starts_with('-'))
      return Bad(fmt::format("unknown flag {:?}; weft prepare --help says how to use it", word));
    if (!IsOption(word)) {
      paths.push_back(word);
    } else if (absl::Status s = SetOption(setters, word); !s.ok()) {
      return s;
    } else {
      given.insert(word.substr(0, word.find('=')));
    }
  }
  for (const char* key : {"vocab", "sample"})
    if (options.tokenizer != "sentencepiece" && given.contains(key))
      return Bad(fmt::format("{}: has no effect, as tokenizer={} learns nothing; give tokenizer=sentencepiece", key,
                             options.tokenizer));
  if (!options.out.empty()) paths.insert(paths.begin(), options.out);
  if (paths.size() < 2) return Missing(paths);
  options.out = paths[0];
  options.inputs.assign(paths.begin() + 1, paths.end());
  return options;
}

void Print(const PrepareReport& r) {
  auto shown = [](const std::vector<std::string>& paths) {
    return paths.size() == 1 ? paths[0] : fmt::format("{} to {}", paths.front(), paths.back());
  };
  if (!r.note.empty()) PrintStderr("note: val: {}\n", r.note);
  PrintStdout("text: {} files, {} bytes\n", r.files, r.bytes);
  std::string learning = r.learning_s > 0 ? fmt::format(", learnt in {:.1f} s", r.learning_s) : "";
  PrintStdout("tokenizer: {}, {} kinds of token{}\n", r.tokenizer, r.vocab, learning);
  PrintStdout("train: {} tokens in {}\n", r.train_tokens, shown(r.train));
  if (!r.val.empty()) PrintStdout("val: {} tokens in {}\n", r.val_tokens, shown(r.val));
  PrintStdout("{:.3f} bytes per token, {:.1f} s\n", double(r.bytes) / double(r.train_tokens + r.val_tokens), r.seconds);
  PrintStdout("next: {} train {}\n", ShellWord(program_invocation_name), ShellWord(r.config));
}

}  // namespace

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
