#include "weft/kernels/cuda/loops/map.cuh"

namespace weft::cuda {

MapPlan::MapPlan(const TensorView& y, std::span<const TensorView* const> sources) {
  std::array<const TensorView*, kWalked> views;
  views.fill(&y);
  std::copy(sources.begin(), sources.end(), views.begin() + 1);
  nest = Nest::Over(views);
  args.y = y.data;
  for (size_t s = 0; s < sources.size(); s++) args.x[s] = sources[s]->data;
  for (int s = 0; s < kSources; s++) args.unit[s] = nest.inner_stride(s + 1) == 1;
}

bool MapPlan::Vectorises(int n, const std::array<int, kWalked>& bytes) const {
  if (nest.rank == 0 || nest.inner_extent() < n || nest.inner_stride(0) != 1) return false;
  if (nest.rank > 1 && nest.inner_extent() % n != 0) return false;
  for (int o = 0; o < kWalked; o++) {
    if (bytes[size_t(o)] == 0) continue;
    int64_t inner = nest.inner_stride(o);
    if (inner == 0) continue;
    const void* data = o == 0 ? args.y : args.x[o - 1];
    if (inner != 1 || reinterpret_cast<uintptr_t>(data) % size_t(n * bytes[size_t(o)]) != 0) return false;
    for (int d = 0; d + 1 < nest.rank; d++)
      if (nest.strides[size_t(d)][size_t(o)] % n != 0) return false;
  }
  return true;
}

Nest MapPlan::InVectors(int n) const {
  Nest wide = nest;
  size_t inner = size_t(nest.rank - 1);
  wide.extents[inner] /= n;
  for (int64_t& stride : wide.strides[inner]) stride *= n;
  return wide;
}

}  // namespace weft::cuda
