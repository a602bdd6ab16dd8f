// ShardedModel: a model and its layout on a mesh: sharding plan, dtypes and fsdp.
#pragma once
#include <memory>
#include <vector>

#include "weft/parallel/nn/layers/transformer.h"
#include "weft/parallel/step/entries.h"

namespace weft {

// Returns the State entries of a module's parameters and of their copies in the types in which they are used.
std::vector<EntryInfo> ParameterEntries(const Module& model, const ModelScope::Options& options);
// Sets the parameters and copies of a State to their initial values, which depend only on the seed and on each
// parameter's path.
void InitParameters(const Module& model, const ModelScope::Options& options, State& state, uint64_t seed,
                    const Runtime& runtime);

// Sets the copies from the parameters. Call it after something other than InitParameters set the parameters.
void RefreshCopies(const Module& model, const ModelScope::Options& options, State& state, const Runtime& runtime);

class ShardedModel {
 public:
  ShardedModel(const TransformerConfig& config, const ModelScope::Options& options)
      : options_(options), model_(MakeModel(config)) {}

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const ModelScope::Options& options() const { return options_; }

  std::vector<EntryInfo> Entries() const { return ParameterEntries(*model_, options_); }
  void Init(State& state, uint64_t seed, const Runtime& runtime) const {
    InitParameters(*model_, options_, state, seed, runtime);
  }
  void RefreshCopies(State& state, const Runtime& runtime) const {
    weft::RefreshCopies(*model_, options_, state, runtime);
  }

 private:
  ModelScope::Options options_;
  std::unique_ptr<Model> model_;
};

}  // namespace weft
