#include "weft/parallel/dtensor/resized.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

struct Box {
  const Shape &from, &to;
  size_t element;
  const char* source;
  char* target;

  // Copies dim d and the later dims. The indices are linear indices over the dims before d.
  void Copy(size_t d, int64_t from_index, int64_t to_index) const {
    if (d == from.size()) {
      std::memcpy(target + size_t(to_index) * element, source + size_t(from_index) * element, element);
      return;
    }
    int64_t n = std::min(from[d], to[d]);
    if (d + 1 == from.size()) {
      if (n)
        std::memcpy(target + size_t(to_index * to[d]) * element, source + size_t(from_index * from[d]) * element,
                    size_t(n) * element);
      return;
    }
    for (int64_t i = 0; i < n; i++) Copy(d + 1, from_index * from[d] + i, to_index * to[d] + i);
  }
};

}  // namespace

Tensor Resized(const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return tensor;
  WEFT_CHECK(tensor.shape().size() == shape.size(), "resized: the shapes differ in rank");
  if (tensor.device().kind != DeviceKind::kCpu)
    return Resized(tensor.To(CpuRuntime()), shape).To(tensor.buffer()->runtime());
  Tensor result = Tensor::Zeros(tensor.dtype(), shape);
  Box{tensor.shape(), shape, SizeOf(tensor.dtype()), static_cast<const char*>(tensor.data()),
      static_cast<char*>(result.data())}
      .Copy(0, 0, 0);
  return result;
}

}  // namespace weft
