// Meshes over all or some of 8 in-process ranks.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "dtensor/dtensor_testing.h"
#include "weft/parallel/dtensor/dtensor.h"

namespace weft::test {

inline constexpr int kRanks = 8;

// Runs the body on 8 ranks that have the CPU's kernels and collectives.
inline void OnWorld(const std::function<void(Context&, GroupFactory&)>& body) {
  weft::RunRanks(kRanks, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    body(context, groups);
  });
}

// Checks that this rank holds its part of the global tensor. The terms of a Partial are summed first.
inline void ExpectIs(const DTensor& x, const Tensor& global, const std::string& what) {
  Tensor got = x.placements().HasPartial() ? x.FullTensor() : x.ToLocal();
  Tensor want = x.placements().HasPartial() ? global : LocalOf(global, x.placements(), x.mesh());
  EXPECT_LE(LargestDifference(got, want), 1e-13) << what;  // at most eight terms of size 1
}

}  // namespace weft::test
