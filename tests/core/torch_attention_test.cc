// Attention has PyTorch's values and gradients: cases of tests/golden/.torch, made by tests/interop/torch_attention.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/torch_golden.h"
#include "share.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

using test::GoldenCase;
using test::Vars;

SdpaOptions OptionsOf(const GoldenCase& c, const Vars& in) {
  SdpaOptions o{.causal = false};
  const auto& attrs = c.attrs;
  if (std::string causal = attrs.value("causal", "none"); causal != "none") {
    o.causal = true;
    if (causal == "bottom_right") o.causal_offset = in[1].dim(1) - in[0].dim(1);
  }
  if (attrs.contains("scale") && !attrs["scale"].is_null()) o.scale = attrs["scale"];
  o.left = attrs.value("left", -1);
  o.right = attrs.value("right", -1);
  o.softcap = attrs.value("softcap", 0.0);
  if (c.op == "sdpa_mask") o.mask = AttendMask(in[3]);
  if (c.op == "sdpa_bias") o.bias = in[3];
  if (c.op == "sdpa_sinks") o.sinks = in[3];
  if (c.op == "sdpa_lengths") o.lengths = in[3];
  if (c.op == "sdpa_segments") o.query_segments = in[3], o.key_segments = in[4];
  return o;
}
Vars Run(const GoldenCase& c, const Vars& in) { return {Sdpa(in[0], in[1], in[2], OptionsOf(c, in))}; }

using Replay = void (*)(const GoldenCase&, const test::GoldenFunction&);
void ReplayAll(Replay replay) {
  static const std::vector<GoldenCase> cases = test::ReadGolden("attention.jsonl");
  EXPECT_GE(cases.size(), 390u);
  size_t ran = 0;
  for (size_t i = 0; i < cases.size(); i += size_t(test::Share()), ran++) {
    SCOPED_TRACE(testing::Message() << "line " << cases[i].line << ": " << cases[i].op << " " << cases[i].attrs.dump());
    replay(cases[i], Run);
  }
  fmt::print("shown: {} cases of PyTorch's\n", ran);
}

TEST(TorchAttention, Eager) { ReplayAll(test::ExpectEager); }
TEST(TorchAttention, Traced) { ReplayAll(test::ExpectTraced); }
TEST(TorchAttention, OnTwoByTwoRanks) { ReplayAll(test::ExpectOnMesh); }

}  // namespace
}  // namespace weft
