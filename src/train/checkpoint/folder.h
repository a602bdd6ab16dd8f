// The folder that holds the checkpoints of a run: step-000100 and so on. Entries that begin with .tmp- are being
// written or removed and may be deleted at any time.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace weft {

// Whether a name is that of a checkpoint's folder, or of an entry that may be deleted at any time.
bool IsCheckpointName(std::string_view name);
std::string StepFolder(const std::string& dir, int64_t step);
std::string UnfinishedFolder(const std::string& dir, int64_t step);
// Returns the path of the file with which ranks find out whether they share `dir`. `word` must be unique.
std::string ProbeFile(const std::string& dir, const std::string& word);
// Returns the steps of the checkpoints in `dir`, newest first, or nothing if there is no such folder.
std::vector<int64_t> StepsIn(const std::string& dir);
// Returns a note if a checkpoint of a lower step was saved after that of `step`, judged by file times, or "". The
// highest step is then not the latest, because a run resumed from an older checkpoint.
std::string NoteOfLaterSaved(const std::string& dir, int64_t step);
// Whether the evaluation after the checkpoint's step was made after it was written. A file next to the manifest records
// that.
bool IsEvaluated(const std::string& folder);
absl::Status MarkEvaluated(const std::string& folder);
// Removes leftovers of killed writers. Continues past failures and returns the first one; KeepNewest does the same.
absl::Status RemoveUnfinished(const std::string& dir);
// Removes the checkpoints of `steps` except the newest `keep`, and erases the removed steps. 0 keeps all.
absl::Status KeepNewest(const std::string& dir, std::set<int64_t>& steps, int64_t keep);

}  // namespace weft
