#include "weft/train/preflight/output_check.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/config/run_name.h"
#include "weft/train/log/log_outputs.h"
#include "weft/train/profile/trace_text.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Returns an absolute path without a trailing slash. Resolves links in the part that exists.
fs::path Normal(const std::string& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error), normal = fs::weakly_canonical(absolute, error);
  if (error) normal = absolute.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) || Normal(a) == Normal(b);
}

// Returns the part of `path` below `folder`, "." if they are equal, or none if `path` is elsewhere.
std::optional<fs::path> Below(const std::string& folder, const std::string& path) {
  fs::path outer = Normal(folder), inner = Normal(path);
  bool is_below = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
  return is_below ? std::optional(inner.lexically_relative(outer)) : std::nullopt;
}

// Whether a file is not empty and does not begin as its log should.
bool HasSomethingElse(const std::string& log, std::string_view start) {
  std::error_code error;
  if (!fs::is_regular_file(log, error) || fs::file_size(log, error) == 0 || error) return false;
  std::string begin(start.size(), '\0');
  std::ifstream(log, std::ios::binary).read(begin.data(), std::streamsize(begin.size()));
  return begin != start;
}

using Faults = std::vector<ConfigFault>;

// Returns ".jsonl" for log.jsonl.
std::string ExtensionOf(const OutputPath& output) {
  std::string extension = fs::path(output.key).extension().string();
  return extension == ".path" ? ".json" : extension;
}

void CheckName(const OutputPath& output, Faults& faults) {
  const std::string& path = output.path;
  std::string extension = absl::AsciiStrToLower(fs::path(path).extension().string());
  if (extension == ".yaml" || extension == ".yml")
    faults.push_back(
        {output.key, fmt::format("expected a file of {}, got {}, which is a config's name; use {}", output.lines, path,
                                 fs::path(path).replace_extension(ExtensionOf(output)).string())});
}

// Checks that saving the merged config would not overwrite the config that the run reads.
void CheckSavedConfig(const Config& config, Faults& faults) {
  if (SameFile(SavedConfigPath(config), config.file))
    faults.push_back({"log.jsonl", fmt::format("the merged config is saved as {}, which would overwrite this config; "
                                               "give another file",
                                               SavedConfigPath(config))});
}

// Logs are appended to or renamed, so a log must not be a file that the run reads.
void CheckInputs(const Config& config, const OutputPath& output, Faults& faults) {
  const std::string& path = output.path;
  auto check = [&](bool holds, const std::string& what) {
    if (!holds) faults.push_back({output.key, what});
  };
  auto differs = [&](const char* key, const std::string& read) {
    bool same = SameFile(path, read) || fnmatch(read.c_str(), path.c_str(), FNM_PATHNAME) == 0;
    check(!same, fmt::format("would overwrite {}, which {} names; give another file", path, key));
  };
  check(!SameFile(path, config.file), fmt::format("would overwrite the config {}; give another file", config.file));
  if (path == config.log.jsonl) CheckSavedConfig(config, faults);
  for (const std::string& input : config.data.train) differs("data.train", input);
  for (const std::string& input : config.data.val.paths) differs("data.val", input);
  if (!config.model.init.empty()) differs("model.init", config.model.init);
  if (!config.parallel.plan.file.empty()) differs("parallel.plan", config.parallel.plan.file);
  if (size_t colon = config.data.tokenizer.find(':'); colon != std::string::npos)
    differs("data.tokenizer", config.data.tokenizer.substr(colon + 1));
  for (const OutputPath& other : OutputPathsOf(config)) {
    if (std::string_view(other.key) == output.key) break;
    differs(other.key, other.path);
  }
}

// Refuses a log file whose path is needed as a folder, or as the parent of one.
void CheckFolders(const Config& config, const OutputPath& output, Faults& faults) {
  std::vector<std::string> files = {output.path};
  if (files[0] == config.log.jsonl) files.push_back(SavedConfigPath(config));
  for (const std::string& file : files)
    for (auto [key, folder] : {std::pair<const char*, const std::string&>{"checkpoint.dir", config.checkpoint.dir},
                               {"log.tensorboard", config.log.tensorboard}})
      if (!folder.empty() && Below(file, folder))
        faults.push_back(
            {output.key, fmt::format("{} is to be a file, but {} = {} makes it a folder; give {} another path, {}, say",
                                     file, key, folder, output.key, (fs::path(folder) / output.key).string())});
}

// Checkpoints are replaced and removed as whole folders, so no other output may be inside one.
void CheckCheckpoints(const Config& config, const char* key, const std::string& path, Faults& faults) {
  const CheckpointConfig& c = config.checkpoint;
  std::optional<fs::path> below = c.dir.empty() ? std::nullopt : Below(c.dir, path);
  std::string name = below ? below->begin()->string() : "";
  if (IsCheckpointName(name))
    faults.push_back({key, fmt::format("{} would be lost with {} of checkpoint.dir, which is replaced and removed as a "
                                       "whole; give a path outside it",
                                       path, name)});
  else if (c.resume != "auto" && c.resume != "never" && Below(c.resume, path))
    faults.push_back({key, fmt::format("{} would change {}, which checkpoint.resume names; give a path outside it",
                                       path, c.resume)});
}

}  // namespace

std::vector<OutputPath> OutputPathsOf(const Config& config) {
  std::vector<OutputPath> paths;
  for (const LogOutput& output : LogOutputs())
    if (const std::string& path = output.PathIn(config); !path.empty())
      paths.push_back({output.key, path, output.is_folder() ? nullptr : "log", output.lines, output.file_start});
  if (!config.profile.steps.empty() && !config.profile.path.empty())
    paths.push_back({"profile.path", config.profile.path, "profile", "trace events as JSON", kTraceStart});
  return paths;
}

std::vector<ConfigFault> CheckOutputPaths(const Config& config) {
  Faults all;
  for (const OutputPath& output : OutputPathsOf(config)) {
    const std::string& path = output.path;
    Faults faults;
    if (!output.is_folder() && !IsOfRun(config, output.key)) {  // a run's folder has only its own files
      CheckName(output, faults);
      CheckInputs(config, output, faults);
      CheckFolders(config, output, faults);
    }
    CheckCheckpoints(config, output.key, path, faults);
    if (faults.empty() && !output.is_folder() && HasSomethingElse(path, output.start))
      faults.push_back({output.key, fmt::format("{} is there and is no {} of a run, which begins with {}; give "
                                                "another path, or remove it",
                                                path, output.kind, output.start)});
    all.insert(all.end(), faults.begin(), faults.end());
  }
  return all;
}

}  // namespace weft
