// How a Function runs its program. All executors give the same results.
#pragma once
#include <cstdint>

namespace weft {

enum class ExecutorKind : uint8_t {
  kCompiled,   // replays a plan over a static arena; allocates nothing while it runs
  kInterpret,  // runs the local program node by node; throws Error at a NaN
  kEager,      // runs the body op by op
};

}  // namespace weft
