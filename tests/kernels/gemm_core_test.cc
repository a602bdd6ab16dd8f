// Which OpenBLAS core a processor gets, depending on the instructions that it supports and on OPENBLAS_CORETYPE.
#include "weft/kernels/cpu/product/gemm_core.h"

#include <gtest/gtest.h>

#include <cctype>
#include <vector>

#include "weft/kernels/cpu/product/gemm.h"

namespace weft::cpu {
namespace {

const CpuFeatures kOld{}, kAvx2{.avx2_fma = true}, kAvx512{.avx2_fma = true, .avx512 = true},
    kBf16{.avx2_fma = true, .avx512 = true, .avx512_bf16 = true},
    kAll{.avx2_fma = true, .avx512 = true, .avx512_bf16 = true, .avx512_fp16 = true};

// All cores of OpenBLAS 0.3.21 that use neither 256-bit FMA nor wider instructions.
const std::vector<std::string> kSlow{"Katmai", "Coppermine", "Northwood",  "Prescott",    "Banias",
                                     "Atom",   "Core2",      "Penryn",     "Dunnington",  "Nehalem",
                                     "Athlon", "Opteron",    "Barcelona",  "Nano",        "Sandybridge",
                                     "Bobcat", "Bulldozer",  "Piledriver", "Steamroller", "Excavator"};

TEST(FastestCore, FollowsFromTheFeatures) {
  EXPECT_EQ(FastestCore(kOld), "");
  EXPECT_EQ(FastestCore(kAvx2), "Haswell");
  EXPECT_EQ(FastestCore(kAvx512), "SkylakeX");
  EXPECT_EQ(FastestCore(kBf16), "SkylakeX");
  EXPECT_EQ(FastestCore(kAll), "SkylakeX");
  // AVX-512 kernels use FMA too, and a hypervisor can hide FMA.
  EXPECT_EQ(FastestCore({.avx512 = true}), "");
}

// A core that is as fast as the fastest one is kept. Any other is overridden, with a note that names both.
TEST(ChooseCore, KeepsWhatIsAsFastAndOverridesTheRest) {
  struct Case {
    CpuFeatures features;
    std::vector<std::string> kept, overridden;
  };
  const Case cases[] = {{kAvx2, {"Haswell", "Zen"}, {"SkylakeX", "Cooperlake", "SapphireRapids"}},
                        {kAvx512, {"SkylakeX"}, {"Haswell", "Zen", "Cooperlake", "SapphireRapids"}},
                        {kBf16, {"SkylakeX", "Cooperlake"}, {"Haswell", "Zen", "SapphireRapids"}},
                        {kAll, {"SkylakeX", "Cooperlake", "SapphireRapids"}, {"Haswell", "Zen"}}};
  for (const Case& c : cases) {
    std::string fastest = FastestCore(c.features);
    for (std::string name : c.kept) {
      for (char& ch : name) ch = char(std::tolower(ch));
      CoreChoice choice = ChooseCore(c.features, name.c_str());
      EXPECT_EQ(choice.core, name);
      EXPECT_EQ(choice.note, "");
    }
    std::vector<std::string> overridden = c.overridden;
    overridden.insert(overridden.end(), kSlow.begin(), kSlow.end());
    overridden.push_back("nonsense");
    for (const std::string& name : overridden) {
      CoreChoice choice = ChooseCore(c.features, name.c_str());
      EXPECT_EQ(choice.core, fastest) << name;
      EXPECT_NE(choice.note.find("OPENBLAS_CORETYPE=\"" + name + "\""), std::string::npos) << choice.note;
      EXPECT_NE(choice.note.find(fastest + " is used"), std::string::npos) << choice.note;
      EXPECT_FALSE(IsFastCore(name, c.features) && c.features == kAll) << name;
    }
  }
}

TEST(ChooseCore, TakesTheFastestWhereNothingIsAskedFor) {
  for (const CpuFeatures& features : {kAvx2, kAvx512, kBf16, kAll})
    for (const char* asked : {static_cast<const char*>(nullptr), ""}) {
      CoreChoice choice = ChooseCore(features, asked);
      EXPECT_EQ(choice.core, FastestCore(features));
      EXPECT_EQ(choice.note, "");
    }
}

TEST(ChooseCore, LeavesProcessorsWithoutAvx2ToOpenBlas) {
  EXPECT_EQ(ChooseCore(kOld, nullptr).core, "");
  EXPECT_EQ(ChooseCore(kOld, "Nehalem").core, "Nehalem");
  EXPECT_EQ(ChooseCore(kOld, "Nehalem").note, "");
}

TEST(ChooseCore, SaysWhatCannotRun) {
  EXPECT_EQ(ChooseCore(kAvx2, "SkylakeX").note,
            "OPENBLAS_CORETYPE=\"SkylakeX\" cannot run on this processor: Haswell is used; unset OPENBLAS_CORETYPE");
  EXPECT_EQ(ChooseCore(kAvx512, "a\nb").note,
            "OPENBLAS_CORETYPE=\"a\\nb\" names no core that is as fast as this processor: SkylakeX is used; unset "
            "OPENBLAS_CORETYPE");
}

// OpenBLAS uses a fast core on this processor in this environment.
TEST(GemmCore, IsAsFastAsTheProcessorAllows) {
  CpuFeatures features = FeaturesOfCpu();
  EXPECT_EQ(features.avx2_fma, true) << "Weft is built for x86-64-v3";
  EXPECT_TRUE(IsFastCore(GemmCore(), features)) << GemmCore();
}

}  // namespace
}  // namespace weft::cpu
