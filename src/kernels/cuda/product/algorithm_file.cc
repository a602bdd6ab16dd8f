#include "weft/kernels/cuda/product/algorithm_file.h"

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
#include <sstream>
#include <thread>
#include <utility>

#include "weft/core/base/hash.h"

namespace weft::cuda {
namespace {

constexpr std::chrono::milliseconds kLongestWait(30'000), kPoll(5);

uint64_t Checksum(std::string_view text) {
  StableHash hash;
  hash.Mix(text);
  return hash.value();
}

// Returns a line such as "4 0 1 ... : 1f 0 ... # <checksum>".
std::string LineOf(const ProductKey& key, const AlgorithmWords& words) {
  std::string line;
  for (int64_t field : key) line += fmt::format("{} ", field);
  line += ":";
  for (uint64_t word : words) line += fmt::format(" {:x}", word);
  return fmt::format("{} # {:x}\n", line, Checksum(line));
}

std::optional<std::pair<ProductKey, AlgorithmWords>> ParseLine(const std::string& line) {
  std::pair<ProductKey, AlgorithmWords> entry{};
  std::istringstream in(line);
  std::string colon;
  for (int64_t& field : entry.first) in >> field;
  in >> colon >> std::hex;
  for (uint64_t& word : entry.second) in >> word;
  // A line is intact only if it would be written in the same way again.
  if (!in || LineOf(entry.first, entry.second) != line + "\n") return std::nullopt;
  return entry;
}

}  // namespace

AlgorithmFile::AlgorithmFile(std::string path, std::string title)
    : path_(std::move(path)), header_("weft algorithms 1: " + std::move(title)) {}

AlgorithmMap AlgorithmFile::Read() const {
  AlgorithmMap map;
  std::ifstream in(path_);
  std::string line;
  if (!std::getline(in, line) || line != header_) return map;
  while (std::getline(in, line))
    if (auto entry = ParseLine(line)) map.insert_or_assign(entry->first, entry->second);
  return map;
}

bool AlgorithmFile::MakeFolder() const {
  if (path_.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  return true;
}

void AlgorithmFile::Add(const ProductKey& key, const AlgorithmWords& words) const {
  if (!MakeFolder()) return;
  AlgorithmMap map = Read();
  map.insert_or_assign(key, words);
  std::string text = header_ + "\n", aside = path_ + ".XXXXXX";
  for (const auto& [k, w] : map) text += LineOf(k, w);
  int descriptor = mkstemp(aside.data());
  if (descriptor < 0) return;
  bool whole = write(descriptor, text.data(), text.size()) == ssize_t(text.size());
  whole = close(descriptor) == 0 && whole;
  if (!whole || std::rename(aside.c_str(), path_.c_str()) != 0) unlink(aside.c_str());
}

AlgorithmFile::Lock::Lock(const AlgorithmFile& file) {
  if (!file.MakeFolder()) return;
  descriptor_ = open((file.path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) return;
  auto start = std::chrono::steady_clock::now();
  while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
         std::chrono::steady_clock::now() - start < kLongestWait)
    std::this_thread::sleep_for(kPoll);
}

AlgorithmFile::Lock::~Lock() {
  if (descriptor_ >= 0) close(descriptor_);  // releases the lock
}

std::string AlgorithmPath(std::string_view version, std::string_view device) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::string folder = cache && *cache ? cache : home && *home ? std::string(home) + "/.cache" : "";
  if (folder.empty()) return folder;
  std::string name(device);
  for (char& c : name)
    if (!std::isalnum(uint8_t(c))) c = '-';
  return fmt::format("{}/weft/cublaslt-{}-{}.txt", folder, version, name);
}

}  // namespace weft::cuda
