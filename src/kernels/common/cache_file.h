// CacheFile: what was measured on a device, kept between runs as text. Host code without CUDA.
//
// The first line is the title, which names everything that the measurements depend on besides their keys. Each further
// line has a key, a value and a checksum. If the file is missing, damaged, of another title or not writable, the caller
// measures again and nothing else happens.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <string_view>

namespace weft {

class CacheFile {
 public:
  // Keeps nothing if `path` is empty.
  CacheFile(std::string path, std::string title);

  // Keys and values have no line breaks, and keys do not contain " : ".
  using Entries = std::map<std::string, std::string>;
  struct Contents {
    Entries entries;
    std::string fault;  // "" if nothing was ignored, else "3 damaged lines", for example
  };
  Contents Read() const;
  // Adds to the file that is on disk now, without its damaged lines. Writes a temporary file and renames it, so that a
  // reader sees the old file or the new one. Returns whether it could. Writers that must not lose each other's entries
  // take the lock.
  bool Add(const Entries& entries) const;
  const std::string& path() const { return path_; }

  // Makes other processes and threads of this host that take the lock wait. It ends with the process that holds it.
  // Gives up after `longest`, because nothing depends on the lock for correctness.
  class Lock {
   public:
    // A search under load takes about 7 seconds per product, and 8 ranks may each search several before this one. It is
    // less than the default of dist.timeout_s, so that a process that hangs with the lock does not end another's run.
    static constexpr std::chrono::minutes kLongestWait{4};

    explicit Lock(const CacheFile& file, std::chrono::milliseconds longest = kLongestWait);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    bool held() const { return held_; }

   private:
    int descriptor_ = -1;
    bool held_ = false;
  };

 private:
  bool MakeFolder() const;
  std::string path_, header_;
};

// Returns weft/<name>.txt in $XDG_CACHE_HOME or ~/.cache, or an empty string if neither variable is set. Characters
// other than letters, digits and dots become '-'.
std::string CachePath(std::string_view name);

// Returns whether kernels may be timed, and files of measurements used: not with WEFT_TUNE=0 in the environment.
bool MayTime();
// Returns whether large products are also timed under load: with WEFT_TUNE=settled.
bool TimesUnderLoad();

}  // namespace weft
