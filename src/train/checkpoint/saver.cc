#include "weft/train/checkpoint/saver.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "weft/core/host/message.h"
#include "weft/dist/group/consensus.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/io/crc32c.h"
#include "weft/train/io/durable.h"

namespace weft {
namespace {

std::string PathIn(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

// Packs a rank's report to rank 0 after it has written: its stall in seconds, then the checksums of its file.
std::string PackPart(double stall, const std::vector<uint32_t>& crcs) {
  std::string bytes(reinterpret_cast<const char*>(&stall), sizeof stall);
  return bytes.append(reinterpret_cast<const char*>(crcs.data()), crcs.size() * sizeof crcs[0]);
}
std::pair<double, std::vector<uint32_t>> UnpackPart(const std::string& bytes) {
  double stall = 0;
  std::memcpy(&stall, bytes.data(), sizeof stall);
  std::vector<uint32_t> crcs((bytes.size() - sizeof stall) / sizeof(uint32_t));
  if (!crcs.empty()) std::memcpy(crcs.data(), bytes.data() + sizeof stall, crcs.size() * sizeof crcs[0]);
  return {stall, std::move(crcs)};
}

void SetPosition(const SavedPosition& position, Manifest& manifest) {
  manifest.step = position.step;
  manifest.seed = position.seed;
  manifest.sequences = position.sequences;
  manifest.of_source = position.of_source;
  manifest.eval_due = position.eval_due;
}

}  // namespace

CheckpointSaver::CheckpointSaver(State& state, ProcessGroup& world, Options options)
    : state_(state),
      world_(world),
      options_(std::move(options)),
      steps_(options_.earlier),
      snapshot_(state, world.rank()) {
  if (state.device().device().kind != DeviceKind::kCpu) NoteUnstaged();
}

CheckpointSaver::~CheckpointSaver() { Join(); }

// Sums over ranks, because hosts may differ and only rank 0 prints notes.
void CheckpointSaver::NoteUnstaged() {
  int64_t ranks = snapshot_.staged() ? 0 : 1;
  world_.AllReduce(&ranks, &ranks, 1, DType::kI64);
  if (ranks == 0 || !Leads() || !options_.notices) return;
  options_.notices->Say(fmt::format(
      "checkpoint.dir: for {} of {} ranks the host does not lock the memory of checkpoints ({} on rank 0), so "
      "they are copied to ordinary memory, which is slower, and training waits for that; raise the limit on "
      "memory of the container or the job",
      ranks, world_.size(), BytesText(snapshot_.bytes())));
}

absl::Status CheckpointSaver::Start(const SavedPosition& position, bool last) {
  Clock::time_point begin = Clock::now();
  absl::Status before = Wait();
  Clock::time_point taken = Clock::now();
  snapshot_.Take();
  copying_ = true;
  stall_ = Clock::now() - begin;
  saved_ = evaluated_ = -1;  // no thread is running
  if (before.ok()) {
    thread_ = std::thread([this, position, taken, last] { Run(position, taken, last); });
    return before;
  }
  Run(position, taken, /*last=*/true);
  absl::Status now = Wait();
  if (now.ok()) return now;
  return absl::AbortedError(
      fmt::format("{}; nor could the one before, so the run ends; once the reason is gone, continue with "
                  "checkpoint.resume=auto",
                  std::string(now.message())));
}

CheckpointSaver::Clock::duration CheckpointSaver::WaitForCopy() {
  if (!std::exchange(copying_, false)) return {};
  std::lock_guard lock(stall_mutex_);
  Clock::time_point begin = Clock::now();
  snapshot_.WaitForCopy();
  Clock::duration waited = Clock::now() - begin;
  stall_ += waited;
  return waited;
}

double CheckpointSaver::Stall() {
  std::lock_guard lock(stall_mutex_);
  return std::chrono::duration<double>(stall_).count();
}

void CheckpointSaver::Join() {
  if (thread_.joinable()) thread_.join();
}

absl::Status CheckpointSaver::Wait() {
  Join();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return std::exchange(status_, absl::OkStatus());
}

void CheckpointSaver::Run(const SavedPosition& position, Clock::time_point begin, bool last) {
  try {
    saving_ = {.step = position.step, .folder = StepFolder(options_.dir, position.step)};
    status_ = Save(position);
    if (work_error_) std::rethrow_exception(std::exchange(work_error_, nullptr));
    saving_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    Report(last);
    if (status_.ok()) NoteSaved(position.step);
  } catch (...) {
    thrown_ = std::current_exception();
  }
}

void CheckpointSaver::NoteSaved(int64_t step) {
  std::lock_guard lock(mutex_);
  saved_ = step;
  MarkIfBoth();
}

void CheckpointSaver::NoteEvaluated(int64_t step) {
  std::lock_guard lock(mutex_);
  evaluated_ = step;
  MarkIfBoth();
}

void CheckpointSaver::MarkIfBoth() {
  if (Leads() && saved_ >= 0 && saved_ == evaluated_) MarkEvaluated(StepFolder(options_.dir, saved_)).IgnoreError();
}

void CheckpointSaver::Report(bool last) {
  if (!status_.ok())
    status_ = absl::AbortedError(fmt::format("weft: the checkpoint of step {} cannot be saved: {}", saving_.step,
                                             std::string(status_.message())));
  if (!Leads()) return;
  if (status_.ok()) {
    if (options_.saved) options_.saved(saving_);
  } else if (!last) {
    PrintStderr("{}; the run continues, and ends if the next one cannot be either\n", std::string(status_.message()));
  }
}

// Reports a leftover that could not be removed, once. It takes up space but does no other harm.
void CheckpointSaver::NoteLeft(const absl::Status& removed) {
  if (removed.ok() || std::exchange(noted_, true)) return;
  if (options_.notices)
    options_.notices->Say(
        fmt::format("{}; the run continues, remove it by hand (reported once)", std::string(removed.message())));
}

// Each phase ends with the same result on all ranks, so that no rank waits for a failed one.
absl::Status CheckpointSaver::Save(const SavedPosition& position) {
  std::string folder = UnfinishedFolder(options_.dir, position.step);
  progress_.Begin(StepFolder(options_.dir, position.step), snapshot_.bytes());
  if (absl::Status s = Together([&] { return Prepare(position); }); !s.ok()) return s;
  absl::StatusOr<std::vector<uint32_t>> crcs = std::vector<uint32_t>();
  absl::Status written = Together([&] { return (crcs = snapshot_.Write(folder, progress_)).status(); });
  if (written.ok()) {
    std::vector<std::string> parts = GatherBytes(world_, PackPart(Stall(), *crcs));
    written = Together([&] { return Commit(position, parts); });
  }
  // Frees the space, because a full disk may have caused the failure.
  if (!written.ok()) Together([&] { return Leads() ? RemoveAll(folder) : absl::OkStatus(); }).IgnoreError();
  return written;
}

// Runs `work` on all ranks and returns the first error. Ranks may finish at different times. They meet in collectives
// until all are done, so a collective that times out shows a rank whose work made no progress.
absl::Status CheckpointSaver::Together(const std::function<absl::Status()>& work) {
  uint64_t seen = progress_.count();
  std::future<absl::Status> done = std::async(std::launch::async, [&]() -> absl::Status {
    std::optional<RankActivity::Scope> scope;
    if (options_.activity) scope.emplace(*options_.activity, [&] { return progress_.Describe(); });
    try {
      return work();
    } catch (const std::exception& e) {
      work_error_ = std::current_exception();
      return absl::InternalError(e.what());
    }
  });
  std::vector<uint8_t> busy(size_t(world_.size()), 1);
  while (std::count(busy.begin(), busy.end(), 1)) {
    uint8_t mine = StillBusy(done, seen);
    world_.AllGather(&mine, busy.data(), 1, DType::kU8);
  }
  return FirstFault(world_, done.get());
}

// Returns false once the work is done. Returns true if it is still running after a quarter of the timeout and has made
// progress since `seen`.
bool CheckpointSaver::StillBusy(const std::future<absl::Status>& done, uint64_t& seen) const {
  constexpr std::chrono::milliseconds kPoll{50};
  if (done.wait_for(world_.timeout() / 4) == std::future_status::ready) return false;
  while (progress_.count() == seen)
    if (done.wait_for(kPoll) == std::future_status::ready) return false;
  seen = progress_.count();
  return true;
}

absl::Status CheckpointSaver::Prepare(const SavedPosition& position) {
  if (!Leads()) return absl::OkStatus();
  if (!std::exchange(prepared_, true)) NoteLeft(RemoveUnfinished(options_.dir));
  std::string folder = UnfinishedFolder(options_.dir, position.step);
  if (absl::Status s = RemoveAll(folder); !s.ok()) return s;
  return MakeFolders(folder);
}

absl::Status CheckpointSaver::WriteTexts(const std::string& folder, Manifest& manifest) {
  std::vector<std::pair<const char*, const std::string*>> texts = {{kConfigFile, &options_.config}};
  if (const Tokenizer* t = options_.tokenizer)
    for (const auto& file : t->NamedFiles()) texts.push_back(file);
  for (const auto& [name, text] : texts) {
    manifest.files.push_back({name, text->size(), text->size(), Crc32c(*text)});
    if (absl::Status s = WriteFile(PathIn(folder, name), *text); !s.ok()) return s;
    progress_.Add();
  }
  return absl::OkStatus();
}

absl::Status CheckpointSaver::Commit(const SavedPosition& position, const std::vector<std::string>& parts) {
  if (!Leads()) return absl::OkStatus();
  std::string folder = UnfinishedFolder(options_.dir, position.step);
  std::vector<std::vector<uint32_t>> crcs;
  for (const std::string& part : parts) {
    auto [stall, of_rank] = UnpackPart(part);
    saving_.stall = std::max(saving_.stall, stall);
    crcs.push_back(std::move(of_rank));
  }
  Manifest manifest = ManifestOf(state_, crcs);
  SetPosition(position, manifest);
  if (absl::Status s = WriteTexts(folder, manifest); !s.ok()) return s;
  for (const SavedFile& file : manifest.files) saving_.bytes += file.bytes;
  if (absl::Status s = WriteFile(PathIn(folder, kManifestFile), ToText(manifest)); !s.ok()) return s;
  if (absl::Status s = SyncFolder(folder); !s.ok()) return s;
  progress_.Add();
  if (absl::Status s = PutInPlace(folder, StepFolder(options_.dir, position.step)); !s.ok()) return s;
  if (absl::Status s = SyncFolder(options_.dir); !s.ok()) return s;
  progress_.Add();
  NoteLeft(RemoveAll(folder));  // the replaced checkpoint, if there was one of this step
  progress_.Add();
  steps_.insert(position.step);
  NoteLeft(KeepNewest(options_.dir, steps_, options_.keep));
  return absl::OkStatus();
}

}  // namespace weft
