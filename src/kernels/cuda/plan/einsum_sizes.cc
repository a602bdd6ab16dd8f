#include "weft/kernels/cuda/plan/einsum_sizes.h"

#include <algorithm>

#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {
namespace {

constexpr int64_t kBusy = 2 * kProcessors;  // blocks that keep the GPU busy

Activation ActivationOf(const Attrs& attrs) {
#define WEFT_PAIR(Name) {Op::k##Name, Activation::k##Name},
  static constexpr std::pair<Op, Activation> kActivations[] = {WEFT_LINEAR_ACTIVATIONS(WEFT_PAIR)};
#undef WEFT_PAIR
  for (const Attrs::Item& item : attrs.items())
    for (auto [op, activation] : kActivations)
      if (item.name == "kind" && std::get<std::string>(item.value) == Name(op)) return activation;
  return Activation::kNone;
}

}  // namespace

// NVIDIA advises 32 MiB for Hopper. A product that takes only microseconds does not split its sums that far.
size_t LibraryBytes(const ProductPlan& plan) {
  double work = double(plan.batch) * double(plan.m) * double(plan.n) * double(plan.k);
  return size_t(work < 1 << 24 ? 1 : work < 1 << 30 ? 8 : 32) << 20;
}

ProductWorkspace::ProductWorkspace(const ProductPlan& plan) {
  size_t element = SizeOf(plan.product.dtype);
  a = LibraryBytes(plan);
  b = a + ProductAligned(size_t(plan.a_copy.elements) * element);
  out = b + ProductAligned(size_t(plan.b_copy.elements) * element);
  bytes = out + ProductAligned(size_t(plan.out_copy.elements) * ResultBytes(plan.product));
}

bool IsTiled(const EinsumLabels& x) { return x.m >= 16 && x.n >= 16 && x.k >= 4; }

SumCut::SumCut(const EinsumLabels& x) {
  int64_t count = x.outputs.Count();
  bool outputs_flat =
      x.outputs.rank > 0 && Contiguous(x.outputs.inner_stride(1)) && Contiguous(x.outputs.inner_stride(2));
  terms_fast = !outputs_flat && Contiguous(x.terms.inner_stride(0)) && Contiguous(x.terms.inner_stride(1));
  if (x.k < 32 || (!terms_fast && count >= kBusy * kSumThreads))
    outputs = kSumThreads, terms_fast = false;
  else if (terms_fast)
    outputs = count >= kBusy * 8 ? 8 : 1;
  else
    outputs = 32;
  int64_t blocks = CeilDiv(count, outputs), terms_of_block = 8 * int64_t(kSumThreads / outputs);
  int64_t most = std::min<int64_t>(x.k / terms_of_block, 1024);
  splits = int(std::clamp<int64_t>(CeilDiv(kBusy, std::max<int64_t>(blocks, 1)), 1, std::max<int64_t>(most, 1)));
}

size_t PartBytes(const KernelCall& call, const EinsumLabels& x, const SumCut& cut) {
  size_t size = call.out[0].dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  return cut.splits > 1 ? size * size_t(cut.splits) * size_t(x.outputs.Count()) : 0;
}

LinearCall::LinearCall(const KernelCall& call) : in{call.in[0], call.in[1]} {
  size_t next = 2;
  if (call.attrs->Int("bias")) bias = &call.in[next++];
  if (call.attrs->Int("residual")) residual = &call.in[next++];
  activation = ActivationOf(*call.attrs);
  product = call;
  product.in = in;
}

size_t EinsumWorkspace(const KernelCall& call) {
  ProductPlan plan(call);
  if (plan.route == ProductPlan::Route::kLibrary) return ProductWorkspace(plan).bytes + kProductAlign;
  if (plan.route != ProductPlan::Route::kOwn || IsTiled(plan)) return 0;
  return PartBytes(call, plan, SumCut(plan));
}

size_t LinearWorkspace(const KernelCall& call) { return EinsumWorkspace(LinearCall(call).product); }

KernelCall ProductOfGeluGrad(const KernelCall& call) {
  KernelCall product = call;
  product.in = call.in.first(2);
  return product;
}
size_t LinearGeluGradWorkspace(const KernelCall& call) { return EinsumWorkspace(ProductOfGeluGrad(call)); }

}  // namespace weft::cuda
