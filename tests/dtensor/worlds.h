// Meshes over 8 in-process ranks, all of them or some.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "dtensor/dtensor_testing.h"
#include "weft/parallel/dtensor/dtensor.h"

namespace weft::test {

inline constexpr int kRanks = 8;

// On 8 ranks; the kernels and collectives of the CPU are there.
inline void OnWorld(const std::function<void(Context&, GroupFactory&)>& body) {
  weft::RunRanks(kRanks, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    body(context, groups);
  });
}

// What this rank has is its part of the global tensor. Terms of a Partial are put together first.
inline void ExpectIs(const DTensor& x, const Tensor& global, const std::string& what) {
  Tensor got = x.placements().HasPartial() ? x.FullTensor() : x.ToLocal();
  Tensor want = x.placements().HasPartial() ? global : LocalOf(global, x.placements(), x.mesh());
  EXPECT_LE(LargestDifference(got, want), 1e-13) << what;  // at most eight terms of size 1
}

}  // namespace weft::test
