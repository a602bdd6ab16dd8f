// The layers of transformers.
//
// B batch, T tokens, C width, H query heads, G key-value heads, D head size, F hidden width, V vocabulary.
#pragma once
#include <memory>

#include "weft/parallel/nn/module.h"

// Layers have their own namespace, because ops have the same names.
namespace weft::nn {

// Multiplies by a weight, as an einsum equation says ("btc,chd->bthd"), and adds a bias over the trailing dims of the
// result. An empty `bias` shape means no bias. A weight between hidden features has the contracted dims first. The
// weight of a head has the vocabulary first, as a tied embedding table has.
class Linear : public Layer {
 public:
  // kOfBlock: the weight has Parameter::product_inputs(), so an optimizer for matrices updates it.
  // kOfHead: the weight has none, whatever its dims are, so AdamW updates it even if the run's optimizer is for
  // matrices.
  enum Role : uint8_t { kOfBlock, kOfHead };
  Linear(Module* parent, const std::string& name, std::string eq, Shape weight, Shape bias, ParameterInit init,
         Role role = kOfBlock);
  // Returns the number of leading dims of the weight over which the product sums, whatever the role is.
  int summed_dims() const;
  const Parameter& weight() const { return weight_; }

 protected:
  Var Forward(Var x) override;

 private:
  std::string eq_;
  Parameter weight_;
  std::unique_ptr<Parameter> bias_;  // null: none
};

// Looks up rows of a table [V, C]. A tied head uses the same table as its weight.
class Embedding : public Layer {
 public:
  Embedding(Module* parent, const std::string& name, int64_t vocab, int64_t width, double std);
  const Parameter& weight() const { return weight_; }

 protected:
  Var Forward(Var ids) override;  // [B, T] -> [B, T, C]

 private:
  Parameter weight_;
};

// What an MLP applies between its products. kGelu is GELU in its tanh form, kExactGelu is GELU by erf.
enum class Activation : uint8_t { kGelu, kExactGelu, kSilu, kRelu };
Var Activate(Activation activation, Var x);

// LayerNorm or RMSNorm over the last dim. kRmsAround1 is RMSNorm that multiplies by 1 + weight. Only a LayerNorm may
// have a bias.
class Norm : public Layer {
 public:
  enum Kind : uint8_t { kLayer, kRms, kRmsAround1 };
  Norm(Module* parent, const std::string& name, Kind kind, int64_t width, double eps, bool bias = true);

 protected:
  Var Forward(Var x) override;

 private:
  Kind kind_;
  double eps_;
  Parameter weight_;
  std::unique_ptr<Parameter> bias_;  // null: none
};

}  // namespace weft::nn
