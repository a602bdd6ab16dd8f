// Makes small tokenizer.json files: 256 bytes and the results of merges.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/host/utf8.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft::testing_ {

using Merges = std::vector<std::pair<std::string, std::string>>;  // pairs of byte strings

inline std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (char ch : text) quoted += ch == '"' || ch == '\\' ? std::string{'\\', ch} : std::string(1, ch);
  return quoted + "\"";
}

// Returns bytes as tokenizer.json writes them: 33 to 126, 161 to 172 and 174 to 255 as these code points, the others as
// 256 and following.
inline std::string Spelt(const std::string& bytes) {
  std::string text;
  for (char ch : bytes) {
    uint32_t byte = uint8_t(ch), shifted = 0;
    for (uint32_t b = 0; b < byte; b++) shifted += b < 33 || b == 127 || (b > 127 && b < 161) || b == 173;
    bool plain = (byte >= 33 && byte < 127) || (byte >= 161 && byte != 173);
    AppendUtf8(plain ? byte : 256 + shifted, text);
  }
  return text;
}

struct JsonParts {
  Merges merges = {};
  std::string added = "";  // JSON objects, separated by commas
  std::string normalizer = "null", model_rest = R"("dropout":null,"unk_token":null,)";
  std::string pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  std::string post_processor = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false})";
  bool pairs_as_lists = true;
};

// Bytes have the ids 0 to 255. The i-th merge makes id 256 + i.
inline std::string TokenizerJson(const JsonParts& parts) {
  std::vector<std::string> vocab, merges;
  for (int byte = 0; byte < 256; byte++)
    vocab.push_back(fmt::format("{}:{}", Quoted(Spelt(std::string(1, char(byte)))), byte));
  for (const auto& [left, right] : parts.merges) {
    vocab.push_back(fmt::format("{}:{}", Quoted(Spelt(left + right)), vocab.size()));
    std::string a = Spelt(left), b = Spelt(right);
    merges.push_back(parts.pairs_as_lists ? fmt::format("[{}, {}]", Quoted(a), Quoted(b)) : Quoted(a + " " + b));
  }
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":{},"pre_tokenizer":{},
"post_processor":{},"decoder":{{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}},
"model":{{"type":"BPE",{}"vocab":{{{}}},
"merges":[{}]}}}})",
      parts.added, parts.normalizer, parts.pre_tokenizer, parts.post_processor, parts.model_rest, fmt::join(vocab, ","),
      fmt::join(merges, ",\n"));
}

// Returns one entry of added_tokens. `flags`: some of "lrnsw", for lstrip, rstrip, normalized, special and single_word.
inline std::string AddedJson(int id, const std::string& content, const std::string& flags) {
  auto has = [&](char flag) { return flags.find(flag) != flags.npos; };
  return fmt::format(
      R"({{"id":{},"content":{},"single_word":{},"lstrip":{},"rstrip":{},"normalized":{},"special":{}}})", id,
      Quoted(content), has('w'), has('l'), has('r'), has('n'), has('s'));
}

// A pre-tokenizer like Llama 3's: a pattern, and then bytes.
inline std::string SplitJson(const std::string& pattern) {
  return fmt::format(
      R"({{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated","invert":false}},
{{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}}]}})",
      Quoted(pattern));
}

// A post-processor that begins every text with `token`.
inline std::string TemplateJson(const std::string& token, int id) {
  return fmt::format(
      R"({{"type":"Sequence","processors":[{{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false}},
{{"type":"TemplateProcessing","single":[{{"SpecialToken":{{"id":{0},"type_id":0}}}},{{"Sequence":{{"id":"A","type_id":0}}}}],
"pair":[],"special_tokens":{{{0}:{{"id":{0},"ids":[{1}],"tokens":[{0}]}}}}}}]}})",
      Quoted(token), id);
}

// Returns up to `count` merges: each is the most frequent pair in the text after the previous merges. Spaces may only
// be at the front of a token.
inline Merges LearnMerges(const std::string& text, size_t count) {
  std::vector<std::string> tokens;
  for (char ch : text) tokens.emplace_back(1, ch);
  Merges merges;
  while (merges.size() < count) {
    std::map<std::pair<std::string, std::string>, int> seen;
    for (size_t i = 0; i + 1 < tokens.size(); i++)
      if (tokens[i + 1][0] != ' ' && tokens[i + 1][0] != '\n' && tokens[i] != "\n") seen[{tokens[i], tokens[i + 1]}]++;
    if (seen.empty()) break;
    auto best = seen.begin();
    for (auto i = seen.begin(); i != seen.end(); i++)
      if (i->second > best->second) best = i;
    const auto [left, right] = best->first;
    merges.emplace_back(left, right);
    std::vector<std::string> next;
    for (size_t i = 0; i < tokens.size(); i++) {
      bool pair = i + 1 < tokens.size() && tokens[i] == left && tokens[i + 1] == right;
      next.push_back(pair ? left + right : tokens[i]);
      i += pair;
    }
    tokens = std::move(next);
  }
  return merges;
}

}  // namespace weft::testing_
