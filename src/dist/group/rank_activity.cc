#include "weft/dist/group/rank_activity.h"

#include <utility>

namespace weft {

RankActivity::Scope::Scope(RankActivity& activity, Describe describe) : activity_(activity) {
  activity_.Set(std::move(describe));
}
RankActivity::Scope::~Scope() { activity_.Set({}); }

// Holds the lock during the call, because the objects that `describe` refers to live only as long as the scope.
std::string RankActivity::Text() const {
  std::lock_guard lock(mutex_);
  return describe_ ? describe_() : "";
}

void RankActivity::Set(Describe describe) {
  std::lock_guard lock(mutex_);
  describe_ = std::move(describe);
}

}  // namespace weft
