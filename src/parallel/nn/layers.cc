#include "parallel/nn/layers.h"

#include "core/ops/ops.h"

namespace weft::nn {

Linear::Linear(Module* parent, const std::string& name, std::string eq, Shape weight, Shape bias, Init init)
    : Layer(parent, name), eq_(std::move(eq)), weight_(this, "weight", std::move(weight), init, true) {
  if (!bias.empty()) bias_ = std::make_unique<Parameter>(this, "bias", std::move(bias), Init{}, false);
}

Var Linear::Forward(Var x) {
  // The sum over ranks of a row-parallel product is resolved here, before the bias, which would otherwise be added per rank.
  Var y = Boundary(Einsum(eq_, x, weight_.Use()), "product");  // [..., weight dims]
  return bias_ ? y + bias_->Use() : y;                         // the same
}

Embedding::Embedding(Module* parent, const std::string& name, int64_t vocab, int64_t width, double std)
    : Layer(parent, name), weight_(this, "weight", {vocab, width}, {Init::kNormal, std}, true) {}

Var Embedding::Forward(Var ids) { return weft::Embedding(weight_.Use(), ids); }  // [B, T, C]

Norm::Norm(Module* parent, const std::string& name, Kind kind, int64_t width, double eps)
    : Layer(parent, name), eps_(eps), weight_(this, "weight", {width}, {Init::kOnes}, false) {
  if (kind == kLayer) bias_ = std::make_unique<Parameter>(this, "bias", Shape{width}, Init{}, false);
}

Var Norm::Forward(Var x) {
  return bias_ ? LayerNorm(x, weight_.Use(), bias_->Use(), eps_) : RmsNorm(x, weight_.Use(), eps_);  // [B, T, C]
}

}  // namespace weft::nn
