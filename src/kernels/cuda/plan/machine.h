// What the sizes of workspaces follow from, besides shapes. Host code without CUDA.
#pragma once

namespace weft::cuda {

inline constexpr int kWarp = 32;
// Multiprocessors of an H200. How work is shared out over blocks follows from this number and shapes alone, never from
// the device at hand: the order of a sum, and so its bits, are the same on every device.
inline constexpr int kProcessors = 132;

// Elements of 16 bytes, which threads move as one.
template <class T>
inline constexpr int kPack = 16 / int(sizeof(T));

}  // namespace weft::cuda
