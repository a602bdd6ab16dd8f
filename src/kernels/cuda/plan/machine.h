// Constants besides shapes that determine the sizes of workspaces. Host code without CUDA.
#pragma once

namespace weft::cuda {

inline constexpr int kWarp = 32;
// Multiprocessors of an H200. How sums are split over blocks depends only on this number and on shapes, never on the
// device at hand, so that their order, and with it their bits, is the same on every device.
inline constexpr int kProcessors = 132;

// Elements in 16 bytes, which threads move in one access.
template <class T>
inline constexpr int kPack = 16 / int(sizeof(T));

}  // namespace weft::cuda
