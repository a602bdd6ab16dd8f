// weft train's functions refuse each bad input of the tables with its expected answer, before the first step.
#include "launcher/bad_inputs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "fmt/format.h"
#include "launcher/train_job.h"
#include "train/temp_folder.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/config/model_of.h"
#include "weft/train/loop/trainer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using namespace testing_;

// Trains on one rank. Its gate is shut, so no step runs.
absl::Status Train(const TrainJob& job) {
  absl::Status status;
  RunRanks(1, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, MeshOf(job.config));
    StopGate shut;
    shut.Release(0, "the test");
    status = Trainer(job.config, job.data, context, mesh, DeviceKind::kCpu, {.stop = &shut}).Run();
  });
  return status;
}

absl::Status Answer(const BadInput& input) {
  absl::StatusOr<TrainJob> job = LoadTrainJob(WordsOf(input), input.ranks);
  if (!job.ok()) return job.status();
  if (absl::Status s = CheckOutputs(job->config); !s.ok()) return s;
  if (input.ranks > 1) return absl::OkStatus();
  absl::Status status = Train(*job);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << "not exit code 2: " << status;
  return status;
}

// WEFT_UPDATE_GOLDEN=1 writes the actual answers into the tables, and a reviewer then reads the diff.
void Update(const std::string& folder, const std::map<std::string, std::string>& answers) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream in(entry.path());
    std::string text, answer, line;
    for (int number = 1; std::getline(in, line); number++) {
      if (line.starts_with("  says ")) continue;
      bool ends = !answer.empty() && !line.starts_with("  ");
      if (ends) text += answer, answer.clear();
      text += line + "\n";
      auto found = answers.find(fmt::format("{}:{}", entry.path().filename().string(), number));
      if (found != answers.end()) answer = found->second;
    }
    in.close();
    std::ofstream(entry.path()) << text + answer;
  }
}

std::string AsLines(std::string answer, const std::string& cwd) {
  for (size_t at = 0; (at = answer.find(cwd)) != answer.npos;) answer.replace(at, cwd.size(), "{cwd}");
  std::string lines = "  says ";
  for (char ch : answer) lines += ch == '\n' ? "\n  says " : std::string(1, ch);
  return lines + "\n";
}

TEST(BadInputs, EachIsRefusedAsItsTableSays) {
  std::vector<BadInput> inputs = ReadBadInputs(WEFT_BAD_INPUTS);
  TempFolder folder;
  MakeModels(folder.Path("models"), WEFT_BAD_INPUTS);
  std::map<std::string, int> kinds;
  std::map<std::string, std::string> answers;
  for (const BadInput& input : inputs) {
    kinds[input.kind]++;
    std::string here = folder.Path(fmt::format("case{}", answers.size()));
    fs::create_directories(here);
    fs::current_path(here);
    MakeFiles(input, folder.Path("models"));
    absl::Status status = Answer(input);
    std::string answer(status.message());
    EXPECT_FALSE(status.ok()) << input.place << " (" << input.kind << ") was accepted";
    EXPECT_EQ(answer, AnswerOf(input)) << input.place << " (" << input.kind << ")";
    answers[input.place] = AsLines(answer, here);
    fs::current_path("/");
  }
  if (std::getenv("WEFT_UPDATE_GOLDEN")) Update(WEFT_BAD_INPUTS, answers);
  EXPECT_GE(inputs.size(), 150u);
  EXPECT_GE(kinds.size(), 20u);
  fmt::print("shown: {} bad inputs of {} kinds are refused as their tables say\n", inputs.size(), kinds.size());
}

}  // namespace
}  // namespace weft
