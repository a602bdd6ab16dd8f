#include "weft/train/checkpoint/shared_folder.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "fmt/format.h"
#include "weft/core/host/small_file.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/io/durable.h"
#include "weft/train/io/output_path.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string FullPath(const std::string& path) {
  std::error_code error;
  return fs::absolute(path, error).lexically_normal().string();
}

// Returns a unique word, because a network file system may remember for a while that a name did not exist.
std::string NewWord() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// The file that rank 0 writes into the folder. The destructor removes it, and unless KeepFolders was called, also the
// folders that Write created.
class Probe {
 public:
  explicit Probe(std::string dir)
      : dir_(std::move(dir)), word_(NewWord()), path_(ProbeFile(dir_, word_)), made_(MissingFolders(dir_)) {}
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe() {
    std::error_code ignored;  // the caller already has an error, and the next run removes leftovers
    fs::remove(path_, ignored);
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) fs::remove(*folder, ignored);
  }
  absl::Status Write() {
    if (absl::Status s = MakeOutputFolder(dir_); !s.ok()) return s;
    std::FILE* file = std::fopen(path_.c_str(), "wbxe");
    bool written = file && std::fputs(word_.c_str(), file) >= 0;
    int error = errno;
    bool closed = file && std::fclose(file) == 0;  // network file systems report a full disk here
    if (written && !closed) error = errno;
    if (written && closed) return absl::OkStatus();
    return absl::UnavailableError(
        fmt::format("{}: cannot be written ({}); give another path", path_, std::strerror(error)));
  }
  const std::string& word() const { return word_; }
  void KeepFolders() { made_.clear(); }

 private:
  std::string dir_, word_, path_;
  std::vector<std::string> made_;
};

// Whether a file contains the word. Waits a while, because a network file system may show new contents late.
bool Holds(const std::string& path, const std::string& word) {
  constexpr std::chrono::milliseconds kLongest{2000}, kPause{50};
  auto end = std::chrono::steady_clock::now() + kLongest;
  for (;;) {
    if (SmallFileText(path) == word) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

absl::Status MakeSharedFolder(const std::string& dir, const Ranks& ranks) {
  std::optional<Probe> probe;
  if (ranks.rank == 0) probe.emplace(dir);
  if (absl::Status s = FirstFault(ranks, probe ? probe->Write() : absl::OkStatus()); !s.ok()) return s;
  std::string word = ranks.gather(probe ? probe->word() : "")[0], host = ranks.gather(ranks.host)[0],
              path = ranks.gather(FullPath(dir))[0];
  absl::Status mine;
  if (!probe && !Holds(ProbeFile(dir, word), word))
    mine = absl::InvalidArgumentError(fmt::format(
        "expected a folder that all ranks share, got one that is not the same everywhere: what rank 0 (host {}) wrote "
        "to {}, rank {} (host {}) does not find in {}; give a path on a file system that all hosts mount, such as NFS "
        "or Lustre",
        host, path, ranks.rank, ranks.host, FullPath(dir)));
  absl::Status status = FirstFault(ranks, mine);
  if (probe && status.ok()) probe->KeepFolders();
  return status;
}

}  // namespace weft
