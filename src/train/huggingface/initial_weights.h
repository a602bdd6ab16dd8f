// InitialWeights: parameter values from a Hugging Face checkpoint instead of random ones.
//
//   absl::StatusOr<InitialWeights> weights = InitialWeights::Open(config);
//   weights->Load(state, model, runtime);
#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/parallel/step/sharded_model.h"
#include "weft/train/checkpoint/safetensors.h"
#include "weft/train/config/config.h"
#include "weft/train/huggingface/hf_names.h"

namespace weft {

using StoredTensors = std::map<std::string, StoredTensor>;

class InitialWeights {
 public:
  // Opens config.model.init. It must have a tensor of the right shape for every parameter of the model, and no other
  // weights. Requires resolved sizes. Errors begin with the position of the key.
  static absl::StatusOr<InitialWeights> Open(const Config& config);

  // Sets the parameters and their copies. All ranks must call it; each reads only what it holds. Throws Error if a file
  // cannot be read.
  void Load(State& state, const ShardedModel& model, const Runtime& runtime) const;
  // Returns a hash that is equal on ranks that read the same weights. Throws Error if a file cannot be read.
  uint64_t Hash() const;
  // Returns a line for the user: what was read and what was skipped.
  std::string Summary() const;

 private:
  explicit InitialWeights(Safetensors files) : files_(std::move(files)) {}
  // Checks the checkpoint's config.json, if it has one.
  absl::Status CheckSettings(const HfFamily& family, const ModelConfig& model);
  // Finds a tensor by its name, with or without the family's prefix, or by an old name.
  StoredTensors::const_iterator Find(const HfFamily& family, const std::string& name) const;
  // Whether head and token embedding are equal bit by bit.
  bool HoldsTheEmbeddingTwice(const HfFamily& family) const;
  // Finds the tensors of the parameters. Returns the names of missing ones.
  std::vector<std::string> Match(const HfFamily& family, const Model& model, int64_t heads);
  absl::Status CheckTensors() const;
  absl::Status CheckRest(const HfFamily& family);

  // A parameter's tensor, and the parameter's location in it.
  struct Source {
    const StoredTensor* tensor;
    HfPlace place;
    Shape shape;  // of the parameter
  };
  Safetensors files_;
  std::map<std::string, Source> sources_;  // by parameter
  std::vector<std::string> ignored_;       // tensors that are not weights
  bool has_settings_ = false;              // whether there is a config.json
};

// Converts the part of a tensor that a view covers. `place` is the location in it of the whole parameter.
void ReadBox(const StoredTensor& from, const HfPlace& place, const TensorView& to);
// Sets what this rank holds of an entry of the State, a parameter with that location in the tensor.
void SetEntry(State& state, const std::string& entry, const StoredTensor& from, const HfPlace& place);

}  // namespace weft
