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

namespace weft {
namespace {

namespace fs = std::filesystem;

// Absolute, through links as far as it is there, without a slash at its end.
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

// The part of `path` below `folder`, "." where they are one; nothing where it lies elsewhere.
std::optional<fs::path> Below(const std::string& folder, const std::string& path) {
  fs::path outer = Normal(folder), inner = Normal(path);
  bool is_below = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
  return is_below ? std::optional(inner.lexically_relative(outer)) : std::nullopt;
}

// A file that has something, and not what a log begins with.
bool HasSomethingElse(const std::string& log) {
  constexpr std::string_view kBegin = "{\"event\":";
  std::error_code error;
  if (!fs::is_regular_file(log, error) || fs::file_size(log, error) == 0 || error) return false;
  std::string begin(kBegin.size(), '\0');
  std::ifstream(log, std::ios::binary).read(begin.data(), std::streamsize(begin.size()));
  return begin != kBegin;
}

using Faults = std::vector<ConfigFault>;

// The log starts afresh and the merged config is saved beside it: neither may hit a file that the run reads.
void CheckInputs(const Config& config, Faults& faults) {
  const std::string& jsonl = config.log.jsonl;
  auto check = [&](bool holds, const std::string& what) {
    if (!holds) faults.push_back({"log.jsonl", what});
  };
  auto differs = [&](const char* key, const std::string& read) {
    bool same = SameFile(jsonl, read) || fnmatch(read.c_str(), jsonl.c_str(), FNM_PATHNAME) == 0;
    check(!same, fmt::format("would overwrite {}, which {} names; give another file", jsonl, key));
  };
  std::string extension = absl::AsciiStrToLower(fs::path(jsonl).extension().string());
  check(extension != ".yaml" && extension != ".yml",
        fmt::format("expected a file of JSON lines, got {}, which is a config's name; use {}", jsonl,
                    fs::path(jsonl).replace_extension(".jsonl").string()));
  check(!SameFile(jsonl, config.file), fmt::format("would overwrite the config {}; give another file", config.file));
  check(!SameFile(SavedConfigPath(jsonl), config.file),
        fmt::format("the merged config is saved as {}, which would overwrite this config; give another file",
                    SavedConfigPath(jsonl)));
  for (const std::string& input : config.data.train) differs("data.train", input);
  for (const std::string& input : config.data.val.paths) differs("data.val", input);
  if (!config.model.init.empty()) differs("model.init", config.model.init);
  if (size_t colon = config.data.tokenizer.find(':'); colon != std::string::npos)
    differs("data.tokenizer", config.data.tokenizer.substr(colon + 1));
}

// A file of the log where a folder is to be, or one above it.
void CheckFolders(const Config& config, Faults& faults) {
  for (const std::string& file : {config.log.jsonl, SavedConfigPath(config.log.jsonl)})
    for (auto [key, folder] : {std::pair<const char*, const std::string&>{"checkpoint.dir", config.checkpoint.dir},
                               {"log.tensorboard", config.log.tensorboard}})
      if (!folder.empty() && Below(file, folder))
        faults.push_back({"log.jsonl", fmt::format("{} is to be a file, but {} = {} makes it a folder; give log.jsonl "
                                                   "another path, {}, say",
                                                   file, key, folder, (fs::path(folder) / "log.jsonl").string())});
}

// Checkpoints come and go as whole folders.
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

std::vector<ConfigFault> CheckOutputPaths(const Config& config) {
  Faults faults;
  if (!config.log.jsonl.empty()) {
    CheckInputs(config, faults);
    CheckFolders(config, faults);
    CheckCheckpoints(config, "log.jsonl", config.log.jsonl, faults);
    if (faults.empty() && HasSomethingElse(config.log.jsonl))
      faults.push_back({"log.jsonl", fmt::format("{} is there and is no log of a run, which begins with {{\"event\":; "
                                                 "give another path, or remove it",
                                                 config.log.jsonl)});
  }
  if (!config.log.tensorboard.empty()) CheckCheckpoints(config, "log.tensorboard", config.log.tensorboard, faults);
  return faults;
}

}  // namespace weft
