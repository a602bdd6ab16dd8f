// RankActivity: describes work that a rank does on its own while others may wait for it. The message about a late rank
// contains it.
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

  // While a scope lives, `describe` returns the rank's activity. Other threads call it. Only one scope may live at a
  // time.
  class Scope {
   public:
    Scope(RankActivity& activity, Describe describe);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RankActivity& activity_;
  };

  std::string Text() const;  // "" without a scope; thread-safe

 private:
  void Set(Describe describe);

  mutable std::mutex mutex_;
  Describe describe_;
};

}  // namespace weft
