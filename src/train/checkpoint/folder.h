// The folder that holds the checkpoints of a run: step-000100 and so on. What begins with .tmp- is on its way in or
// out, and nobody's.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace weft {

// A name that StepFolder gives or that may go any time.
bool IsCheckpointName(std::string_view name);
std::string StepFolder(const std::string& dir, int64_t step);
std::string UnfinishedFolder(const std::string& dir, int64_t step);
// A file by which ranks find out whether they share `dir`; `word` is new each time.
std::string ProbeFile(const std::string& dir, const std::string& word);
// The steps of the checkpoints in `dir`, newest first; empty where there is no such folder.
std::vector<int64_t> StepsIn(const std::string& dir);
// A note where a checkpoint of a lower step was saved after that of `step`, by the times of their files: "highest" is
// then not "latest", for a run went back to an older one. "" where there is none.
std::string NoteOfLaterSaved(const std::string& dir, int64_t step);
// Whether the evaluation that follows a checkpoint's step has been made since it was written: a file beside its
// manifest.
bool IsEvaluated(const std::string& folder);
absl::Status MarkEvaluated(const std::string& folder);
// Removes what writers that were killed have left. Here and in KeepNewest a failure is the first of those that there
// were: what can be removed is.
absl::Status RemoveUnfinished(const std::string& dir);
// Removes the checkpoints of all `steps` but the newest `keep`, and leaves what was kept in `steps`; 0 keeps all.
absl::Status KeepNewest(const std::string& dir, std::set<int64_t>& steps, int64_t keep);

}  // namespace weft
