// RankActivity: what a rank does by itself while others may wait for it, for the line that names a late rank.
//
//   RankActivity::Scope saving(activity, [&] { return fmt::format("saving {}", folder); });
#pragma once
#include <functional>
#include <mutex>
#include <string>

namespace weft {

class RankActivity {
 public:
  using Describe = std::function<std::string()>;

  // While it lives, the rank does what `describe` returns; other threads call it. One scope at a time.
  class Scope {
   public:
    Scope(RankActivity& activity, Describe describe);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RankActivity& activity_;
  };

  std::string Text() const;  // "" when there is no scope

 private:
  void Set(Describe describe);

  mutable std::mutex mutex_;
  Describe describe_;
};

}  // namespace weft
