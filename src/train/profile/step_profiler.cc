#include "weft/train/profile/step_profiler.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/host/host_name.h"
#include "weft/train/config/config_check.h"
#include "weft/train/io/durable.h"
#include "weft/train/io/output_path.h"
#include "weft/train/profile/rank_clocks.h"
#include "weft/train/profile/rank_trace.h"

namespace weft {
namespace {

// Calls `take` on rank 0 with the bytes of each rank in turn, so that it holds those of one rank at a time.
void ForEachRank(ProcessGroup& world, const std::string& mine, const std::function<void(const std::string&)>& take) {
  std::vector<int64_t> sizes(size_t(world.size()));
  auto size = int64_t(mine.size());
  world.AllGather(&size, sizes.data(), 1, DType::kI64);
  if (world.rank() != 0) return world.Send(mine.data(), size, DType::kU8, 0);
  take(mine);
  for (int r = 1; r < world.size(); r++) {
    std::string bytes(size_t(sizes[size_t(r)]), '\0');
    world.Recv(bytes.data(), int64_t(bytes.size()), DType::kU8, r);
    take(bytes);
  }
}

// Renames an older profile of another run or of an earlier start of this run.
absl::StatusOr<DurableFile> NewTrace(const std::string& path, Notices& notices) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    absl::StatusOr<std::string> aside = MoveAside(path);
    if (!aside.ok()) return aside.status();
    notices.Say(fmt::format("{} had another profile, which is {} now", path, *aside));
  }
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);  // creating the file reports failures
  return DurableFile::Create(path);
}

// Returns the earliest time of all ranks. Times are on rank 0's clock.
int64_t Earliest(ProcessGroup& world, int64_t mine) {
  world.AllReduce(&mine, &mine, 1, DType::kI64, ReduceOp::kMin);
  return mine;
}

ProfileRecord RecordOf(const ProfileTotals& totals) {
  ProfileRecord record;
  record.step_ms = totals.step_time / std::max(totals.steps, 1.0) / 1e6;
  record.kernels = totals.Share(totals.kernel_time);
  record.collectives = totals.Share(totals.exposed);
  record.waiting = totals.Share(totals.waiting);
  record.hidden = totals.Share(totals.collective_time - totals.exposed);
  record.neither = totals.Share(totals.step_time - totals.kernel_time - totals.exposed);
  record.table = ProfileTable(totals);
  return record;
}

}  // namespace

absl::Status CheckProfiledSteps(const Config& config, int64_t start_step) {
  const StepRange& steps = config.profile.steps;
  if (steps.empty() || steps.first > start_step) return absl::OkStatus();
  return RefuseKey(
      config, "profile.steps",
      fmt::format("expected steps after {}, where the run resumes, got [{}, {}]; give later steps or remove it",
                  start_step, steps.first, steps.last));
}

void StepProfiler::Begin() {
  runner_.StartProfile(steps().last - steps().first + 1);
  clock_offset_ = ClockOffset(mesh_.World());
  running_ = true;
}

std::string StepProfiler::NameOfRank() const {
  std::vector<std::string> place;
  for (int axis = 0; axis < mesh_.shape().num_axes(); axis++)
    place.push_back(fmt::format("{}={}", mesh_.shape().names[size_t(axis)], mesh_.coords()[size_t(axis)]));
  return fmt::format("rank {} ({}) on {}", mesh_.rank(), fmt::join(place, " "), HostName());
}

absl::Status StepProfiler::WriteTrace(const std::string& mine, int64_t last_step) {
  ProcessGroup& world = mesh_.World();
  bool writes = world.rank() == 0;
  absl::StatusOr<DurableFile> file =
      writes ? NewTrace(config_.profile.path, notices_) : absl::StatusOr<DurableFile>(absl::UnavailableError(""));
  absl::Status status = writes ? file.status() : absl::OkStatus();
  auto write = [&](std::string_view text) {
    if (status.ok()) status = file->Write(text);
  };
  const char* before = kTraceStart;
  ForEachRank(world, mine, [&](const std::string& events) {
    write(std::exchange(before, ",\n"));
    write(events);
  });
  if (!writes) return status;
  write(kTraceEnd);
  write(fmt::format(R"(,"otherData":{{"weft":"{}","mesh":"{}","steps":"{} to {}"}}}})", WEFT_VERSION,
                    ToString(mesh_.shape()), steps().first, last_step));
  write("\n");
  return status.ok() ? file->Close() : status;
}

absl::StatusOr<ProfileRecord> StepProfiler::Finish(int64_t step) {
  running_ = false;
  std::unique_ptr<RunProfile> profile = runner_.TakeProfile();
  std::vector<RunProfile::Step> timed = profile->Read();
  std::vector<int64_t> arrivals = LastArrivals(timed, mesh_, clock_offset_);
  int64_t begin = timed.empty() ? std::numeric_limits<int64_t>::max() : timed[0].span.begin - clock_offset_;
  RankTrace trace(
      timed,
      {.mesh = mesh_.shape(), .first_step = steps().first, .origin = Earliest(mesh_.World(), begin) + clock_offset_},
      arrivals);
  ProfileTotals totals = trace.totals();
  totals.SumOverRanks(mesh_.World());
  if (absl::Status s = WriteTrace(trace.Events(mesh_.rank(), NameOfRank()), step); !s.ok()) return s;
  ProfileRecord record = RecordOf(totals);
  record.first_step = steps().first;
  record.step = step;
  record.path = config_.profile.path;
  if (device_ != DeviceKind::kCpu)
    record.note = fmt::format("on {} these steps ran call by call, not as one recording: other steps take less time",
                              Name(device_));
  return record;
}

}  // namespace weft
