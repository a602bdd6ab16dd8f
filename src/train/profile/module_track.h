// ModuleTrack: the calls of a profile as slices of the modules that they stand in, one within the other.
//
// A module is a slice from the first of its calls that follow each other to the last of them. It has their bytes and
// FLOPs, and the bytes that their collectives were handed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "weft/train/profile/profiled_batch.h"
#include "weft/train/profile/trace_text.h"

namespace weft {

// "blocks.3.mlp.down" as "blocks.3", "mlp", "down": a number stays with what it counts.
std::vector<std::string_view> ModulesOf(std::string_view scope);

class ModuleTrack {
 public:
  // Times are subtracted from: slices begin at `origin`.
  explicit ModuleTrack(int64_t origin) : origin_(origin) {}

  // A slice around those of the modules that follow, until its Close.
  void Open(std::string name, int64_t begin);
  void Close(int64_t end);
  // Calls of a phase and module, within the slices that are open. `span` begins where the one before it ended or later.
  // `handed`: bytes that a collective was handed.
  void Add(const ProfiledBatch& batch, RunProfile::Span span, int64_t handed);
  // All of them; none is open.
  std::vector<Slice> Take() { return std::move(slices_); }

 private:
  struct Level {
    std::string name, scope;
    size_t slice;
    int64_t end;
    CallCost cost{};
    int64_t handed = 0;
  };
  void Push(std::string name, std::string scope, int64_t begin);
  void Pop();

  int64_t origin_;
  std::vector<Slice> slices_;
  std::vector<Level> open_;
  size_t explicit_ = 0;  // of them: those that Open opened
};

}  // namespace weft
