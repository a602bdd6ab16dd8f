// Helpers for kernel tests: padded and poisoned tensors, running one kernel, and comparing boxes of doubles.
//
//   Box x = RandomBox(rng, DType::kF32, {2, 3}), y = Box(DType::kF32, {2, 3});
//   RunKernel(Op::kExp, {}, {&x}, {&y});
//   ExpectClose(y, reference, Tolerance(DType::kF32));
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "weft/core/runtime/kernel.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft::test {

using Rng = std::mt19937_64;
using Values = std::vector<double>;

inline int64_t Pick(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}
template <class T>
const T& PickOf(Rng& rng, const std::vector<T>& list) {
  return list[size_t(Pick(rng, 0, int64_t(list.size()) - 1))];
}

// The part of a tensor that this rank holds. The storage has no spare bytes and is filled with 0xff, which is NaN in
// every float type.
struct Box {
  TensorView view;
  std::vector<unsigned char> storage;

  Box(DType dtype, const Shape& extents, const Shape& padding = {}, const Shape& offsets = {},
      const Shape& globals = {}) {
    view.dtype = dtype;
    view.rank = int(extents.size());
    int64_t stride = 1;
    for (size_t d = extents.size(); d-- > 0;) {
      int64_t capacity = extents[d] + (padding.empty() ? 0 : padding[d]), offset = offsets.empty() ? 0 : offsets[d];
      view.dims[d] = {extents[d], stride, offset, globals.empty() ? offset + extents[d] : globals[d], capacity};
      stride *= capacity;
    }
    storage.assign(size_t(stride) * SizeOf(dtype), 0xff);
    view.data = storage.data();
  }
  Box(Box&&) = default;
  Box(const Box& o) : view(o.view), storage(o.storage) { view.data = storage.data(); }
  Box& operator=(const Box& o) {
    view = o.view;
    storage = o.storage;
    view.data = storage.data();
    return *this;
  }

  int64_t count() const { return view.NumElements(); }
  Shape shape() const {
    Shape s;
    for (int d = 0; d < view.rank; d++) s.push_back(view.dim(d).extent);
    return s;
  }
  // Returns the index in the storage of element i, counted row-major over the extents.
  int64_t Place(int64_t i) const {
    int64_t place = 0;
    for (int d = view.rank - 1; d >= 0; d--) {
      place += i % view.dim(d).extent * view.dim(d).stride;
      i /= view.dim(d).extent;
    }
    return place;
  }
  void Set(int64_t i, double value) {
    int64_t at = Place(i);
    Dispatch(view.dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_arithmetic_v<T>)
        view.as<T>()[at] = T(value);
      else
        view.as<T>()[at] = T(float(value));
    });
  }
  double Get(int64_t i) const {
    int64_t at = Place(i);
    return Dispatch(view.dtype,
                    [&](auto zero) { return double(Compute<decltype(zero)>(view.as<decltype(zero)>()[at])); });
  }
  void SetAll(const Values& values) {
    for (int64_t i = 0; i < count(); i++) Set(i, values[size_t(i)]);
  }
  Values All() const {
    Values values;
    for (int64_t i = 0; i < count(); i++) values.push_back(Get(i));
    return values;
  }
  // Returns whether every byte outside the box still has its initial value.
  bool PaddingIntact() const {
    if (int64_t(storage.size() / SizeOf(view.dtype)) == count()) return true;
    std::vector<bool> inside(storage.size());
    size_t size = SizeOf(view.dtype);
    for (int64_t i = 0; i < count(); i++)
      for (size_t b = 0; b < size; b++) inside[size_t(Place(i)) * size + b] = true;
    for (size_t i = 0; i < storage.size(); i++)
      if (!inside[i] && storage[i] != 0xff) return false;
    return true;
  }
};

inline Shape RandomPadding(Rng& rng, size_t rank) {
  Shape padding;
  for (size_t d = 0; d < rank; d++) padding.push_back(Pick(rng, 0, 1) ? Pick(rng, 0, 3) : 0);
  return padding;
}
inline Box PaddedBox(Rng& rng, DType dtype, const Shape& shape) {
  return Box(dtype, shape, RandomPadding(rng, shape.size()));
}
// Returns a padded box with uniform values in [low, high].
inline Box RandomBox(Rng& rng, DType dtype, const Shape& shape, double low = -2, double high = 2) {
  Box box = PaddedBox(rng, dtype, shape);
  std::uniform_real_distribution<double> uniform(low, high);
  for (int64_t i = 0; i < box.count(); i++) box.Set(i, IsFloating(dtype) ? uniform(rng) : std::floor(uniform(rng)));
  return box;
}
inline Shape RandomShape(Rng& rng, int rank, const std::vector<int64_t>& extents = {0, 1, 2, 3, 5, 8, 17}) {
  Shape shape;
  for (int d = 0; d < rank; d++) shape.push_back(PickOf(rng, extents));
  return shape;
}

// Returns the device whose kernels are tested: WEFT_TEST_DEVICE, the CPU by default. The tests of this folder check the
// same laws on every device.
inline DeviceKind KindUnderTest() {
  const char* name = std::getenv("WEFT_TEST_DEVICE");
  return name && std::string_view(name) == Name(DeviceKind::kCuda) ? DeviceKind::kCuda : DeviceKind::kCpu;
}
inline std::unique_ptr<Context> NewContext(int threads) {
  auto context = std::make_unique<Context>(0, 1, threads);
  RegisterCpuKernels(context->kernels(DeviceKind::kCpu));
  if (KindUnderTest() != DeviceKind::kCuda) return context;
  if (absl::Status s = OpenCuda(*context, 0); !s.ok()) throw Error(std::string(s.message()));
  return context;
}
inline Context& SharedContext() {
  static const std::unique_ptr<Context> context = NewContext(1);
  return *context;
}
inline const KernelTable& Table() { return SharedContext().kernels(KindUnderTest()); }

// Copies the storage of boxes to the device under test. A box that is both read and written is copied once.
class DeviceStorage {
 public:
  explicit DeviceStorage(DeviceRuntime& device) : device_(device) {}
  TensorView Put(const Box& box) {
    BufferPtr& buffer = buffers_[box.storage.data()];
    if (!buffer) {
      buffer = device_.Allocate(box.storage.size());
      device_.Copy(buffer->data(), box.storage.data(), box.storage.size());
    }
    TensorView view = box.view;
    if (view.data) view.data = buffer->data();
    return view;
  }
  // Returns the bytes that are on the device now.
  std::vector<unsigned char> Get(const Box& box) {
    std::vector<unsigned char> bytes(box.storage.size());
    device_.Copy(bytes.data(), buffers_.at(box.storage.data())->data(), bytes.size());
    device_.Synchronize();
    return bytes;
  }

 private:
  DeviceRuntime& device_;
  std::map<const unsigned char*, BufferPtr> buffers_;
};

// One kernel call on boxes.
struct Job {
  Attrs attrs;
  std::vector<const Box*> in;
  std::vector<Box*> out;

  bool Writes(const Box& box) const {
    return std::any_of(out.begin(), out.end(), [&](const Box* o) { return o->storage.data() == box.storage.data(); });
  }
};

// A job whose boxes are on the device. Its workspace is poisoned and has exactly the size that the kernel asks for.
class PlacedJob {
 public:
  PlacedJob(Op op, const Job& job, const Context& context, DeviceStorage& storage) : op_(op), job_(job) {
    for (const Box* box : job.in) in_.push_back(storage.Put(*box));
    for (Box* box : job.out) out_.push_back(storage.Put(*box));
    const KernelRow& row = context.kernels(KindUnderTest()).Row(op);
    size_t bytes = 0;
    if (row.workspace) {
      std::vector<TensorView> bare_in = in_, bare_out = out_;
      for (auto* views : {&bare_in, &bare_out})
        for (TensorView& view : *views) view.data = nullptr;
      bytes = row.workspace({&job.attrs, bare_in, bare_out, nullptr, 0, &context, nullptr});
    }
    DeviceRuntime& device = context.device(KindUnderTest());
    workspace_ = device.Allocate(bytes);
    device.Fill(workspace_->data(), 0xff, bytes);
    call = {&job.attrs, in_, out_, workspace_->data(), bytes, &context, nullptr};
  }
  // Copies the outputs back. Checks that the kernel wrote no padding and no input.
  void Finish(DeviceStorage& storage) {
    for (const Box* box : job_.in) {
      bool kept = !box->view.data || job_.Writes(*box) || storage.Get(*box) == box->storage;
      EXPECT_TRUE(kept) << Name(op_) << ": wrote an input " << ToString(box->shape());
    }
    for (Box* box : job_.out) {
      std::vector<unsigned char> bytes = storage.Get(*box);
      std::copy(bytes.begin(), bytes.end(), box->storage.begin());
    }
    for (Box* box : job_.out)
      EXPECT_TRUE(box->PaddingIntact()) << Name(op_) << ": wrote outside the box " << ToString(box->shape());
  }

  KernelCall call;

 private:
  Op op_;
  const Job& job_;
  std::vector<TensorView> in_, out_;
  BufferPtr workspace_;
};

inline void RunKernel(Op op, const Attrs& attrs, std::vector<const Box*> in, std::vector<Box*> out, int threads = 1) {
  std::unique_ptr<Context> own = threads == 1 ? nullptr : NewContext(threads);
  const Context& context = own ? *own : SharedContext();
  DeviceStorage storage(context.device(KindUnderTest()));
  Job job{attrs, std::move(in), std::move(out)};
  PlacedJob placed(op, job, context, storage);
  context.kernels(KindUnderTest()).Row(op).run(placed.call);
  placed.Finish(storage);
}
// Runs jobs with as few launches as the device can. No job may write what another one reads.
inline void RunMany(Op op, const std::vector<Job>& jobs) {
  const Context& context = SharedContext();
  DeviceStorage storage(context.device(KindUnderTest()));
  std::vector<std::unique_ptr<PlacedJob>> placed;
  std::vector<KernelCall> calls;
  for (const Job& job : jobs) {
    placed.push_back(std::make_unique<PlacedJob>(op, job, context, storage));
    calls.push_back(placed.back()->call);
  }
  const KernelRow& row = Table().Row(op);
  if (row.run_many)
    row.run_many(calls);
  else
    for (const KernelCall& call : calls) row.run(call);
  for (auto& job : placed) job->Finish(storage);
}

// Returns half a unit in the last place of the type, as a relative error. Kernels compute in f32 or f64 and round to
// the type once.
inline double Epsilon(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}
// Returns the relative tolerance of a computation with `roundings` roundings in the compute type and one in the dtype.
inline double Tolerance(DType dtype, double roundings = 4) {
  double compute = dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
  return 1.01 * Epsilon(dtype) + roundings * 2 * compute;
}

// Requires |got - want| <= tolerance * (|want| + scale). Infinities must be equal, and NaN must match NaN.
inline void ExpectClose(const Box& got, const Values& want, double tolerance, double scale = 1) {
  ASSERT_EQ(got.count(), int64_t(want.size()));
  for (int64_t i = 0; i < got.count(); i++) {
    double g = got.Get(i), w = want[size_t(i)];
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    ASSERT_LE(std::fabs(g - w), tolerance * (std::fabs(w) + scale))
        << "element " << i << " of " << ToString(got.shape()) << " " << Name(got.view.dtype) << ": got " << g
        << ", want " << w;
  }
}

inline const std::vector<DType>& Floats() {
  static const std::vector<DType> list{DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
  return list;
}
inline const std::vector<DType>& AllTypes() {
  static const std::vector<DType> list{DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                       DType::kI64, DType::kI32, DType::kU8,   DType::kBool};
  return list;
}

// Calls fn(index) for every index of a shape in row-major order.
template <class Fn>
void ForEachIndex(const Shape& shape, Fn&& fn) {
  Shape index(shape.size(), 0);
  for (int64_t i = 0; i < NumElements(shape); i++) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    fn(index);
  }
}
inline int64_t Linear(const Shape& shape, const Shape& index) {
  int64_t i = 0;
  for (size_t d = 0; d < shape.size(); d++) i = i * shape[d] + index[d];
  return i;
}

}  // namespace weft::test
