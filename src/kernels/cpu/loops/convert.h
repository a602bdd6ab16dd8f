// Reads and writes rows of any dtype as rows of a compute type C (float, double, int64_t).
//
// Kernels are written once per compute type. Reader::Row returns a pointer to n values of C: into the storage if that
// is a contiguous row of C, otherwise to a tile that it fills. Writer treats results in the same way.
//
//   Reader<float> in(view);
//   const float* x = in.Row(offset, stride, n, tile);
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cpu {

inline constexpr int64_t kTile = 512;  // elements; three tiles of doubles stay in a 32 KB cache

template <class C>
using LoadFn = void (*)(const void* source, int64_t stride, int64_t n, C* tile);
template <class C>
using StoreFn = void (*)(const C* tile, int64_t n, int64_t stride, void* target);
// Return the function that converts from, or to, `dtype`. C is float, double or int64_t.
template <class C>
LoadFn<C> Loader(DType dtype);
template <class C>
StoreFn<C> Storer(DType dtype);

template <class C>
inline constexpr DType kDTypeOf = DType::kI64;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;

template <class C>
class Reader {
 public:
  Reader() = default;
  explicit Reader(const TensorView& view)
      : data_(view.as<const char>()),
        size_(int64_t(SizeOf(view.dtype))),
        direct_(view.dtype == kDTypeOf<C>),
        load_(Loader<C>(view.dtype)) {}

  const C* Row(int64_t offset, int64_t stride, int64_t n, C* tile) const {
    const char* source = data_ + offset * size_;
    if (direct_ && stride == 1) return reinterpret_cast<const C*>(source);
    load_(source, stride, n, tile);
    return tile;
  }
  void Copy(int64_t offset, int64_t stride, int64_t n, C* tile) const {
    load_(data_ + offset * size_, stride, n, tile);
  }
  C At(int64_t offset) const {
    C value;
    load_(data_ + offset * size_, 1, 1, &value);
    return value;
  }

 private:
  const char* data_ = nullptr;
  int64_t size_ = 0;
  bool direct_ = false;
  LoadFn<C> load_ = nullptr;
};

template <class C>
class Writer {
 public:
  Writer() = default;
  explicit Writer(const TensorView& view)
      : data_(view.as<char>()),
        size_(int64_t(SizeOf(view.dtype))),
        direct_(view.dtype == kDTypeOf<C>),
        store_(Storer<C>(view.dtype)) {}

  // Returns where to write a row: the storage itself, or the tile, which Done then stores.
  C* Row(int64_t offset, int64_t stride, C* tile) const {
    return direct_ && stride == 1 ? reinterpret_cast<C*>(data_ + offset * size_) : tile;
  }
  void Done(const C* row, int64_t offset, int64_t stride, int64_t n) const {
    if (!(direct_ && stride == 1)) store_(row, n, stride, data_ + offset * size_);
  }
  void Copy(const C* row, int64_t offset, int64_t stride, int64_t n) const {
    store_(row, n, stride, data_ + offset * size_);
  }
  void Set(int64_t offset, C value) const { store_(&value, 1, 1, data_ + offset * size_); }

 private:
  char* data_ = nullptr;
  int64_t size_ = 0;
  bool direct_ = false;
  StoreFn<C> store_ = nullptr;
};

// Calls fn with a zero of the compute type of a floating dtype: double for f64, else float.
template <class Fn>
decltype(auto) DispatchCompute(DType dtype, Fn&& fn) {
  return dtype == DType::kF64 ? fn(double{}) : fn(float{});
}

}  // namespace weft::cpu
