// The layers that transformers are made of.
//
// B batch, T tokens, C width, H query heads, G key-value heads, D head size, F hidden width, V vocabulary.
#pragma once
#include <memory>

#include "weft/parallel/nn/module.h"

// Layers have a namespace of their own: their names are also ops'.
namespace weft::nn {

// A product with a weight, by equation ("btc,chd->bthd"), and an optional bias over the trailing dims of the result.
// The dims that are summed over stand first in a weight between hidden features; a head's has the vocabulary first, as
// a tied table does.
class Linear : public Layer {
 public:
  Linear(Module* parent, const std::string& name, std::string eq, Shape weight, Shape bias, Init init);

 protected:
  Var Forward(Var x) override;

 private:
  std::string eq_;
  Parameter weight_;
  std::unique_ptr<Parameter> bias_;  // null: none
};

// Rows of a table [V, C]; also the weight of a head that is tied to it.
class Embedding : public Layer {
 public:
  Embedding(Module* parent, const std::string& name, int64_t vocab, int64_t width, double std);
  const Parameter& weight() const { return weight_; }

 protected:
  Var Forward(Var ids) override;  // [B, T] -> [B, T, C]

 private:
  Parameter weight_;
};

// LayerNorm (with bias) or RmsNorm over the last dim.
class Norm : public Layer {
 public:
  enum Kind : uint8_t { kLayer, kRms };
  Norm(Module* parent, const std::string& name, Kind kind, int64_t width, double eps);

 protected:
  Var Forward(Var x) override;

 private:
  double eps_;
  Parameter weight_;
  std::unique_ptr<Parameter> bias_;
};

}  // namespace weft::nn
