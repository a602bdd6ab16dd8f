#include "launcher/bad_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "fmt/format.h"
#include "launcher/train_job.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/config/model_of.h"
#include "weft/train/huggingface/hf_export.h"
#include "weft/train/loop/trainer.h"

namespace weft::testing_ {
namespace {

namespace fs = std::filesystem;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

void Write(const std::string& path, const std::string& bytes) {
  if (fs::path parent = fs::path(path).parent_path(); !parent.empty()) fs::create_directories(parent);
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string Unescaped(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    char next = text.at(++i);
    if (next == 'x') {
      bytes += char(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      bytes += next == 't' ? '\t' : next == 'n' ? '\n' : next;
    }
  }
  return bytes;
}

// Splits the text at the first `at`.
std::pair<std::string, std::string> Cut(const std::string& text, char at = ' ') {
  size_t end = std::min(text.find(at), text.size());
  return {text.substr(0, end), end < text.size() ? text.substr(end + 1) : ""};
}

template <class T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

void Set(BadInput& input, const std::string& verb, const std::string& text) {
  if (verb == "yaml")
    input.yaml += Unescaped(text) + "\n";
  else if (verb == "whole")
    input.yaml.clear();
  else if (verb == "word")
    input.words.push_back(Unescaped(text));
  else if (verb == "config")
    input.config = text;
  else if (verb == "ranks")
    input.ranks = std::stoi(text);
  else if (verb == "says")
    input.says += (input.says.empty() ? "" : "\n") + text;
  else
    input.files.emplace_back(verb, text);
}

std::vector<BadInput> ReadTable(const fs::path& path, const std::string& base) {
  std::vector<BadInput> inputs;
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); number++) {
    line.erase(0, line.find_first_not_of(' '));
    if (line.empty() || line[0] == '#') continue;
    auto [verb, text] = Cut(line);
    if (verb == "case")
      inputs.push_back({fmt::format("{}:{}", path.filename().string(), number), text, base});
    else
      Set(inputs.at(inputs.size() - 1), verb, text);
  }
  return inputs;
}

void MakeShard(const std::string& text) {
  std::istringstream in(text);
  std::string name;
  int32_t header[256] = {};
  size_t bytes = 0;
  in >> name >> header[0] >> header[1] >> header[2] >> bytes;
  Write(name, std::string(reinterpret_cast<const char*>(header), sizeof header) + std::string(bytes, '\0'));
}

void MakeTensors(const std::string& name, const std::string& text) {
  auto [bytes, escaped] = Cut(text);
  std::string header = Unescaped(escaped);
  Write(name, BytesOf(uint64_t(header.size())) + header + std::string(std::stoul(bytes), '\0'));
}

void Replace(const std::string& name, const std::string& text) {
  auto [from, to] = Cut(text, '|');
  std::string bytes = Read(name), old = Unescaped(from);
  size_t at = bytes.find(old);
  ASSERT_NE(at, bytes.npos) << name << " does not hold " << from;
  Write(name, bytes.replace(at, old.size(), Unescaped(to)));
}

void Seal(const std::string& name) {
  std::string text = Read(name);
  Write(name, Sealed(text.substr(0, text.rfind(",\n\"crc32c\""))));
}

void MakeFile(const std::string& verb, const std::string& text, const std::string& models) {
  auto [name, rest] = Cut(text);
  if (verb == "file") return Write(name, Unescaped(rest));
  if (verb == "folder") return void(fs::create_directories(name));
  if (verb == "link") return fs::create_symlink(rest, name);
  if (verb == "shard") return MakeShard(text);
  if (verb == "tensors") return MakeTensors(name, rest);
  if (verb == "checkpoint" || verb == "weights") {
    if (fs::path parent = fs::path(name).parent_path(); !parent.empty()) fs::create_directories(parent);
    return fs::copy(models + "/" + verb, name);
  }
  if (verb == "cut") return fs::resize_file(name, fs::file_size(name) - std::stoul(rest));
  if (verb == "append") return Write(name, Read(name) + Unescaped(rest));
  if (verb == "replace") return Replace(name, rest);
  if (verb == "remove") return void(fs::remove(name));
  if (verb == "seal") return Seal(name);
  ADD_FAILURE() << "there is no verb " << verb;
}

}  // namespace

std::vector<BadInput> ReadBadInputs(const std::string& tables) {
  std::string base = Read(tables + "/base.yaml");
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(tables))
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<BadInput> inputs;
  for (const fs::path& path : paths)
    for (BadInput& input : ReadTable(path, base)) inputs.push_back(std::move(input));
  return inputs;
}

void MakeModels(const std::string& folder, const std::string& tables) {
  Write(folder + "/t.txt", std::string(2000, 'a'));
  Write(folder + "/a.yaml", Read(tables + "/base.yaml"));
  absl::StatusOr<TrainJob> job = LoadTrainJob({folder + "/a.yaml", "data.train=" + folder + "/t.txt", "train.steps=1",
                                               "device=cpu", "checkpoint.dir=" + folder + "/saved"},
                                              1);
  ASSERT_TRUE(job.ok()) << job.status();
  RunRanks(1, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, MeshOf(job->config));
    absl::Status status = Trainer(job->config, job->data, context, mesh).Run();
    EXPECT_TRUE(status.ok()) << status;
  });
  fs::rename(folder + "/saved/step-000001", folder + "/checkpoint");
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder + "/checkpoint");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  absl::StatusOr<HfExport> exported = ExportHf(*checkpoint, folder + "/weights", DType::kF32);
  ASSERT_TRUE(exported.ok()) << exported.status();
}

void MakeFiles(const BadInput& input, const std::string& models) {
  Write("t.txt", std::string(2000, 'a'));
  Write("a.yaml", input.yaml);
  for (const auto& [verb, text] : input.files) MakeFile(verb, text, models);
}

std::vector<std::string> WordsOf(const BadInput& input) {
  std::vector<std::string> words = input.words;
  if (!input.config.empty()) words.insert(words.begin(), input.config);
  return words;
}

std::string AnswerOf(const BadInput& input) {
  std::string answer = input.says, cwd = fs::current_path().string();
  for (size_t at = 0; (at = answer.find("{cwd}")) != answer.npos;) answer.replace(at, 5, cwd);
  return answer;
}

}  // namespace weft::testing_
