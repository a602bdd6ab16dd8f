// ModuleTrack: shows the calls of a profile as nested slices of the modules that they belong to.
//
// A module's slice covers a run of consecutive calls, from the first to the last. It shows their bytes and FLOPs, and
// the bytes handed to their collectives.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "weft/train/profile/profiled_batch.h"
#include "weft/train/profile/trace_text.h"

namespace weft {

// Splits "blocks.3.mlp.down" into "blocks.3", "mlp" and "down": a number stays with the name before it.
std::vector<std::string_view> ModulesOf(std::string_view scope);

class ModuleTrack {
 public:
  // Slice times are relative to `origin`.
  explicit ModuleTrack(int64_t origin) : origin_(origin) {}

  // Opens a slice around the modules that follow, until the matching Close.
  void Open(std::string name, int64_t begin);
  void Close(int64_t end);
  // Adds calls of one phase and module within the open slices. `span` must not begin before the previous one ended.
  // `handed` is the number of bytes handed to a collective.
  void Add(const ProfiledBatch& batch, RunProfile::Span span, int64_t handed);
  // Returns all slices. Requires that none is open.
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
  size_t explicit_ = 0;  // how many levels of open_ come from Open
};

}  // namespace weft
