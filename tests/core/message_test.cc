// Messages: lines for people that may be lost, and never end a run.
#include "core/base/message.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(PrintMessage, DoesNotThrowWhereNothingCanBeWritten) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_TRUE(full);
  EXPECT_NO_THROW(PrintMessage(full, std::string(100'000, 'a')));
  EXPECT_NE(std::ferror(full), 0);
  std::fclose(full);
}

}  // namespace
}  // namespace weft
