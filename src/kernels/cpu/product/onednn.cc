#include "weft/kernels/cpu/product/onednn.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.h>
#include <utility>

namespace weft::cpu {

std::string OneDnnVersion() {
  const dnnl_version_t& v = *dnnl_version();
  return fmt::format("{}.{}.{}", v.major, v.minor, v.patch);
}

// The value of an ISA contains its own bits and those of the ISAs that it includes. oneDNN 3 knows more ISAs than
// oneDNN 2.
bool OneDnnHas(dnnl_cpu_isa_t isa) { return (int(dnnl_get_effective_cpu_isa()) & int(isa)) == int(isa); }

// The setting is per calling thread. The function is looked up by name, because oneDNN may be built on another thread
// pool that lacks it.
void KeepOneDnnOnThisThread() {
  static thread_local bool kept = false;
  if (std::exchange(kept, true)) return;
  if (void* set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) reinterpret_cast<void (*)(int)>(set)(1);
}

}  // namespace weft::cpu
