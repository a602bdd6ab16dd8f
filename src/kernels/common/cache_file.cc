#include "weft/kernels/common/cache_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "weft/core/base/hash.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kPoll(5);
constexpr std::string_view kAfterKey = " : ", kAfterValue = " # ";

uint64_t Checksum(std::string_view text) {
  StableHash hash;
  hash.Mix(text);
  return hash.value();
}

// Returns a line such as "KEY : VALUE # <checksum>".
std::string LineOf(const std::string& key, const std::string& value) {
  std::string line = fmt::format("{}{}{}", key, kAfterKey, value);
  return fmt::format("{}{}{:x}", line, kAfterValue, Checksum(line));
}

std::optional<std::pair<std::string, std::string>> ParseLine(const std::string& line) {
  size_t key = line.find(kAfterKey), value = line.rfind(kAfterValue);
  if (key == std::string::npos || value == std::string::npos || value < key + kAfterKey.size()) return std::nullopt;
  std::pair entry(line.substr(0, key), line.substr(key + kAfterKey.size(), value - key - kAfterKey.size()));
  // A line is intact only if it would be written in the same way again.
  if (LineOf(entry.first, entry.second) != line) return std::nullopt;
  return entry;
}

}  // namespace

CacheFile::CacheFile(std::string path, std::string title)
    : path_(std::move(path)), header_("weft " + std::move(title)) {}

CacheFile::Contents CacheFile::Read() const {
  Contents contents;
  std::ifstream in(path_);
  std::string line;
  if (!in) return contents;
  if (!std::getline(in, line) || line != header_) {
    contents.fault = fmt::format("its first line is not \"{}\"", header_);
    return contents;
  }
  int damaged = 0;
  while (std::getline(in, line)) {
    if (auto entry = ParseLine(line))
      contents.entries.insert_or_assign(entry->first, entry->second);
    else
      damaged++;
  }
  if (damaged > 0) contents.fault = fmt::format("{} of its lines {} damaged", damaged, damaged == 1 ? "is" : "are");
  return contents;
}

bool CacheFile::MakeFolder() const {
  if (path_.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  return true;
}

bool CacheFile::Add(const Entries& entries) const {
  if (!MakeFolder()) return false;
  Entries all = Read().entries;
  for (const auto& [key, value] : entries) all.insert_or_assign(key, value);
  std::string text = header_ + "\n", aside = path_ + ".XXXXXX";
  for (const auto& [key, value] : all) text += LineOf(key, value) + "\n";
  int descriptor = mkstemp(aside.data());
  if (descriptor < 0) return false;
  bool whole = write(descriptor, text.data(), text.size()) == ssize_t(text.size());
  whole = close(descriptor) == 0 && whole;
  if (whole && std::rename(aside.c_str(), path_.c_str()) == 0) return true;
  unlink(aside.c_str());
  return false;
}

CacheFile::Lock::Lock(const CacheFile& file, std::chrono::milliseconds longest) {
  if (!file.MakeFolder()) return;
  descriptor_ = open((file.path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) return;
  auto start = std::chrono::steady_clock::now();
  while (!(held_ = flock(descriptor_, LOCK_EX | LOCK_NB) == 0) && errno == EWOULDBLOCK &&
         std::chrono::steady_clock::now() - start < longest)
    std::this_thread::sleep_for(kPoll);
}

CacheFile::Lock::~Lock() {
  if (descriptor_ >= 0) close(descriptor_);  // releases the lock
}

std::string CachePath(std::string_view name) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::string folder = cache && *cache ? cache : home && *home ? std::string(home) + "/.cache" : "";
  if (folder.empty()) return folder;
  std::string file(name);
  for (char& c : file)
    if (!std::isalnum(uint8_t(c)) && c != '.') c = '-';
  return fmt::format("{}/weft/{}.txt", folder, file);
}

namespace {
std::string_view TuneText() {
  const char* text = std::getenv("WEFT_TUNE");
  return text ? text : "";
}
}  // namespace

bool MayTime() { return TuneText() != "0"; }
bool TimesUnderLoad() { return TuneText() == "settled"; }

}  // namespace weft
