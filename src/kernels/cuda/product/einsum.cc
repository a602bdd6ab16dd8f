// Einsum, Linear and LinearGeluGrad by matrix products of cuBLASLt. product_plan.h chooses the products, and
// einsum_generic.cu runs the rest.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/plan/einsum_sizes.h"
#include "weft/kernels/cuda/product/algorithm_cache.h"
#include "weft/kernels/cuda/product/einsum_generic.h"
#include "weft/kernels/cuda/product/few_rows.h"

namespace weft::cuda {
namespace {

// Operands that are added to the product as it is written, or at which GELU's derivative is taken; null if there is
// none.
struct Added {
  const char *bias = nullptr, *residual = nullptr, *gelu = nullptr;
};

// Runs all repeats of the product. Returns false if the library has no algorithm for it.
bool RunProducts(const KernelCall& call, const ProductPlan& plan, char* out, const char* a, const char* b,
                 const Added& added, void* library) {
  int64_t element = int64_t(SizeOf(plan.product.dtype)), result = int64_t(ResultBytes(plan.product));
  for (int64_t i = 0, count = plan.repeats.Count(); i < count; i++) {
    Offsets at = plan.repeats.At(i);
    ProductMemory memory{.a = b + at[2] * element,  // the library's A is our b
                         .b = a + at[1] * element,
                         .bias = added.bias,
                         .c = added.residual ? added.residual + at[0] * result : nullptr,
                         .gelu = added.gelu ? added.gelu + at[0] * result : nullptr,
                         .d = out + at[0] * result,
                         .workspace = library,
                         .workspace_bytes = LibraryBytes(plan)};
    if (!DeviceOf(call).Kept<AlgorithmCache>().Run(plan.product, memory)) return false;
  }
  return true;
}

bool RunLibrary(const KernelCall& call, const ProductPlan& plan, const Added& added = {}) {
  ProductWorkspace layout(plan);
  size_t element = SizeOf(plan.product.dtype), base = reinterpret_cast<uintptr_t>(call.workspace);
  char* start = static_cast<char*>(call.workspace) + (ProductAligned(base) - base);
  auto dense = [&](const ProductPlan::Copy& copy, size_t place, const TensorView& x) -> const char* {
    if (!copy) return x.as<char>();
    CopyNest(call, copy.loops, element, start + place, x.data);
    return start + place;
  };
  const char *a = dense(plan.a_copy, layout.a, plan.A(call)), *b = dense(plan.b_copy, layout.b, plan.B(call));
  char* out = plan.out_copy ? start + layout.out : call.out[0].as<char>();
  if (!RunProducts(call, plan, out, a, b, added, start)) return false;
  if (plan.out_copy) CopyNest(call, plan.out_copy.loops, ResultBytes(plan.product), call.out[0].data, out);
  return true;
}

// Returns the job of a product of few rows. `bias` is the operand number of the added bias, or 0.
FewRowsJob FewRowsOf(const KernelCall& call, const ProductPlan& plan, const Added& added = {}, int bias = 0) {
  const Product& p = plan.product;
  int64_t early = 1 << (plan.swapped ? 0 : 1) | (added.bias ? 1 << bias : 0);
  return {.a = plan.A(call).data,
          .b = plan.B(call).data,
          .bias = added.bias,
          .residual = added.residual,
          .out = call.out[0].data,
          .lda = p.ldb,
          .ldb = p.lda,
          .ldd = p.ldd,
          .rows = int(p.n),
          .columns = int(p.m),
          .terms = int(p.k),
          .dtype = p.dtype,
          .k_inner = p.transpose_a,
          .wide = p.wide,
          .constant = (call.attrs->IntOr("parameter", 0) & early) == early};
}

void Einsum(const KernelCall& call) {
  ProductPlan plan(call);
  switch (plan.route) {
    case ProductPlan::Route::kNothing:
      return;
    case ProductPlan::Route::kFewRows: {
      FewRowsJob job = FewRowsOf(call, plan);
      return RunFewRows(call, {&job, 1});
    }
    case ProductPlan::Route::kLibrary:
      if (RunLibrary(call, plan)) return;
      [[fallthrough]];
    case ProductPlan::Route::kOwn:
      return GenericEinsum(call, plan, call.workspace, call.workspace_bytes);
  }
}

// The library adds a vector to each of its columns, which are our rows. So the bias must run along our rows, at an
// address that is aligned for vector loads. The residual must be laid out as the result.
bool TakesBias(const ProductPlan& plan, const TensorView& bias) {
  Nest columns = plan.columns.Only(0), walked(1);
  for (int d = 0; d < bias.rank; d++) walked.Add(bias.dim(d).extent, {bias.dim(d).stride});
  walked.Collapse();
  return !plan.swapped && !plan.out_copy && columns.rank <= 1 && walked.rank <= 1 &&
         (walked.rank == 0 || walked.inner_stride(0) == 1) && walked.Count() == columns.Count() &&
         plan.product.m == columns.Count() && reinterpret_cast<uintptr_t>(bias.data) % 16 == 0;
}
bool SameLayout(const TensorView& a, const TensorView& b) {
  for (int d = 0; d < a.rank; d++)
    if (a.dim(d).stride != b.dim(d).stride) return false;
  return true;
}

void AddTo(const KernelCall& call, const TensorView& operand) {
  TensorView out = call.out[0], other = out;
  other.data = operand.data;
  other.dtype = operand.dtype;
  for (int d = out.rank - 1, from = operand.rank - 1; d >= 0; d--, from--)
    other.dims[size_t(d)].stride = from >= 0 ? operand.dim(from).stride : 0;
  std::array<TensorView, 2> in{out, other};
  KernelCall add = call;
  static const Attrs none;
  add.attrs = &none;
  add.in = in;
  call.context->kernels(DeviceKind::kCuda).Row(Op::kAdd).run(add);
}

// Returns the operands that a product can add as it writes its result.
Added AddedBy(const ProductPlan& plan, const KernelCall& call, const LinearCall& linear) {
  Added added;
  if (linear.bias && TakesBias(plan, *linear.bias)) added.bias = linear.bias->as<char>();
  // The library would add a residual before the activation.
  bool in_order = linear.activation == Activation::kNone || plan.route == ProductPlan::Route::kFewRows;
  if (linear.residual && in_order && !plan.out_copy && SameLayout(*linear.residual, call.out[0]) &&
      reinterpret_cast<uintptr_t>(linear.residual->data) % 16 == 0)
    added.residual = linear.residual->as<char>();
  return added;
}

// Runs one product that also adds what the library can add. Returns false if the library has no algorithm for that.
bool RunFused(const KernelCall& call, const LinearCall& linear, ProductPlan& plan, Added& added) {
  if (plan.route != ProductPlan::Route::kLibrary) return false;
  added = AddedBy(plan, call, linear);
  plan.product.bias = added.bias != nullptr;
  plan.product.accumulate = added.residual != nullptr;
  if (RunLibrary(linear.product, plan, added)) return true;
  added = {};
  return false;
}

void Activate(const KernelCall& call, Activation activation) {
#define WEFT_PAIR(Name) {Activation::k##Name, Op::k##Name},
  static constexpr std::pair<Activation, Op> kOps[] = {WEFT_LINEAR_ACTIVATIONS(WEFT_PAIR)};
#undef WEFT_PAIR
  static const Attrs none;
  for (auto [of, op] : kOps) {
    if (of != activation) continue;
    KernelCall apply = call;
    apply.attrs = &none;
    apply.in = call.out;
    call.context->kernels(DeviceKind::kCuda).Row(op).run(apply);
  }
}

// Applies what the product has not. `activated`: whether it has applied the activation.
void ApplyRest(const KernelCall& call, const LinearCall& linear, const Added& added, bool activated) {
  if (linear.bias && !added.bias) AddTo(call, *linear.bias);
  if (!activated) Activate(call, linear.activation);
  if (linear.residual && !added.residual) AddTo(call, *linear.residual);
}

// A product of few rows as it runs: with all that a linear op adds and applies, if the bias lies as the kernel reads
// it.
struct FewRowsLinear {
  LinearCall linear;
  ProductPlan plan;
  Added added;
  bool activated;

  explicit FewRowsLinear(const KernelCall& call)
      : linear(call), plan(linear.product), added(AddedBy(plan, call, linear)) {
    activated = !linear.bias || added.bias;
    if (!activated) added = {};
  }
  FewRowsJob Job() const {
    FewRowsJob job = FewRowsOf(linear.product, plan, added, 2);
    if (activated) job.activation = linear.activation;
    return job;
  }
};

void LinearOfFewRows(std::span<const KernelCall> calls) {
  absl::InlinedVector<FewRowsJob, 4> jobs;
  for (const KernelCall& call : calls) jobs.push_back(FewRowsLinear(call).Job());
  RunFewRows(calls[0], jobs);
  for (const KernelCall& call : calls) {
    FewRowsLinear done(call);
    ApplyRest(call, done.linear, done.added, done.activated);
  }
}

void Linear(const KernelCall& call) {
  LinearCall linear(call);
  ProductPlan plan(linear.product);
  if (plan.route == ProductPlan::Route::kFewRows) return LinearOfFewRows({&call, 1});
  Added added;
  if (!RunFused(call, linear, plan, added)) Einsum(linear.product);
  ApplyRest(call, linear, added, false);
}

bool HasFewRows(const KernelCall& product) { return ProductPlan(product).route == ProductPlan::Route::kFewRows; }

void Einsums(std::span<const KernelCall> calls) {
  absl::InlinedVector<FewRowsJob, 4> jobs;
  for (const KernelCall& call : calls) {
    if (HasFewRows(call))
      jobs.push_back(FewRowsOf(call, ProductPlan(call)));
    else
      Einsum(call);
  }
  if (!jobs.empty()) RunFewRows(calls[0], jobs);
}

void Linears(std::span<const KernelCall> calls) {
  auto few = [](const KernelCall& call) { return HasFewRows(LinearCall(call).product); };
  if (std::ranges::all_of(calls, few)) return LinearOfFewRows(calls);
  for (const KernelCall& call : calls) Linear(call);
}

// The library multiplies by the derivative of GELU where its operand has the layout of the result, whose columns must
// lie a multiple of 8 elements apart (cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD).
bool TakesGelu(const ProductPlan& plan, const KernelCall& call) {
  const TensorView& a = call.in[2];
  const Product& p = plan.product;
  return plan.route == ProductPlan::Route::kLibrary && plan.direct() && plan.repeats.Count() == 1 && p.batch == 1 &&
         p.ldd % 8 == 0 && p.ldd >= p.m && SizeOf(a.dtype) == 2 && SameLayout(a, call.out[0]) &&
         reinterpret_cast<uintptr_t>(a.data) % 16 == 0;
}

void LinearGeluGrad(const KernelCall& call) {
  KernelCall product = ProductOfGeluGrad(call);
  ProductPlan plan(product);
  plan.product.gelu_grad = true;
  if (TakesGelu(plan, call) && RunLibrary(product, plan, {.gelu = call.in[2].as<char>()})) return;
  Einsum(product);
  static const Attrs none;
  std::array<TensorView, 2> in{call.out[0], call.in[2]};
  KernelCall gradient = call;
  gradient.attrs = &none;
  gradient.in = in;
  call.context->kernels(DeviceKind::kCuda).Row(Op::kGeluGrad).run(gradient);
}

}  // namespace

void AddEinsum(KernelTable& table) {
  SetRun(table, Op::kEinsum, &Einsum, &Einsums);
  SetRun(table, Op::kLinear, &Linear, &Linears);
  SetRun(table, Op::kLinearGeluGrad, &LinearGeluGrad);
}

}  // namespace weft::cuda
