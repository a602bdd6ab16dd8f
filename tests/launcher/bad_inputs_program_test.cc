// Runs the program on the tables' bad inputs. It must exit with code 2 and print the answer once, and nothing else.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "fmt/format.h"
#include "launcher/bad_inputs.h"
#include "share.h"
#include "train/temp_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using namespace testing_;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// Quotes an argument for a shell.
std::string Quoted(const std::string& word) {
  std::string quoted = "'";
  for (char ch : word) quoted += ch == '\'' ? "'\\''" : std::string(1, ch);
  return quoted + "'";
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) count++;
  return count;
}

class Program : public testing::Test {
 protected:
  void SetUp() override { MakeModels(folder_.Path("models"), WEFT_BAD_INPUTS); }

  // Returns what the program prints in a new folder. Checks its exit code and that it did not train.
  std::string Refuse(const BadInput& input, const std::vector<std::string>& more, int ranks) {
    fs::create_directories(folder_.Path(fmt::format("case{}", ++cases_)));
    fs::current_path(folder_.Path(fmt::format("case{}", cases_)));
    MakeFiles(input, folder_.Path("models"));
    answer_ = AnswerOf(input);
    std::string command = WEFT_WITH_ENVIRONMENT;
    if (ranks > 1) command += fmt::format(" mpirun -np {}", ranks);
    command += fmt::format(" {} train", WEFT_PROGRAM);
    for (const std::string& word : WordsOf(input)) command += " " + Quoted(word);
    for (const std::string& word : more) command += " " + word;
    int status = std::system((command + " > out 2> err < /dev/null").c_str());
    std::string out = ReadAll("out"), said = ReadAll("err");
    fs::current_path("/");
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2)
        << input.place << ": expected exit code 2, got " << status << "\n"
        << said;
    EXPECT_EQ(Count(out, "step "), 0) << input.place << " was trained on\n" << out;
    return said;
  }

  TempFolder folder_;
  std::string answer_;
  int cases_ = 0;
};

TEST_F(Program, SaysItOnceAndEndsWithTwo) {
  std::vector<BadInput> inputs = ReadBadInputs(WEFT_BAD_INPUTS);
  std::erase_if(inputs, [](const BadInput& input) { return input.ranks > 1; });
  for (size_t i = 0; i < inputs.size(); i += size_t(test::Share())) {
    std::string said = Refuse(inputs[i], {}, 1);
    // A run that resumes first prints in what it differs from the checkpoint.
    if (!answer_.starts_with("note: "))
      while (said.starts_with("note: ")) said.erase(0, std::min(said.find('\n'), said.size() - 1) + 1);
    EXPECT_EQ(said, answer_ + "\n") << inputs[i].place;
  }
}

// mpirun prints lines of its own too.
TEST_F(Program, SaysItOnceForAllRanks) {
  std::set<std::string> kinds = {"misspelt key",
                                 "no such data",
                                 "weights cut short",
                                 "manifest cut short",
                                 "bad tokenizer",
                                 "log that cannot be written",
                                 "shard cut short",
                                 "absurd sizes",
                                 "checkpoint of another model",
                                 "one path for two outputs"};
  for (const BadInput& input : ReadBadInputs(WEFT_BAD_INPUTS))
    if (kinds.erase(input.kind) > 0) {
      std::string said = Refuse(input, {"mesh.dp=2"}, 2);
      EXPECT_EQ(Count(said, answer_ + "\n"), 1) << input.place << "\n" << said;
    }
  EXPECT_TRUE(kinds.empty()) << *kinds.begin();
}

TEST_F(Program, SaysOnceWhatOnlySeveralRanksAreRefused) {
  for (const BadInput& input : ReadBadInputs(WEFT_BAD_INPUTS))
    if (input.ranks > 1) {
      std::string said = Refuse(input, {}, input.ranks);
      EXPECT_EQ(Count(said, answer_ + "\n"), 1) << input.place << "\n" << said;
    }
}

}  // namespace
}  // namespace weft
