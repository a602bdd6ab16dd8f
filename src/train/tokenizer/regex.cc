#include "weft/train/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "fmt/format.h"
#include "weft/train/tokenizer/regex_syntax.h"

namespace weft {
namespace {

std::string MessageOf(int error) {
  constexpr size_t kLongest = 256;
  PCRE2_UCHAR text[kLongest] = "";
  pcre2_get_error_message(error, text, kLongest);
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR Units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  pcre2_code* code;
};

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  constexpr size_t kLongest = size_t{1} << 14;
  auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("pattern {:?}: {}", pattern.substr(0, 200), what));
  };
  if (pattern.size() > kLongest) return bad(fmt::format("expected at most {} bytes, got {}", kLongest, pattern.size()));
  absl::StatusOr<std::string> translated = PcreSyntax(pattern);
  if (!translated.ok()) return translated.status();
  int error = 0;
  size_t offset = 0;
  pcre2_code* compiled = pcre2_compile(Units(*translated), translated->size(), PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C,
                                       &error, &offset, nullptr);
  if (!compiled) return bad("expected a regular expression, got another text (" + MessageOf(error) + ")");
  auto code = std::make_shared<const Code>(compiled);
  uint32_t empty = 0;
  pcre2_pattern_info(compiled, PCRE2_INFO_MATCHEMPTY, &empty);
  if (empty != 0) return bad("expected one that matches at least one character, got one that matches none");
  // If PCRE2 has no JIT for this processor, it interprets the pattern.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return Regex(std::move(code));
}

struct RegexSearch::Memory {
  explicit Memory(const pcre2_code* code)
      : match(pcre2_match_data_create_from_pattern(code, nullptr)), context(pcre2_match_context_create(nullptr)) {}
  ~Memory() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  pcre2_match_data* match;
  pcre2_match_context* context;
};

RegexSearch::RegexSearch(const Regex& regex) : regex_(regex), memory_(std::make_unique<Memory>(regex.code_->code)) {}
RegexSearch::~RegexSearch() = default;
RegexSearch::RegexSearch(RegexSearch&&) noexcept = default;

absl::StatusOr<std::optional<TextSpan>> RegexSearch::Next(std::string_view text, size_t from, bool ends) {
  // These limits let a pattern backtrack over a word a few times, but not exponentially.
  constexpr size_t kTries = 1'000'000, kTriesPerByte = 16, kHeap = 20'000, kMost = 1 << 30;  // kHeap in KiB
  pcre2_set_match_limit(memory_->context, uint32_t(std::min(kTries + kTriesPerByte * text.size(), kMost)));
  pcre2_set_heap_limit(memory_->context, uint32_t(std::min(kHeap + text.size() / 4, kMost)));
  auto search = [&](uint32_t options) {
    return pcre2_match(regex_.code_->code, Units(text), text.size(), from, options, memory_->match, memory_->context);
  };
  uint32_t options = PCRE2_NO_UTF_CHECK | (ends ? 0 : PCRE2_PARTIAL_HARD);
  int found = search(options);
  // The interpreter's stack is on the heap.
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(options | PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH || found == PCRE2_ERROR_PARTIAL) return std::nullopt;
  if (found < 0)
    return absl::InvalidArgumentError(fmt::format("the tokenizer's pattern finds no word in {} bytes of text ({})",
                                                  text.size() - from, MessageOf(found)));
  const size_t* span = pcre2_get_ovector_pointer(memory_->match);
  return TextSpan{span[0], span[1]};
}

}  // namespace weft
