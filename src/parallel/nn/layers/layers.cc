#include "weft/parallel/nn/layers/layers.h"

#include <algorithm>

#include "weft/core/ops/ops.h"

namespace weft::nn {
namespace {

// Returns the number of leading weight dims over which the product sums.
int SummedDims(const std::string& eq) {
  size_t comma = eq.find(','), arrow = eq.find("->");
  std::string weight = eq.substr(comma + 1, arrow - comma - 1), out = eq.substr(arrow + 2);
  return int(std::min(weight.find_first_of(out), weight.size()));
}

}  // namespace

Linear::Linear(Module* parent, const std::string& name, std::string eq, Shape weight, Shape bias, ParameterInit init,
               Role role)
    : Layer(parent, name),
      eq_(std::move(eq)),
      weight_(this, "weight", std::move(weight), init, true, Parameter::kCompute,
              role == kOfBlock ? SummedDims(eq_) : 0) {
  if (!bias.empty()) bias_ = std::make_unique<Parameter>(this, "bias", std::move(bias), ParameterInit{}, false);
}

int Linear::summed_dims() const { return SummedDims(eq_); }

Var Linear::Forward(Var x) {
  // The boundary reduces the Partial result of a row-parallel product before the bias is added. Otherwise every rank
  // would add the bias.
  Var y =
      Boundary(Einsum(eq_, x, weight_.Use(call_site()), call_site()), "product", call_site());  // [..., weight dims]
  return bias_ ? Add({y, call_site()}, bias_->Use(call_site())) : y;                            // [..., weight dims]
}

Embedding::Embedding(Module* parent, const std::string& name, int64_t vocab, int64_t width, double std)
    : Layer(parent, name), weight_(this, "weight", {vocab, width}, {ParameterInit::kNormal, std}, true) {}

Var Embedding::Forward(Var ids) { return weft::Embedding(weight_.Use(call_site()), ids, call_site()); }  // [B, T, C]

Var Activate(Activation activation, Var x) {
  switch (activation) {
    case Activation::kGelu:
      return Gelu(x);
    case Activation::kExactGelu:
      return GeluExact(x);
    case Activation::kSilu:
      return Silu(x);
    case Activation::kRelu:
      return Relu(x);
  }
  Fail("the activation is none of the names");
}

Norm::Norm(Module* parent, const std::string& name, Kind kind, int64_t width, double eps, bool bias)
    : Layer(parent, name),
      kind_(kind),
      eps_(eps),
      weight_(this, "weight", {width}, {kind == kRmsAround1 ? ParameterInit::kZeros : ParameterInit::kOnes}, false,
              Parameter::kAccumulate) {
  if (kind == kLayer && bias)
    bias_ = std::make_unique<Parameter>(this, "bias", Shape{width}, ParameterInit{}, false, Parameter::kAccumulate);
}

Var Norm::Forward(Var x) {
  const Loc& at = call_site();
  Var weight = weight_.Use(at);                                                     // [C]
  if (kind_ == kRmsAround1) weight = AddScalar({weight, at}, 1);                    // [C]
  if (kind_ != kLayer) return RmsNorm(x, weight, eps_, at);                         // [B, T, C]
  Var bias = bias_ ? bias_->Use(at) : Full(0, weight.dtype(), weight.shape(), at);  // [C]
  return LayerNorm(x, weight, bias, eps_, at);                                      // [B, T, C]
}

}  // namespace weft::nn
