// Tensor: a dense row-major array on one rank. Storage only: it has no operations (those exist on Var).
#pragma once
#include <span>
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
  // On the CPU. Converts the values to `dtype`.
  static Tensor FromDoubles(std::span<const double> values, DType dtype, Shape shape);
  static Tensor Scalar(double value, DType dtype) { return FromDoubles(std::span(&value, 1), dtype, {}); }

  bool defined() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Device device() const { return buffer_->device(); }
  int64_t num_elements() const { return NumElements(shape_); }
  size_t bytes() const { return size_t(num_elements()) * SizeOf(dtype_); }
  void* data() const { return static_cast<char*>(buffer_->data()) + byte_offset_; }
  const BufferPtr& buffer() const { return buffer_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }

  Tensor Reshaped(Shape shape) const {
    return Tensor(buffer_, byte_offset_, dtype_, std::move(shape));
  }                                        // the same storage
  Tensor Clone() const;                    // a copy in its own buffer, on the same device
  Tensor To(DeviceRuntime& device) const;  // a copy there; waits for it when the CPU is the target
  std::vector<double> ToDoubles() const;   // the values, converted; for tests, metrics and printing
  double Item() const;                     // the only value of a tensor of one element

 private:
  BufferPtr buffer_;
  size_t byte_offset_ = 0;
  DType dtype_ = DType::kF32;
  Shape shape_;
};

}  // namespace weft
