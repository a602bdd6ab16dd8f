#include "weft/parallel/step/state.h"

#include <fmt/format.h>

#include <type_traits>

#include "weft/core/base/shard.h"

namespace weft {

State::Entry& State::Add(const std::string& name, DType dtype, const Shape& global, const Sharding& sharding,
                         bool saved) {
  CheckNew(name);
  Sharding placed = sharding.num_axes() ? sharding : Sharding(mesh_.num_axes());
  return entries_[name] = {global, placed, Tensor::Zeros(dtype, ChunkShape(global, placed, mesh_), device_), saved};
}

void State::CheckNew(const std::string& name) const {
  WEFT_CHECK(!Has(name), fmt::format("state: \"{}\" exists already", name));
}

void State::AddTogether(std::span<const NewEntry> entries) {
  std::vector<size_t> offsets;
  std::vector<Shape> shapes;
  size_t bytes = 0;
  for (const NewEntry& e : entries) {
    CheckNew(e.name);
    shapes.push_back(ChunkShape(e.global, e.sharding, mesh_));
    offsets.push_back(bytes);
    bytes += (size_t(NumElements(shapes.back())) * SizeOf(e.dtype) + kTogether - 1) / kTogether * kTogether;
  }
  BufferPtr buffer = device_.Allocate(bytes);
  device_.Fill(buffer->data(), 0, bytes);
  for (size_t i = 0; i < entries.size(); i++) {
    const NewEntry& e = entries[i];
    entries_[e.name] = {e.global, e.sharding, Tensor(buffer, offsets[i], e.dtype, shapes[i])};
  }
}

State::Entry& State::At(const std::string& name) {
  auto it = entries_.find(name);
  WEFT_CHECK(it != entries_.end(), fmt::format("state: there is no entry \"{}\"", name));
  return it->second;
}

TensorView State::View(const std::string& name) {
  const Entry& e = At(name);
  return MakeView(e.local.data(), e.local.dtype(), e.global, e.sharding, mesh_, coords_);
}

void State::SetScalar(const std::string& name, double value) {
  Tensor& local = At(name).local;
  WEFT_CHECK(local.num_elements() == 1,
             fmt::format("state: expected \"{}\" to be a scalar, got {}", name, ToString(local.shape())));
  if (local.device().kind != DeviceKind::kCpu) {
    Tensor host = Tensor::Scalar(value, local.dtype());
    device_.Copy(local.data(), host.data(), host.bytes());
    return device_.Synchronize();
  }
  Dispatch(local.dtype(), [&](auto zero) {  // in place, without the allocation of a Tensor::Scalar
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>)
      *local.as<T>() = T(value);
    else
      *local.as<T>() = T(float(value));
  });
}

Binder State::binder() {
  return [this](const std::string& name, const ValueInfo&) { return At(name).local; };
}

}  // namespace weft
