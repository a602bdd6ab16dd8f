#include "weft/train/tokenizer/regex_syntax.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "weft/core/host/utf8.h"

namespace weft {
namespace {

// Unicode's White_Space property. It excludes U+180E, which lost the property in Unicode 6.3.
constexpr std::string_view kSpaces = R"(\x{9}-\x{D}\x{85}\p{Z})";
constexpr std::string_view kCategories[] = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
// Pairs of letters that Oniguruma also matches as one character when it ignores case, such as ss for U+00DF.
constexpr std::string_view kFolded[] = {"ff", "fi", "fl", "ss", "st"};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (status_.ok() && at_ < pattern_.size()) Next();
    if (status_.ok() && !caseless_.empty()) Refuse(pattern_.size(), "a ) for each (", "the end");
    if (!status_.ok()) return status_;
    return out_;
  }

 private:
  bool Ends() const { return at_ >= pattern_.size(); }
  char Peek() const { return Ends() ? '\0' : pattern_[at_]; }
  bool Take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  bool Caseless() const { return !caseless_.empty() && caseless_.back(); }

  void Refuse(size_t at, std::string_view expected, std::string_view got) {
    if (!status_.ok()) return;
    status_ =
        absl::InvalidArgumentError(fmt::format("pattern {:?}: expected {}, got {} at offset {}, which weft has no "
                                               "translation for; see docs/guide/tokenizers-and-weights.md",
                                               pattern_, expected, got, at));
  }

  void Next() {
    char ch = Peek();
    char before = std::exchange(literal_, '\0');
    switch (ch) {
      case '(':
        return Open();
      case ')':
        return Close();
      case '|':
        at_++;
        out_ += '|';
        repeatable_ = false;
        return;
      case '[':
        return Class();
      case '\\':
        return Escape(false);
      case '*':
      case '+':
      case '?':
      case '{':
        return Repeat();
      case '.':
      case '^':
      case '$':
        return Refuse(at_, "characters, classes, groups or repeats", fmt::format("{:?}", ch));
      default:
        return Literal(before);
    }
  }

  void Open() {
    static constexpr std::string_view kGroups[] = {"(?:", "(?i:", "(?=", "(?!", "(?>"};
    size_t begin = at_;
    bool caseless = Caseless();
    for (std::string_view group : kGroups)
      if (Take(group)) {
        out_ += group;
        caseless_.push_back(caseless || group == "(?i:");
        repeatable_ = false;
        return;
      }
    at_++;
    if (Peek() == '?') return Refuse(begin, "(?: ), (?i: ), (?= ), (?! ) or (?> )", pattern_.substr(begin, 4));
    out_ += "(?:";
    caseless_.push_back(caseless);
    repeatable_ = false;
  }

  void Close() {
    if (caseless_.empty()) return Refuse(at_, "a ( before it", ")");
    at_++;
    out_ += ')';
    caseless_.pop_back();
    repeatable_ = true;
  }

  // Oniguruma and PCRE2 agree on x*, x+ and x?, also lazy or possessive, and on plain {n}, {n,} and {n,m}.
  void Repeat() {
    size_t begin = at_;
    if (!repeatable_) return Refuse(begin, "something to repeat", fmt::format("{:?}", Peek()));
    repeatable_ = false;
    if (Peek() != '{') {
      at_++;
      if (Peek() == '+' || Peek() == '?') at_++;
    } else if (!Interval()) {
      return Refuse(begin, "{n}, {n,} or {n,m}, neither lazy nor possessive", pattern_.substr(begin, 8));
    }
    out_ += pattern_.substr(begin, at_ - begin);
  }
  bool Interval() {
    size_t close = pattern_.find('}', at_);
    if (close == pattern_.npos) return false;
    std::string_view inside = pattern_.substr(at_ + 1, close - at_ - 1);
    size_t comma = inside.find(',');
    uint32_t low = 0, high = 0;
    auto number = [](std::string_view text, uint32_t& value) {
      return !text.empty() && std::ranges::all_of(text, absl::ascii_isdigit) &&
             absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &value) && value <= kMostRepeats;
    };
    if (!number(inside.substr(0, comma), low)) return false;
    if (comma != inside.npos && comma + 1 < inside.size() && (!number(inside.substr(comma + 1), high) || high < low))
      return false;
    at_ = close + 1;
    return Peek() != '+' && Peek() != '?';
  }

  void Literal(char before) {
    size_t begin = at_;
    bool plain = uint8_t(Peek()) < 0x80;
    if (Caseless()) {
      if (!plain) return Refuse(begin, "ASCII in (?i: )", pattern_.substr(begin, 1));
      literal_ = absl::ascii_tolower(Peek());
      char pair[] = {before, literal_};
      if (std::ranges::count(kFolded, std::string_view(pair, 2)) > 0)
        return Refuse(begin, "no pair in (?i: ) that is one character in other cases", std::string_view(pair, 2));
    }
    NextCodePoint(pattern_, at_);
    if (plain && absl::ascii_ispunct(pattern_[begin])) out_ += '\\';
    out_ += pattern_.substr(begin, at_ - begin);
    repeatable_ = true;
  }

  // Translates an escape. `in_class` is true between [ and ].
  void Escape(bool in_class) {
    size_t begin = at_++;
    char ch = Ends() ? '\0' : pattern_[at_++];
    repeatable_ = true;
    auto refuse = [&] {
      Refuse(begin, "\\s, \\S, \\d, \\D, \\p{..}, \\r, \\n, \\t, \\x or \\u", pattern_.substr(begin, 2));
    };
    switch (ch) {
      case 's':
        out_ += in_class ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
        return;
      case 'S':
        if (in_class) return refuse();
        out_ += fmt::format("[^{}]", kSpaces);
        return;
      case 'd':
      case 'D':
        out_ += ch == 'd' ? "\\p{Nd}" : "\\P{Nd}";
        return;
      case 'r':
      case 'n':
      case 't':
      case 'f':
        out_ += pattern_.substr(begin, 2);
        return;
      case 'v':
        out_ += "\\x{B}";
        return;
      case 'p':
      case 'P':
        return Category(begin);
      case 'x':
      case 'u':
        return CodePoint(begin);
      default:
        if (!absl::ascii_ispunct(uint8_t(ch))) return refuse();
        out_ += pattern_.substr(begin, 2);
    }
  }

  void Category(size_t begin) {
    if (Caseless()) return Refuse(begin, "characters in (?i: ), whose categories are read differently", "\\p");
    size_t close = pattern_.find('}', at_);
    std::string_view name = Peek() == '{' && close != pattern_.npos ? pattern_.substr(at_ + 1, close - at_ - 1) : "";
    if (std::ranges::count(kCategories, name) == 0)
      return Refuse(begin, "a general category such as \\p{L}", pattern_.substr(begin, name.size() + 4));
    at_ = close + 1;
    out_ += pattern_.substr(begin, at_ - begin);
  }

  // Translates \xHH below 80, \x{H...} and \uHHHH.
  void CodePoint(size_t begin) {
    bool braces = pattern_[begin + 1] == 'x' && Take("{"), two = pattern_[begin + 1] == 'x' && !braces;
    size_t digits = at_, most = braces ? 6 : two ? 2 : 4;
    while (at_ < pattern_.size() && at_ - digits < most && absl::ascii_isxdigit(uint8_t(pattern_[at_]))) at_++;
    std::string_view hex = pattern_.substr(digits, at_ - digits);
    uint32_t value = 0;
    for (char ch : hex)
      value = value * 16 + uint32_t(absl::ascii_isdigit(uint8_t(ch)) ? ch - '0' : (ch | 32) - 'a' + 10);
    bool whole = braces ? !hex.empty() && Take("}") : hex.size() == most;
    bool character = value < (two ? 0x80u : 0x110000u) && (value < 0xD800 || value > 0xDFFF);
    if (!whole || !character || (Caseless() && value >= 0x80))
      return Refuse(begin, "\\xHH below 80, \\x{H..} or \\uHHHH of a character", pattern_.substr(begin, 6));
    out_ += fmt::format("\\x{{{:X}}}", value);
  }

  void Class() {
    size_t begin = at_++;
    out_ += '[';
    if (Take("^")) out_ += '^';
    bool first = true, last_is_set = false;  // last_is_set: a following - begins no range
    for (; !Ends() && Peek() != ']'; first = false) {
      char ch = Peek();
      if (ch == '[' || pattern_.substr(at_).starts_with("&&"))
        return Refuse(at_, "no class within a class", pattern_.substr(at_, 2));
      if (ch == '-' && last_is_set && pattern_.substr(at_, 2) != "-]")
        return Refuse(at_, "\\- after a class of characters", "-");
      if (ch == '\\') {
        last_is_set =
            at_ + 1 < pattern_.size() && std::string_view("sdDpP").find(pattern_[at_ + 1]) != std::string_view::npos;
        Escape(true);
      } else {
        last_is_set = false;
        if (Caseless() && uint8_t(ch) >= 0x80) return Refuse(at_, "ASCII in (?i: )", pattern_.substr(at_, 1));
        size_t from = at_;
        NextCodePoint(pattern_, at_);
        if (ch != '-' && absl::ascii_ispunct(uint8_t(ch))) out_ += '\\';
        out_ += pattern_.substr(from, at_ - from);
      }
      if (!status_.ok()) return;
    }
    if (first || Ends()) return Refuse(begin, "characters and a ] after the [", pattern_.substr(begin, 4));
    at_++;
    out_ += ']';
    repeatable_ = true;
  }

  static constexpr uint32_t kMostRepeats = 1000;

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  std::vector<bool> caseless_;  // one per open group
  bool repeatable_ = false;     // whether the previous item can be repeated
  char literal_ = '\0';         // the previous character, in (?i: )
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::string> PcreSyntax(std::string_view pattern) {
  if (InvalidUtf8(pattern) != pattern.npos)
    return absl::InvalidArgumentError("pattern: expected UTF-8, got other bytes");
  return Translator(pattern).Run();
}

}  // namespace weft
