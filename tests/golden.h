// Golden files: the texts that tests compare with. WEFT_UPDATE_GOLDEN=1 rewrites them, and a reviewer then reads the
// diff.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace weft::test {

inline void ExpectGolden(const std::string& name, const std::string& text) {
  std::string path = WEFT_GOLDEN_DIR "/" + name;
  if (std::getenv("WEFT_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::string golden((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(golden, text) << "this changed: " << path;
}

}  // namespace weft::test
