// Einsum by matrix products of cuBLASLt; product_plan.h says which, einsum_generic.cu has the rest.
#include "kernels/cuda/algorithm_cache.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/einsum_generic.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/product_plan.h"

namespace weft::cuda {
namespace {

constexpr size_t kAlign = 256;  // what cuBLASLt asks of its workspace

size_t Aligned(size_t bytes) { return size_t(RoundUp(int64_t(bytes), kAlign)); }

// 32 MiB is NVIDIA's advice for Hopper; a product that is over in microseconds does not split its sums that far.
size_t LibraryBytes(const ProductPlan& plan) {
  double work = double(plan.batch) * double(plan.m) * double(plan.n) * double(plan.k);
  return size_t(work < 1 << 24 ? 1 : work < 1 << 30 ? 8 : 32) << 20;
}

// The workspace in the order in which it is handed out.
struct Workspace {
  size_t a, b, out, bytes;  // where the copies start, from the first multiple of kAlign

  explicit Workspace(const ProductPlan& plan) {
    size_t element = SizeOf(plan.product.dtype);
    a = LibraryBytes(plan);
    b = a + Aligned(size_t(plan.a_copy.elements) * element);
    out = b + Aligned(size_t(plan.b_copy.elements) * element);
    bytes = out + Aligned(size_t(plan.out_copy.elements) * element);
  }
};

size_t EinsumWorkspace(const KernelCall& call) {
  ProductPlan plan(call);
  if (plan.route == ProductPlan::Route::kLibrary) return Workspace(plan).bytes + kAlign;
  return plan.route == ProductPlan::Route::kOwn ? GenericWorkspace(call, plan) : 0;
}

// All repeats of the product; false where the library has no algorithm for it.
bool RunProducts(const KernelCall& call, const ProductPlan& plan, char* out, const char* a, const char* b,
                 void* library) {
  int64_t element = int64_t(SizeOf(plan.product.dtype));
  for (int64_t i = 0, count = plan.repeats.Count(); i < count; i++) {
    Offsets at = plan.repeats.At(i);
    AlgorithmCache::Memory memory{.a = b + at[2] * element,  // the library's A is our b
                                  .b = a + at[1] * element,
                                  .d = out + at[0] * element,
                                  .workspace = library,
                                  .workspace_bytes = LibraryBytes(plan)};
    if (!DeviceOf(call).algorithms().Run(plan.product, memory)) return false;
  }
  return true;
}

bool RunLibrary(const KernelCall& call, const ProductPlan& plan) {
  Workspace layout(plan);
  size_t element = SizeOf(plan.product.dtype), base = reinterpret_cast<uintptr_t>(call.workspace);
  char* start = static_cast<char*>(call.workspace) + (Aligned(base) - base);
  auto dense = [&](const ProductPlan::Copy& copy, size_t place, const TensorView& x) -> const char* {
    if (!copy) return x.as<char>();
    CopyNest(call, copy.loops, element, start + place, x.data);
    return start + place;
  };
  const char *a = dense(plan.a_copy, layout.a, plan.A(call)), *b = dense(plan.b_copy, layout.b, plan.B(call));
  char* out = plan.out_copy ? start + layout.out : call.out[0].as<char>();
  if (!RunProducts(call, plan, out, a, b, start)) return false;
  if (plan.out_copy) CopyNest(call, plan.out_copy.loops, element, call.out[0].data, out);
  return true;
}

void Einsum(const KernelCall& call) {
  ProductPlan plan(call);
  switch (plan.route) {
    case ProductPlan::Route::kNothing:
      return;
    case ProductPlan::Route::kLibrary:
      if (RunLibrary(call, plan)) return;
      [[fallthrough]];
    case ProductPlan::Route::kOwn:
      return GenericEinsum(call, plan, call.workspace, call.workspace_bytes);
  }
}

}  // namespace

void AddEinsum(KernelTable& table) { table.Add(Op::kEinsum, {.run = &Einsum, .workspace = &EinsumWorkspace}); }

}  // namespace weft::cuda
