#include "weft/train/data/data_files.h"

#include <fnmatch.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "fmt/format.h"
#include "weft/train/io/bad_input.h"
#include "weft/train/io/file_names.h"
#include "weft/train/io/path_advice.h"
#include "weft/train/io/text_reader.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

// Empty and binary files are not text. An unreadable file might be text, so it is an error. A compressed file is judged
// by its first block.
absl::StatusOr<bool> IsText(const std::string& path) {
  absl::StatusOr<BlockReader> file = BlockReader::Open(path);
  if (!file.ok()) return file.status();
  bool empty = true;
  for (std::string block;; empty = false, block.clear()) {
    if (absl::Status s = file->Append(size_t{1} << 16, block); !s.ok()) return s;
    if (block.empty()) return !empty;
    if (block.find('\0') != block.npos) return false;
    if (file->packed()) return !block.empty();
  }
}

// A Parquet file begins and ends with the same four bytes. If a file cannot be read, its reader reports that.
absl::Status RefuseParquet(const std::string& path) {
  constexpr std::string_view kMagic = "PAR1";
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok() || file->size() < 2 * kMagic.size()) return absl::OkStatus();
  for (uint64_t at : {uint64_t{0}, file->size() - kMagic.size()}) {
    std::string bytes(kMagic.size(), '\0');
    if (::pread(file->fd(), bytes.data(), bytes.size(), off_t(at)) != ssize_t(bytes.size()) || bytes != kMagic)
      return absl::OkStatus();
  }
  return BadInput(
      path,
      "expected text, JSONL or token shards, got a Parquet file; make JSONL of it, with pandas for example: "
      "pandas.read_parquet(\"IN\").to_json(\"OUT.jsonl\", orient=\"records\", lines=True)");
}

// Whether a file in a folder is data. Counts other files in `skipped`.
absl::StatusOr<bool> IsData(const std::string& path, SkipCount& skipped) {
  absl::StatusOr<bool> is_data = FormatOf(path).holds_tokens() ? true : IsText(path);
  if (!is_data.ok() || *is_data) return is_data;
  if (absl::Status s = RefuseParquet(path); !s.ok()) return s;
  skipped.Add("empty or binary files", path);
  return false;
}

absl::Status AddFolder(const std::string& folder, DataFiles& files) {
  Paths found;
  std::string at = folder;  // the iterator does not keep the folder that it failed to open
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    at = it->path().string();
    std::error_code no_type;  // set for a broken or circular link, which is neither folder nor file
    std::string name = it->path().filename().string();
    bool is_folder = it->is_directory(no_type);
    bool checkpoint = is_folder && fs::exists(it->path() / kManifestFile, no_type);  // of a run in this folder
    bool skipped = name.starts_with('.') || (is_folder && name == "build") || checkpoint;
    if (skipped && is_folder) it.disable_recursion_pending();
    if (skipped || !it->is_regular_file(no_type)) continue;
    absl::StatusOr<bool> is_data = IsData(at, files.skipped);
    if (!is_data.ok()) return is_data.status();
    if (*is_data) found.push_back(at);
  }
  if (error)
    return BadInput(at, fmt::format("cannot be searched ({}); make it readable or move it away", error.message()));
  if (found.empty())
    return BadInput(
        folder,
        "no text file and no token shard in this folder; hidden, empty and other binary files and links to nowhere "
        "do not count");
  std::sort(found.begin(), found.end());
  files.paths.insert(files.paths.end(), found.begin(), found.end());
  return absl::OkStatus();
}

Paths Glob(const std::string& pattern) {
  glob_t matches{};
  Paths found;
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
    found.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  globfree(&matches);
  std::sort(found.begin(), found.end());  // by bytes, because glob's order depends on the locale
  return found;
}

absl::Status Add(const std::string& input, DataFiles& files) {
  std::error_code error;
  if (fs::is_directory(input, error)) return AddFolder(input, files);
  if (fs::exists(input, error)) return files.paths.push_back(input), RefuseParquet(input);
  if (error) return BadInput(input, fmt::format("cannot be reached ({})", error.message()));
  if (fs::is_symlink(input, error)) return BadInput(input, "this link leads nowhere");
  if (input.find_first_of("*?[") == input.npos) return BadInput(input, "no such file or folder" + PathAdvice(input));
  Paths matches = Glob(input);
  if (matches.empty()) {
    std::string folder = fs::path(input).parent_path().string();
    bool plain = folder.find_first_of("*?[") == folder.npos;
    return BadInput(input, "no file matches this pattern" + (plain ? PathAdvice(folder) : ""));
  }
  for (const std::string& match : matches) {
    if (absl::Status status = Add(match, files); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SetFormat(DataFiles& files) {
  const DataFormat& text = DataFormats()[0];
  const std::string* first = nullptr;  // the first file that is not text
  for (const std::string& path : files.paths)
    if (const DataFormat& format = FormatOf(path); &format != &text) {
      first = &path;
      files.format = &format;
      break;
    }
  if (!first) return absl::OkStatus();
  for (const std::string& path : files.paths) {
    if (&FormatOf(path) == files.format) continue;
    // The shards that weft prepare writes.
    std::string prepared = (fs::path(*first).parent_path() / "train_*.bin").string();
    bool named = fnmatch(prepared.c_str(), first->c_str(), 0) == 0 && path.ends_with("/config.yaml");
    return BadInput(path,
                    fmt::format("expected {}, as {} is one, got a file that does not begin as one; give {} or {}, not "
                                "both{}",
                                files.format->one, *first, text.name, files.format->few,
                                named ? "; " + prepared + " names what to train on" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DataFiles> FindDataFiles(const PathList& inputs) {
  DataFiles files;
  for (const std::string& input : inputs) {
    if (absl::Status status = Add(input, files); !status.ok()) return status;
  }
  if (absl::Status status = SetFormat(files); !status.ok()) return status;
  return files;
}

std::string NoteOfShared(const DataFiles& train, const DataFiles& val) {
  if (val.paths.empty()) return "";  // the usual case; resolving the names of many files takes time
  auto file = [](const std::string& path) {
    std::error_code error;
    fs::path full = fs::weakly_canonical(path, error);
    return error ? fs::path(path) : full;
  };
  std::set<fs::path> trained_on;
  for (const std::string& path : train.paths) trained_on.insert(file(path));
  auto shared = [&](const std::string& path) { return trained_on.contains(file(path)); };
  auto first = std::find_if(val.paths.begin(), val.paths.end(), shared);
  if (first == val.paths.end()) return "";
  auto others = std::count_if(first + 1, val.paths.end(), shared);
  return fmt::format("{}{} among the training data too: the loss of validation is then one of what was trained on",
                     *first, others ? fmt::format(" and {} more are", others) : " is");
}

}  // namespace weft
