#include "weft/train/profile/module_track.h"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"

namespace weft {

std::vector<std::string_view> ModulesOf(std::string_view scope) {
  auto end_of = [&](size_t begin) { return std::min(scope.find('.', begin), scope.size()); };
  std::vector<std::string_view> modules;
  for (size_t begin = 0; begin < scope.size();) {
    size_t end = end_of(begin);
    while (end + 1 < scope.size() && std::isdigit(uint8_t(scope[end + 1]))) end = end_of(end + 1);
    modules.push_back(scope.substr(begin, end - begin));
    begin = end + 1;
  }
  return modules;
}

void ModuleTrack::Push(std::string name, std::string scope, int64_t begin) {
  open_.push_back({.name = name, .scope = std::move(scope), .slice = slices_.size(), .end = begin});
  slices_.push_back({.name = std::move(name), .begin = begin - origin_});
}

void ModuleTrack::Pop() {
  const Level& level = open_.back();
  Slice& slice = slices_[level.slice];
  slice.end = level.end - origin_;
  std::string members = RateMembers(level.cost, slice.end - slice.begin);
  if (level.handed > 0) members += fmt::format(R"(,"collective bytes":{})", level.handed);
  if (!level.scope.empty()) members += fmt::format(R"(,"scope":{})", JsonText(level.scope));
  slice.args = "{" + members + "}";
  open_.pop_back();
}

void ModuleTrack::Open(std::string name, int64_t begin) {
  Push(std::move(name), "", begin);
  explicit_ = open_.size();
}

void ModuleTrack::Close(int64_t end) {
  while (open_.size() > explicit_) Pop();
  open_.back().end = std::max(open_.back().end, end);
  Pop();
  explicit_ = open_.size();
}

void ModuleTrack::Add(const ProfiledBatch& batch, RunProfile::Span span, int64_t handed) {
  std::string scope = batch.scope();
  std::vector<std::string_view> path = ModulesOf(scope);
  path.insert(path.begin(), batch.is_copies() ? "copies" : Name(batch.node().phase));
  size_t same = 0;
  while (same < path.size() && explicit_ + same < open_.size() && open_[explicit_ + same].name == path[same]) same++;
  while (open_.size() > explicit_ + same) Pop();
  for (; same < path.size(); same++) {
    // A module's path is the scope up to the end of its name.
    size_t length = same == 0 ? 0 : size_t(path[same].data() + path[same].size() - scope.data());
    Push(std::string(path[same]), scope.substr(0, length), span.begin);
  }
  for (Level& level : open_) {
    level.end = std::max(level.end, span.end);
    level.cost += batch.cost;
    level.handed += handed;
  }
}

}  // namespace weft
