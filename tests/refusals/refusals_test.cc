// Calls that cannot work are refused, in texts that are pinned.
#include "refusals/refusals.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <type_traits>

#include "error_of.h"
#include "golden.h"
#include "parallel/testing.h"
#include "weft/parallel/nn/module.h"

namespace weft::test {
namespace {

// The two boolean masks have opposite meanings, so one does not pass for the other, nor a plain Var for either.
template <class To, class From>
constexpr bool kPassesFor = std::is_convertible_v<From, To> || std::is_assignable_v<To&, From>;
static_assert(!kPassesFor<AttendMask, IgnoreMask> && !std::is_constructible_v<AttendMask, IgnoreMask>);
static_assert(!kPassesFor<IgnoreMask, AttendMask> && !std::is_constructible_v<IgnoreMask, AttendMask>);
static_assert(!kPassesFor<AttendMask, Var> && !kPassesFor<IgnoreMask, Var>);
static_assert(!kPassesFor<Var, AttendMask> && !kPassesFor<Var, IgnoreMask>);
static_assert(kPassesFor<AttendMask, AttendMask> && kPassesFor<IgnoreMask, IgnoreMask>);
static_assert(std::is_same_v<decltype(IgnoreMask().Attend()), AttendMask>);

std::string ErrorOfCall(const Refusal& refusal) {
  return ErrorOf([&] {
    ModelScope scope({.mesh = {{"dp"}, {1}}});
    Trace([&] {
      refusal.call();
      return Traced{};
    });
  });
}

// Replaces "FILE:12" by "@" and returns 12; returns 0 if the text does not name a line of this file.
int TakeLine(std::string& text, const std::string& file) {
  size_t at = text.find(fmt::format("{}:", file));
  if (at == text.npos) return 0;
  size_t end = text.find_first_not_of("0123456789", at + file.size() + 1);
  int line = std::stoi(text.substr(at + file.size() + 1));
  text.replace(at, end - at, "@");
  return line;
}

class Refusals : public testing::Test {
 protected:
  // Checks the errors of a file's calls. The lines that they name ascend as the calls do, so each is its call's.
  void Check(const std::string& file, const std::vector<Refusal>& refusals) {
    int before = 0;
    for (const Refusal& refusal : refusals) {
      std::string error = ErrorOfCall(refusal), what = fmt::format("{}: {}", refusal.op, refusal.what);
      SCOPED_TRACE(fmt::format("{}\n{}", what, error));
      ASSERT_FALSE(error.empty()) << "it was accepted";
      int line = TakeLine(error, file);
      EXPECT_GT(line, before) << "expected the line of the call";
      before = line;
      EXPECT_TRUE(error.starts_with(fmt::format("{} at @: ", refusal.op))) << "expected the op and its line first";
      for (const std::string& part : refusal.shows) EXPECT_NE(error.find(part), error.npos) << "expected " << part;
      if (error.find("an operand is empty") == error.npos) {
        EXPECT_NE(error.find("expected "), error.npos);
        EXPECT_NE(error.find(", got "), error.npos);
      }
      EXPECT_NE(error.find("; "), error.npos) << "expected advice";
      EXPECT_EQ(error.find('\n'), error.npos) << "expected one line";
      EXPECT_TRUE(texts_.insert(error).second) << "expected a text of its own";
      golden_ += fmt::format("{}\n  {}\n", what, error);
    }
  }

  std::set<std::string> texts_;
  std::string golden_;
};

TEST_F(Refusals, NameTheOpTheLineTheOperandsAndWhatToDo) {
  Check("attention_refusals.cc", AttentionRefusals());
  Check("op_refusals.cc", OpRefusals());
  Check("layer_refusals.cc", LayerRefusals());
  EXPECT_GE(texts_.size(), 100u);
  fmt::print("shown: {} refusals\n", texts_.size());
  ExpectGolden("refusals.txt", golden_);
}

}  // namespace
}  // namespace weft::test
