#include "parallel/checkpoint/whole.h"

#include <cstring>

#include "fmt/format.h"
#include "parallel/checkpoint/folder.h"

namespace weft {
namespace {

template <class T>
std::string_view BytesOf(const T* data, size_t count) {
  return {reinterpret_cast<const char*>(data), count * sizeof *data};
}

// Rank 0's view of a folder is everyone's.
std::vector<int64_t> SharedSteps(const std::string& dir, const Ranks& ranks) {
  std::vector<int64_t> steps = ranks.rank == 0 ? StepsIn(dir) : std::vector<int64_t>();
  std::string bytes = ranks.gather(BytesOf(steps.data(), steps.size()))[0];
  steps.resize(bytes.size() / sizeof(int64_t));
  if (!steps.empty()) std::memcpy(steps.data(), bytes.data(), bytes.size());
  return steps;
}

}  // namespace

absl::StatusOr<Checkpoint> OpenWhole(const std::string& folder, const Ranks& ranks) {
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  if (absl::Status s = FirstFault(ranks, checkpoint.status()); !s.ok()) return s;
  uint32_t mine = checkpoint->Crc();
  bool same = ranks.gather(BytesOf(&mine, 1))[0] == BytesOf(&mine, 1);
  absl::Status status = checkpoint->Verify(ranks.rank, ranks.size);
  if (!same)
    status =
        absl::DataLossError(fmt::format("{}: rank {} finds another manifest there than rank 0; give all ranks the "
                                        "same folder",
                                        folder, ranks.rank));
  if (absl::Status s = FirstFault(ranks, status); !s.ok()) return s;
  return checkpoint;
}

std::vector<std::string> NewestWhole::Notes() const {
  std::vector<std::string> notes;
  for (const std::string& fault : broken) notes.push_back("broken, passed over: " + fault);
  if (!later.empty()) notes.push_back(later);
  return notes;
}

NewestWhole FindNewestWhole(const std::string& dir, const Ranks& ranks, int64_t last) {
  NewestWhole newest;
  for (int64_t step : SharedSteps(dir, ranks)) {
    if (step > last) continue;
    absl::StatusOr<Checkpoint> checkpoint = OpenWhole(StepFolder(dir, step), ranks);
    if (checkpoint.ok()) {
      newest.checkpoint = *std::move(checkpoint);
      newest.later = NoteOfLaterSaved(dir, step);
      break;
    }
    newest.broken.emplace_back(checkpoint.status().message());
  }
  return newest;
}

}  // namespace weft
