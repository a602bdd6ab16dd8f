#include "memory_tensors.h"

#include <fmt/format.h>

#include "weft/kernels/common/cuda_library.h"

namespace weft::bench {
namespace {

constexpr size_t kGiB = size_t(1) << 30;

std::unique_ptr<Context> OpenContext() {
  auto context = std::make_unique<Context>(0, 1, 1);
  if (absl::Status s = OpenCuda(*context, 0); !s.ok()) Fail(std::string(s.message()));
  return context;
}

}  // namespace

void* Region::Take(size_t bytes) {
  if (again_ && used_ + bytes > this->bytes()) used_ = 0;
  size_t at = used_;
  used_ += (bytes + 255) / 256 * 256;
  WEFT_CHECK(at + bytes <= this->bytes(),
             fmt::format("a region of {} bytes is too small: {} wanted", this->bytes(), used_));
  return static_cast<char*>(buffer_->data()) + at;
}

MemoryTensors::MemoryTensors()
    : context_(OpenContext()),
      normals_(device(), 4 * kGiB, true),
      others_(device(), 4 * kGiB),
      results_(device(), 6 * kGiB),
      scratch_(device(), 4 * kGiB),
      zero_(device().Allocate(sizeof(int64_t))) {
  device().Fill(zero_->data(), 0, zero_->bytes());
  const int64_t columns = 4096;
  Fill("normal",
       MakeView(normals_.data(), DType::kBF16, {int64_t(normals_.bytes() / sizeof(BF16)) / columns, columns}));
}

void MemoryTensors::Fill(const char* kind, const TensorView& view) {
  Attrs attrs{{"kind", kind}, {"key", key_++}};
  TensorView zero = MakeView(zero_->data(), DType::kI64, {});
  const std::vector<TensorView> in{zero, zero}, out{view};
  table().Row(Op::kRandom).run({&attrs, in, out, nullptr, 0, context_.get(), nullptr});
}

void MemoryTensors::Upload(void* to, const void* from, size_t bytes) {
  device().Copy(to, from, bytes);
  device().Synchronize();
}

void MemoryTensors::Reset() {
  device().Synchronize();
  for (Region* region : {&normals_, &others_, &results_, &scratch_}) region->Reset();
}

TensorView MemoryTensors::Place(const Operand& operand, bool result) {
  TensorView view = MakeView(nullptr, operand.dtype, operand.shape);
  if (!result && operand.values == Values::kNone) return view;
  Region& region = result ? results_ : operand.values == Values::kNormal ? normals_ : others_;
  view.data = region.Take(operand.bytes());
  if (operand.values == Values::kUniform) Fill("uniform", view);
  if (operand.values == Values::kIds) Upload(view.data, operand.ids.data(), operand.bytes());
  const int64_t one = 1;
  const float one_f32 = 1;
  if (operand.values == Values::kOne)
    Upload(view.data, operand.dtype == DType::kF32 ? static_cast<const void*>(&one_f32) : &one, operand.bytes());
  return view;
}

Launch MemoryTensors::Bind(std::shared_ptr<const std::vector<Call>> calls) {
  Launch launch;
  launch.of = std::move(calls);
  for (const Call& call : *launch.of) {
    auto& in = launch.in.emplace_back();
    auto& out = launch.out.emplace_back();
    for (const Operand& operand : call.in) in.push_back(Place(operand, false));
    for (const Operand& operand : call.out) out.push_back(Place(operand, true));
  }
  for (size_t i = 0; i < launch.of->size(); i++) {
    const Call& call = (*launch.of)[i];
    // Calls of one launch share their scalars, as in a training step.
    for (size_t o = 0; o < call.in.size(); o++)
      if (call.in[o].values == Values::kOne) launch.in[i][o].data = launch.in[0][o].data;
    KernelCall bound{&call.attrs, launch.in[i], launch.out[i], nullptr, 0, context_.get(), nullptr};
    if (auto workspace = table().Row(call.op).workspace) bound.workspace_bytes = workspace(bound);
    bound.workspace = scratch_.Take(bound.workspace_bytes);
    launch.calls.push_back(bound);
  }
  return launch;
}

void MemoryTensors::Run(const Launch& launch) const {
  const KernelRow& row = table().Row(launch.of->front().op);
  launch.calls.size() > 1 ? row.run_many(launch.calls) : row.run(launch.calls[0]);
}

std::pair<void*, const void*> MemoryTensors::CopyPair(size_t bytes, int turn) const {
  size_t pairs = std::max<size_t>(1, results_.bytes() / 2 / bytes), at = size_t(turn) % pairs * bytes;
  return {static_cast<char*>(results_.data()) + at, static_cast<const char*>(normals_.data()) + at % normals_.bytes()};
}

}  // namespace weft::bench
