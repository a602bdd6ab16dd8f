// The kernels of a device double: the CPU's kernels, run by its streams.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "double/device_double.h"
#include "weft/core/runtime/kernel.h"
#include "weft/dist/group/collectives.h"

namespace weft::test {

// A copy of a kernel call that can outlive its maker. Its views point to the real memory.
struct KeptCall {
  KeptCall(const KernelCall& from, const DeviceDouble& device)
      : attrs(*from.attrs), in(from.in.begin(), from.in.end()), out(from.out.begin(), from.out.end()), call(from) {
    for (auto* views : {&in, &out})
      for (TensorView& view : *views) view.data = device.Reached(view.data);
    call.attrs = &attrs;
    call.in = in;
    call.out = out;
    call.workspace = device.Reached(from.workspace);
    call.scope = {};
  }
  KeptCall(const KeptCall&) = delete;
  KeptCall& operator=(const KeptCall&) = delete;

  Attrs attrs;
  std::vector<TensorView> in, out;
  KernelCall call;
};

template <Op op>
void RunInStream(const KernelCall& call) {
  auto& device = static_cast<DeviceDouble&>(call.context->device(DeviceKind::kCuda));
  device.Post([kept = std::make_shared<KeptCall>(call, device)] {
    kept->call.context->kernels(DeviceKind::kCpu).Row(op).run(kept->call);
  });
}

template <Op op>
void AddDouble(const KernelTable& cpu, KernelTable& table) {
  if (!cpu.Has(op)) return;
  KernelRow row = cpu.Row(op);
  row.run = RunInStream<op>;
  row.run_many = nullptr;
  table.Add(op, row);
}

// Registers the kernels of all ops that the rank's CPU has, and the collectives.
inline void RegisterDoubleKernels(const Context& context) {
  KernelTable& table = context.kernels(DeviceKind::kCuda);
  [&]<size_t... i>(std::index_sequence<i...>) { (AddDouble<Op(i)>(context.kernels(DeviceKind::kCpu), table), ...); }
  (std::make_index_sequence<size_t(kNumOps)>());
  RegisterCollectives(table, DeviceKind::kCuda);
}

}  // namespace weft::test
