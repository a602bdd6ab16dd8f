// The patterns of tokenizers: supported patterns find the right matches, and others are refused by name.
#include "weft/train/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tokens/text_testing.h"
#include "weft/train/tokenizer/bpe_tokenizer.h"
#include "weft/train/tokenizer/regex_syntax.h"

namespace weft {
namespace {

using namespace testing_;

// Returns the matches of a text, with | after each one and the text between matches in [ ].
std::string Words(const std::string& pattern, const std::string& text) {
  absl::StatusOr<Regex> regex = Regex::Compile(pattern);
  if (!regex.ok()) return std::string(regex.status().message());
  RegexSearch search(*regex);
  std::string words;
  for (size_t at = 0; at < text.size();) {
    auto match = *search.Next(text, at, true);
    size_t begin = match ? match->begin : text.size(), end = match ? match->end : text.size();
    if (begin > at) words += "[" + text.substr(at, begin - at) + "]";
    if (match) words += text.substr(begin, end - begin) + "|";
    at = end;
  }
  return words;
}

TEST(Regex, FindsWhatItSays) {
  struct {
    const char *pattern, *text, *words;
  } cases[] = {
      {R"(\p{L}+)", "ab \xC3\xA9 1", "ab|[ ]\xC3\xA9|[ 1]"},
      {R"(\s)", "a\xE1\xA0\x8E b", "[a\xE1\xA0\x8E] |[b]"},  // U+180E is no space
      {R"(\S+)", "a\xE1\xA0\x8E b", "a\xE1\xA0\x8E|[ ]b|"},
      {R"([^\s\p{L}]+)", "a\xE1\xA0\x8E b", "[a]\xE1\xA0\x8E|[ b]"},
      {R"(\s+)", "a\t\n\v\f\r\xC2\x85\xC2\xA0\xE2\x80\xA8\xE3\x80\x80z\x1C",
       "[a]\t\n\v\f\r\xC2\x85\xC2\xA0\xE2\x80\xA8\xE3\x80\x80|[z\x1C]"},
      {R"(\d+)", "1\xD9\xA3\xC2\xBD", "1\xD9\xA3|[\xC2\xBD]"},
      {R"((?i:'s|'ll))", "'S'Ll's\xC5\xBF'\xC5\xBF", "'S|'Ll|'s|[\xC5\xBF]'\xC5\xBF|"},  // U+017F matches s
      {R"(a(?!b))", "ab a", "[ab ]a|"},
      {R"(a{2,3})", "aaaa", "aaa|[a]"},
      {R"([ab-d\-\]]+)", "abd-]e", "abd-]|[e]"},
      {R"(x#| y)", "x# y", "x#| y|"},
      {R"(\u00e9|\x{4e2d}|\x41)",
       "\xC3\xA9\xE4\xB8\xAD"
       "A",
       "\xC3\xA9|\xE4\xB8\xAD|A|"},
      {R"((ab)+c)", "ababc", "ababc|"},
      {R"(\v)", "\n\v", "[\n]\v|"},
      {R"([^\r\n]?+b)", "ab", "ab|"},
  };
  for (const auto& c : cases) EXPECT_EQ(Words(c.pattern, c.text), c.words) << c.pattern;
}

struct Refusal {
  const char *pattern, *fault;
};
constexpr Refusal kRefused[] = {
    {R"(\w+)", "got \\w at offset 0"},
    {R"(a\b)", "got \\b at offset 1"},
    {R"(\h)", "got \\h"},
    {R"(a.b)", "got '.' at offset 1"},
    {"^a", "got '^' at offset 0"},
    {"a$", "got '$' at offset 1"},
    {"(?<=a)b", "got (?<= at offset 0"},
    {"(?i)a", "got (?i) at offset 0"},
    {R"((a)\1)", "got \\1 at offset 3"},
    {"[a[bc]]", "no class within a class"},
    {"[a&&b]", "no class within a class"},
    {"[[:alpha:]]", "no class within a class"},
    {R"([\s-a])", "expected \\- after a class of characters"},
    {R"([\S])", "got \\S"},
    {"[]a]", "characters and a ] after the ["},
    {"[ab", "characters and a ] after the ["},
    {R"(\p{Han})", "expected a general category such as \\p{L}"},
    {R"(\p{^L})", "expected a general category"},
    {R"(\pL)", "expected a general category"},
    {R"(\xE9)", "expected \\xHH below 80"},
    {R"(\x{D800})", "expected \\xHH below 80"},
    {R"(\x{110000})", "expected \\xHH below 80"},
    {R"(\u12)", "expected \\xHH below 80"},
    {"a{2}?", "neither lazy nor possessive"},
    {"a{2,3}+", "neither lazy nor possessive"},
    {"a{,3}", "expected {n}, {n,} or {n,m}"},
    {"a{3,2}", "expected {n}, {n,} or {n,m}"},
    {"a{9999}", "expected {n}, {n,} or {n,m}"},
    {"{2}", "something to repeat"},
    {"a**", "something to repeat"},
    {"a|*", "something to repeat"},
    {"(*ACCEPT)", "something to repeat"},
    {"(?i:ss)", "no pair in (?i: ) that is one character in other cases, got ss"},
    {"(?i:aSTb)", "got st at offset 6"},
    {"(?i:\xC3\xA9)", "ASCII in (?i: )"},
    {R"((?i:\p{Lu}))", "categories are read differently"},
    {"(a", "expected a ) for each ("},
    {"a)", "expected a ( before it"},
    {"a\\", "got \\ at offset 1"},
    {"a*", "expected one that matches at least one character"},
    {"", "expected one that matches at least one character"},
    {"(?=a)", "expected one that matches at least one character"},
    {"\xFF", "expected UTF-8"},
};

TEST(Regex, RefusesTheRestByName) {
  for (const Refusal& c : kRefused) {
    std::string error(Regex::Compile(c.pattern).status().message());
    EXPECT_NE(error.find(c.fault), error.npos) << c.pattern << "\nexpected " << c.fault << "\ngot      " << error;
  }
}

TEST(Regex, GivesUpOnAPatternThatTriesTooMuch) {
  RegexSearch search(*Regex::Compile("(?:a+)+[bc]"));
  std::string error(search.Next(std::string(60, 'a'), 0, true).status().message());
  EXPECT_EQ(error, "the tokenizer's pattern finds no word in 60 bytes of text (match limit exceeded)");
}

// A text that arrives in parts has the matches of the whole text. A match counts only when further text cannot change
// it.
TEST(Regex, MatchesOfPartsAreThoseOfTheWhole) {
  for (const char* pattern : {kGpt2Pattern, kLlama3Pattern, R"(\s+(?=x)|\p{L}{1,3}|ab(?!c)|a)"}) {
    Regex regex = *Regex::Compile(pattern);
    RegexSearch search(regex);
    for (uint64_t seed = 0; seed < 200; seed++) {
      std::string text = RandomText(seed, 1 + seed % 40);
      for (size_t at = 0; at < text.size();) {
        auto whole = *search.Next(text, at, true);
        for (size_t size = at; size <= text.size(); size++) {
          if (size < text.size() && (uint8_t(text[size]) & 0xC0) == 0x80) continue;
          auto part = *search.Next(std::string_view(text).substr(0, size), at, false);
          if (!part) continue;
          ASSERT_TRUE(whole && part->begin == whole->begin && part->end == whole->end)
              << pattern << ", seed " << seed << ", [" << at << ", " << size << ")";
        }
        at = whole ? whole->end : text.size();
      }
    }
  }
}

// Runs of a million characters. A search that backtracked over them would take hours.
TEST(Regex, TakesLongRunsInOneGo) {
  const char* by_case = R"([\p{Lu}\p{M}]*[\p{Ll}\p{Lo}\p{M}]+|[^\r\n\p{L}]?+[\p{Lu}\p{Lo}\p{M}]+|(?:ab)+|\s+)";
  for (const char* pattern : {kGpt2Pattern, kLlama3Pattern, by_case})
    for (const char* run : {"a", "A", "ab", " ", "\n", "9", "!", "\xE4\xB8\xAD", " \n"}) {
      std::string text;
      while (text.size() < 1'000'000) text += run;
      auto begin = std::chrono::steady_clock::now();
      size_t size = Words(pattern, text).size();
      EXPECT_GE(size, text.size());
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << pattern << " " << run;
    }
}

}  // namespace
}  // namespace weft
