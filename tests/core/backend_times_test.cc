// BackendTimes keep every bit as text, and take no other text.
#include "weft/core/runtime/backend_times.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <random>

#include "weft/core/base/error.h"

namespace weft {
namespace {

TEST(BackendTimes, TextKeepsEveryBit) {
  std::mt19937_64 random(1);
  BackendTimes times, copy;
  EXPECT_TRUE(times.empty());
  std::map<std::string, double> want;
  while (want.size() < 500) {
    auto value = std::bit_cast<double>(random() >> 1);  // any positive double
    if (MicrosecondsOf(fmt::format("{}", value)) != value) {
      EXPECT_FALSE(std::isfinite(value) && value > 0) << value;
      continue;
    }
    std::string call = fmt::format("sdpa bf16 [{}, 3] causal=1", want.size());
    times.Set(call, "flash", value);
    want[call] = value;
  }
  copy.Add(times.Text());
  EXPECT_EQ(copy.Text(), times.Text());
  for (const auto& [call, value] : want) {
    EXPECT_EQ(copy.Find(call, "flash"), value);
    EXPECT_EQ(copy.Find(call, "plain"), std::nullopt);
  }
}

TEST(BackendTimes, AddReplacesAndKeepsTheRest) {
  BackendTimes times, newer;
  times.Set("a", "flash", 1);
  times.Set("b", "flash", 2);
  newer.Set("b", "flash", 3);
  times.Add(newer.Text());
  times.Add("");
  EXPECT_EQ(times.Find("a", "flash"), 1);
  EXPECT_EQ(times.Find("b", "flash"), 3);
}

TEST(BackendTimes, OtherTextIsRefused) {
  BackendTimes times;
  for (const char* text : {"a\tflash\t1", "\n", "a\tflash\t\n", "a\tflash\tfast\n", "a\tflash\t-1\n", "a\tflash\tnan\n",
                           "a\tflash\tinf\n", "a\tflash\t0\n", "a\tflash\t1 \n", "flash 1\n"})
    EXPECT_THROW(times.Add(text), Error) << text;
  EXPECT_TRUE(times.empty());
}

}  // namespace
}  // namespace weft
