// Chooses the OpenBLAS core, which is its set of kernels for one family of processors. OpenBLAS itself chooses by the
// processor's model number and falls back to Prescott's kernels (SSE3) for models that it does not know. Weft chooses
// by what the processor can execute.
#pragma once
#include <string>

namespace weft::cpu {

// Instruction sets that the processor executes and whose registers the operating system saves.
struct CpuFeatures {
  bool avx2_fma = false;
  bool avx512 = false;  // F, CD, BW, DQ and VL
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
  bool operator==(const CpuFeatures&) const = default;
};
CpuFeatures FeaturesOfCpu();

// Returns the core with the fastest f32 and f64 products on such a processor. Returns an empty string without AVX2 and
// FMA, because OpenBLAS knows all such models.
std::string FastestCore(const CpuFeatures& features);

// Returns whether f32 and f64 products of `core` (OpenBLAS's name, in any case) are as fast as those of FastestCore.
bool IsFastCore(const std::string& core, const CpuFeatures& features);

struct CoreChoice {
  std::string core;  // for OPENBLAS_CORETYPE; empty if OpenBLAS is to choose
  std::string note;  // one line if another core was requested and is not used; else empty
};
// `asked` is the value of OPENBLAS_CORETYPE, or null. A requested core that is as fast as the fastest one is kept.
CoreChoice ChooseCore(const CpuFeatures& features, const char* asked);

}  // namespace weft::cpu
