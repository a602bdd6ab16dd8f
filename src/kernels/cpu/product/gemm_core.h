// The core that OpenBLAS should use: its set of kernels for one family of processors. OpenBLAS chooses by the
// processor's model number and takes Prescott's kernels (SSE3) for models that it does not know. Weft chooses by what
// the processor can execute.
#pragma once
#include <string>

namespace weft::cpu {

// What the processor can execute and the operating system saves.
struct CpuFeatures {
  bool avx2_fma = false;
  bool avx512 = false;  // F, CD, BW, DQ and VL
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
  bool operator==(const CpuFeatures&) const = default;
};
CpuFeatures FeaturesOfCpu();

// The core with the fastest f32 and f64 products on such a processor. Empty without AVX2 and FMA: there OpenBLAS knows
// all models.
std::string FastestCore(const CpuFeatures& features);

// Whether f32 and f64 products of `core` (OpenBLAS's name in any case) are as fast as those of FastestCore.
bool IsFastCore(const std::string& core, const CpuFeatures& features);

struct CoreChoice {
  std::string core;  // for OPENBLAS_CORETYPE; empty: OpenBLAS chooses
  std::string note;  // one line, when another core was asked for and is not taken; else empty
};
// `asked`: the value of OPENBLAS_CORETYPE, or null. A core that is as fast as the fastest one is kept.
CoreChoice ChooseCore(const CpuFeatures& features, const char* asked);

}  // namespace weft::cpu
