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

using Clock = std::chrono::steady_clock;

std::string PathIn(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

std::string BytesOf(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]};
}
std::vector<uint32_t> WordsOf(const std::string& bytes) {
  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
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
      snapshot_(state, world.rank()) {}

CheckpointSaver::~CheckpointSaver() {
  if (thread_.joinable()) thread_.join();
}

absl::Status CheckpointSaver::Start(const SavedPosition& position, bool last) {
  absl::Status before = Wait();
  snapshot_.Take();
  saved_ = evaluated_ = -1;  // no thread is at work
  if (before.ok()) {
    thread_ = std::thread([this, position, last] { Run(position, last); });
    return before;
  }
  Run(position, /*last=*/true);
  absl::Status now = Wait();
  if (now.ok()) return now;
  return absl::AbortedError(
      fmt::format("{}; nor could the one before, so the run ends; once the reason is gone, go on with "
                  "checkpoint.resume=auto",
                  std::string(now.message())));
}

absl::Status CheckpointSaver::Wait() {
  if (thread_.joinable()) thread_.join();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return std::exchange(status_, absl::OkStatus());
}

void CheckpointSaver::Run(const SavedPosition& position, bool last) {
  try {
    Clock::time_point begin = Clock::now();
    status_ = Save(position);
    Report(position.step, std::chrono::duration<double>(Clock::now() - begin).count(), last);
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

void CheckpointSaver::Report(int64_t step, double seconds, bool last) {
  if (!status_.ok())
    status_ = absl::AbortedError(
        fmt::format("weft: the checkpoint of step {} cannot be saved: {}", step, std::string(status_.message())));
  if (!Leads()) return;
  if (status_.ok()) {
    if (options_.saved) options_.saved(step, StepFolder(options_.dir, step), seconds);
  } else if (!last) {
    PrintStderr("{}; the run goes on, and ends if the next one cannot be either\n", std::string(status_.message()));
  }
}

// Of what takes up space and is in the way of nothing, once.
void CheckpointSaver::NoteLeft(const absl::Status& removed) {
  if (removed.ok() || std::exchange(noted_, true)) return;
  if (options_.notices)
    options_.notices->Say(
        fmt::format("{}; the run goes on, remove it by hand (said once)", std::string(removed.message())));
}

// Each phase ends on all ranks alike: nobody waits for one that has failed.
absl::Status CheckpointSaver::Save(const SavedPosition& position) {
  std::string folder = UnfinishedFolder(options_.dir, position.step);
  progress_.Begin(StepFolder(options_.dir, position.step), snapshot_.bytes());
  if (absl::Status s = Together([&] { return Prepare(position); }); !s.ok()) return s;
  absl::StatusOr<std::vector<uint32_t>> crcs = std::vector<uint32_t>();
  absl::Status written = Together([&] { return (crcs = snapshot_.Write(folder, progress_)).status(); });
  if (written.ok()) {
    std::vector<std::string> all = GatherBytes(world_, BytesOf(*crcs));
    written = Together([&] { return Commit(position, all); });
  }
  // What it takes up may be what is missing.
  if (!written.ok()) Together([&] { return Leads() ? RemoveAll(folder) : absl::OkStatus(); }).IgnoreError();
  return written;
}

// The first fault of `work`, which runs on all ranks, some faster than others. The ranks meet again and again until it
// is done on all, so that a call of the group that fails because a rank is late means that this rank came no further.
absl::Status CheckpointSaver::Together(const std::function<absl::Status()>& work) {
  uint64_t seen = progress_.count();
  std::future<absl::Status> done = std::async(std::launch::async, [&] {
    std::optional<RankActivity::Scope> scope;
    if (options_.activity) scope.emplace(*options_.activity, [&] { return progress_.Describe(); });
    return work();
  });
  std::vector<uint8_t> busy(size_t(world_.size()), 1);
  while (std::count(busy.begin(), busy.end(), 1)) {
    uint8_t mine = StillBusy(done, seen);
    world_.AllGather(&mine, busy.data(), 1, DType::kU8);
  }
  return FirstFault(world_, done.get());
}

// Returns once the work is done, or is still under way after a good part of the timeout and has progressed since
// `seen`.
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

absl::Status CheckpointSaver::Commit(const SavedPosition& position, const std::vector<std::string>& all) {
  if (!Leads()) return absl::OkStatus();
  std::string folder = UnfinishedFolder(options_.dir, position.step);
  std::vector<std::vector<uint32_t>> crcs;
  for (const std::string& bytes : all) crcs.push_back(WordsOf(bytes));
  Manifest manifest = ManifestOf(state_, crcs);
  SetPosition(position, manifest);
  std::vector<std::pair<const char*, const std::string*>> texts = {{kConfigFile, &options_.config}};
  if (const Tokenizer* t = options_.tokenizer)
    for (const auto& file : t->NamedFiles()) texts.push_back(file);
  for (const auto& [name, text] : texts) {
    manifest.files.push_back({name, text->size(), text->size(), Crc32c(*text)});
    if (absl::Status s = WriteFile(PathIn(folder, name), *text); !s.ok()) return s;
    progress_.Add();
  }
  if (absl::Status s = WriteFile(PathIn(folder, kManifestFile), ToText(manifest)); !s.ok()) return s;
  if (absl::Status s = SyncFolder(folder); !s.ok()) return s;
  progress_.Add();
  if (absl::Status s = PutInPlace(folder, StepFolder(options_.dir, position.step)); !s.ok()) return s;
  if (absl::Status s = SyncFolder(options_.dir); !s.ok()) return s;
  progress_.Add();
  NoteLeft(RemoveAll(folder));  // the one that had this name
  progress_.Add();
  steps_.insert(position.step);
  NoteLeft(KeepNewest(options_.dir, steps_, options_.keep));
  return absl::OkStatus();
}

}  // namespace weft
