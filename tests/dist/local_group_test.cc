#include "dist/local_group.h"

#include <gtest/gtest.h>

#include "collective_law.h"
#include "dist/mesh.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

void OnWorld(int ranks, const std::function<void(ProcessGroup&)>& fn) {
  RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
    DeviceMesh mesh(context, groups, {{"x"}, {ranks}});
    fn(mesh.World());
  });
}

TEST(LocalGroup, EveryCollectiveEqualsItsReference) {
  for (int ranks = 1; ranks <= 4; ranks++)
    OnWorld(ranks, [](ProcessGroup& group) {
      for (DType dtype : test::kAllDTypes)
        for (int64_t n : {0, 1, 7, 1000, 20000}) {
          test::CheckCollectives(group, dtype, n);
          test::CheckUneven(group, dtype, n);
          test::CheckRing(group, dtype, n);
        }
      test::CheckBackground(group);
    });
}

}  // namespace
}  // namespace weft
