// Each page of docs/reference is what the program's tables give. A change of a key, a command, an event, a variable, an
// op or a collective needs the page to be written again:
//
//   WEFT_UPDATE_REFERENCE=1 build/release/tests/reference/reference_test
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "reference/pages.h"
#include "reference/sources.h"

namespace weft::reference {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(WEFT_ROOT) / "docs/reference";

class Reference : public testing::TestWithParam<Page> {};

TEST_P(Reference, PageIsWhatTheTablesGive) {
  std::string path = (kFolder / GetParam().file).string();
  std::string text = GetParam().text({.root = WEFT_ROOT, .program = WEFT_PROGRAM});
  if (std::getenv("WEFT_UPDATE_REFERENCE")) {
    std::ofstream(path, std::ios::binary) << text;
    GTEST_SKIP() << path << " is written";
  }
  EXPECT_EQ(ReadAll(path), text) << "run this test once with WEFT_UPDATE_REFERENCE=1";
}

std::string NameOf(const testing::TestParamInfo<Page>& page) {
  std::string name = page.param.file;
  for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Reference, testing::ValuesIn(kPages), NameOf);

TEST(ReferenceFolder, HasNoOtherPage) {
  std::set<std::string> pages, files;
  for (const Page& page : kPages) pages.insert(page.file);
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) files.insert(entry.path().filename().string());
  EXPECT_EQ(files, pages);
}

}  // namespace
}  // namespace weft::reference
