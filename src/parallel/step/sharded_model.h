// ShardedModel: a model, and how it lies on a mesh: sharding plan, dtypes, fsdp.
#pragma once
#include <memory>
#include <vector>

#include "weft/parallel/nn/layers/transformer.h"
#include "weft/parallel/step/entries.h"

namespace weft {

class ShardedModel {
 public:
  ShardedModel(const TransformerConfig& config, const ModelScope::Options& options)
      : options_(options), model_(MakeModel(config)) {}

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const ModelScope::Options& options() const { return options_; }

  // Its parameters, and their copies in the types in which they are used (fsdp: gradients).
  std::vector<EntryInfo> Entries() const;
  // Sets the parameters and copies of a State to their initial values, a function of seed and path alone.
  void Init(State& state, uint64_t seed, const Runtime& runtime) const;
  // Sets the copies from the parameters, where these were set otherwise.
  void RefreshCopies(State& state, const Runtime& runtime) const;

 private:
  bool HasCopies() const { return options_.fsdp == Fsdp::kGradients; }

  ModelScope::Options options_;
  std::unique_ptr<Model> model_;
};

}  // namespace weft
