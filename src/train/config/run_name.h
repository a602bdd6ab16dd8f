// The folder of a run: the output paths that `run: NAME` implies.
//
//   runs/NAME/step-000100/ ...   checkpoint.dir
//   runs/NAME/log.jsonl          log.jsonl, with the merged config next to it in config.yaml
//   runs/NAME/tensorboard/       log.tensorboard
//   runs/NAME/trace.json         profile.path
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/train/config/config.h"

namespace weft {

inline constexpr const char* kRunsFolder = "runs";

// Whether a name has only letters, digits, '.', '_' and '-', and begins with a letter or a digit.
bool IsRunName(std::string_view name);
// Returns a valid run name close to any text, for example to a folder's name.
std::string RunNameFrom(std::string_view text);
// Returns "runs/NAME".
std::string RunFolder(const std::string& name);
// Returns NAME for 1, NAME-2 for 2 and so on, for consecutive runs of one config.
std::string NumberedRun(const std::string& name, int64_t number);
// Whether NumberedRun(name, n) is `folder` for some n.
bool IsNumberedRun(const std::string& name, std::string_view folder);

// Sets the keys above that the config does not give. Does nothing without config.run.
void FillRun(Config& config);
// Whether the value of a key comes from config.run.
bool IsOfRun(const Config& config, std::string_view key);
// Returns the arguments that resume a run: "checkpoint.resume=auto", after "run=NAME" if the run has a name.
std::string ResumeWords(const Config& config);

}  // namespace weft
