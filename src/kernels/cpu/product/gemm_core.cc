#include "weft/kernels/cpu/product/gemm_core.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"

namespace weft::cpu {
namespace {

// Cores of one width run the same f32 and f64 kernels. Cores that are not listed (Prescott, Nehalem, Sandybridge,
// Excavator, ...) have no 256-bit FMA. SkylakeX comes before the others of its width, because OpenBLAS 0.3.21 does not
// accept Cooperlake from the environment and has no SapphireRapids.
struct Core {
  const char* name;
  int width;  // of the vectors, in bits
  CpuFeatures needs;
};
constexpr Core kCores[] = {
    {"SkylakeX", 512, {.avx2_fma = true, .avx512 = true}},
    {"Cooperlake", 512, {.avx2_fma = true, .avx512 = true, .avx512_bf16 = true}},
    {"SapphireRapids", 512, {.avx2_fma = true, .avx512 = true, .avx512_bf16 = true, .avx512_fp16 = true}},
    {"Haswell", 256, {.avx2_fma = true}},
    {"Zen", 256, {.avx2_fma = true}},
};

const Core* Find(const std::string& name) {
  auto found = std::find_if(std::begin(kCores), std::end(kCores),
                            [&](const Core& core) { return absl::EqualsIgnoreCase(core.name, name); });
  return found == std::end(kCores) ? nullptr : found;
}

bool CanRun(const Core& core, const CpuFeatures& has) {
  return core.needs.avx2_fma <= has.avx2_fma && core.needs.avx512 <= has.avx512 &&
         core.needs.avx512_bf16 <= has.avx512_bf16 && core.needs.avx512_fp16 <= has.avx512_fp16;
}

const Core* Fastest(const CpuFeatures& features) {
  auto found =
      std::find_if(std::begin(kCores), std::end(kCores), [&](const Core& core) { return CanRun(core, features); });
  return found == std::end(kCores) ? nullptr : found;
}

// Reads CPUID, because not all compilers that Weft supports know a name for it in __builtin_cpu_supports. The operating
// system needs no extra check, because the registers are those of AVX-512.
bool HasAvx512Fp16() {
  constexpr unsigned kFp16 = 1u << 23;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kFp16);
}

}  // namespace

CpuFeatures FeaturesOfCpu() {
  CpuFeatures has;
  has.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  has.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
  has.avx512_bf16 = has.avx512 && __builtin_cpu_supports("avx512bf16");
  has.avx512_fp16 = has.avx512 && HasAvx512Fp16();
  return has;
}

std::string FastestCore(const CpuFeatures& features) {
  const Core* fastest = Fastest(features);
  return fastest ? fastest->name : "";
}

bool IsFastCore(const std::string& core, const CpuFeatures& features) {
  const Core *fastest = Fastest(features), *found = Find(core);
  return !fastest || (found && found->width >= fastest->width);
}

CoreChoice ChooseCore(const CpuFeatures& features, const char* asked) {
  std::string name = asked ? asked : "", fastest = FastestCore(features);
  if (fastest.empty() || name.empty()) return {fastest.empty() ? name : fastest, ""};
  const Core* found = Find(name);
  bool runs = found && CanRun(*found, features);
  if (runs && IsFastCore(name, features)) return {name, ""};
  const char* fault =
      found && !runs ? "cannot run on this processor" : "names no core that is as fast as this processor";
  return {fastest, fmt::format("OPENBLAS_CORETYPE={:?} {}: {} is used; unset OPENBLAS_CORETYPE", name, fault, fastest)};
}

}  // namespace weft::cpu
