#include "weft/core/base/tensor.h"

#include <fmt/format.h>

namespace weft {
namespace {
void CheckShape(const Shape& shape) {
  std::string fault = ShapeFault(shape);
  WEFT_CHECK(fault.empty(), fmt::format("tensor: {}", fault));
}
}  // namespace

Tensor::Tensor(BufferPtr buffer, size_t byte_offset, DType dtype, Shape shape)
    : buffer_(std::move(buffer)), byte_offset_(byte_offset), dtype_(dtype), shape_(std::move(shape)) {
  CheckShape(shape_);
  WEFT_CHECK(byte_offset_ + bytes() <= buffer_->bytes(),
             fmt::format("tensor: {} of {} needs {} bytes from offset {}, the buffer has {}", ToString(shape_),
                         Name(dtype_), bytes(), byte_offset_, buffer_->bytes()));
}

void Tensor::FailEmpty() {
  Fail("tensor: expected a tensor with storage, got an empty Tensor (one that was never assigned); assign it first");
}

Tensor Tensor::Empty(DType dtype, Shape shape, DeviceRuntime& device) {
  CheckShape(shape);
  size_t bytes = size_t(NumElements(shape)) * SizeOf(dtype);
  return Tensor(device.Allocate(bytes), 0, dtype, std::move(shape));
}

Tensor Tensor::Zeros(DType dtype, Shape shape, DeviceRuntime& device) {
  Tensor t = Empty(dtype, std::move(shape), device);
  device.Fill(t.data(), 0, t.bytes());
  return t;
}

Tensor Tensor::FromDoubles(std::span<const double> values, DType dtype, Shape shape) {
  Tensor t = Empty(dtype, std::move(shape));
  WEFT_CHECK(
      int64_t(values.size()) == t.num_elements(),
      fmt::format("tensor: expected {} values for {}, got {}", t.num_elements(), ToString(t.shape_), values.size()));
  Dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < values.size(); i++) {
      if constexpr (std::is_arithmetic_v<T>)
        t.as<T>()[i] = T(values[i]);
      else
        t.as<T>()[i] = T(float(values[i]));
    }
  });
  return t;
}

Tensor Tensor::Clone() const {
  Tensor t = Empty(dtype_, shape_, buffer()->runtime());
  buffer_->runtime().Copy(t.data(), data(), bytes());
  return t;
}

Tensor Tensor::To(DeviceRuntime& device) const {
  Tensor t = Empty(dtype_, shape_, device);
  // A device runtime can copy to and from the host, so the side that is not the CPU does the copy.
  DeviceRuntime& copier = device.device().kind == DeviceKind::kCpu ? buffer()->runtime() : device;
  copier.Copy(t.data(), data(), bytes());
  copier.Synchronize();
  return t;
}

std::vector<double> Tensor::ToDoubles() const {
  if (device().kind != DeviceKind::kCpu) return To(CpuRuntime()).ToDoubles();
  std::vector<double> values;
  values.resize(size_t(num_elements()));
  Dispatch(dtype_, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < values.size(); i++) values[i] = double(Compute<T>(as<T>()[i]));
  });
  return values;
}

double Tensor::Item() const {
  WEFT_CHECK(num_elements() == 1,
             fmt::format("tensor: Item() expects one element, got {}; ToDoubles() returns all", ToString(shape_)));
  return ToDoubles()[0];
}

}  // namespace weft
