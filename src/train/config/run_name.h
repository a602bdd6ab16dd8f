// The folder of a run: what `run: NAME` means for the keys that say where a run writes.
//
//   runs/NAME/step-000100/ ...   checkpoint.dir
//   runs/NAME/log.jsonl          log.jsonl, with the merged config beside it in config.yaml
//   runs/NAME/tensorboard/       log.tensorboard
//   runs/NAME/trace.json       profile.path
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/train/config/config.h"

namespace weft {

inline constexpr const char* kRunsFolder = "runs";

// Letters, digits, '.', '_' and '-', the first of them a letter or a digit.
bool IsRunName(std::string_view name);
// The nearest name to any text, for example to that of a folder.
std::string RunNameFrom(std::string_view text);
// "runs/NAME".
std::string RunFolder(const std::string& name);
// NAME for 1, NAME-2 for 2 and so on: runs of one config that start one after the other.
std::string NumberedRun(const std::string& name, int64_t number);
// Whether NumberedRun(name, n) is `folder` for some n.
bool IsNumberedRun(const std::string& name, std::string_view folder);

// Gives the keys above their values, except for those that the config sets itself. Does nothing without config.run.
void FillRun(Config& config);
// Whether the value of a key comes from config.run.
bool IsOfRun(const Config& config, std::string_view key);
// What to start a run with so that it resumes: "checkpoint.resume=auto", after the run's name if it has one.
std::string ResumeWords(const Config& config);

}  // namespace weft
