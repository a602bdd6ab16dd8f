// Tensor: a dense row-major array on one rank. It is only storage: operations exist on Var.
#pragma once
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "weft/core/base/device_runtime.h"
#include "weft/core/base/dtype.h"
#include "weft/core/base/error.h"
#include "weft/core/base/shape.h"

namespace weft {

class Tensor {
 public:
  Tensor() = default;
  Tensor(BufferPtr buffer, size_t byte_offset, DType dtype, Shape shape);

  // Contents undefined.
  static Tensor Empty(DType dtype, Shape shape, DeviceRuntime& device = CpuRuntime());
  static Tensor Zeros(DType dtype, Shape shape, DeviceRuntime& device = CpuRuntime());
  // Returns a CPU tensor of the values, converted to `dtype`. Throws Error if their number does not match the shape.
  static Tensor FromDoubles(std::span<const double> values, DType dtype, Shape shape);
  static Tensor FromDoubles(std::initializer_list<double> values, DType dtype, Shape shape) {
    return FromDoubles(std::span(values.begin(), values.size()), dtype, std::move(shape));
  }
  static Tensor Scalar(double value, DType dtype) { return FromDoubles(std::span(&value, 1), dtype, {}); }

  bool defined() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Device device() const { return buffer()->device(); }
  int64_t num_elements() const { return NumElements(shape_); }
  size_t bytes() const { return size_t(num_elements()) * SizeOf(dtype_); }
  void* data() const { return static_cast<char*>(buffer()->data()) + byte_offset_; }
  // Throws Error if the tensor is empty, as do all functions that need the storage.
  const BufferPtr& buffer() const {
    if (!buffer_) [[unlikely]]
      FailEmpty();
    return buffer_;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }

  Tensor Reshaped(Shape shape) const {
    return Tensor(buffer(), byte_offset_, dtype_, std::move(shape));
  }                                        // shares the storage
  Tensor Clone() const;                    // a copy in its own buffer, on the same device
  Tensor To(DeviceRuntime& device) const;  // a copy on that device; returns when the copy is done
  std::vector<double> ToDoubles() const;   // the values, converted; for tests, metrics and printing
  double Item() const;                     // the value of a one-element tensor; throws Error for any other

 private:
  [[noreturn]] static void FailEmpty();  // not inline, so a check costs its caller only one branch

  BufferPtr buffer_;
  size_t byte_offset_ = 0;
  DType dtype_ = DType::kF32;
  Shape shape_;
};

}  // namespace weft
