// InitialWeights: values for the parameters from a checkpoint of Hugging Face's, in place of random ones.
//
//   absl::StatusOr<InitialWeights> weights = InitialWeights::Open(config);
//   weights->Load(state, model, options, runtime);
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
  // What config.model.init names, which must have a tensor of the right shape for every parameter of the model, and no
  // others that hold weights. Sizes are resolved. Errors carry the place of the key.
  static absl::StatusOr<InitialWeights> Open(const Config& config);

  // Sets the parameters, and their copies, on all ranks together. A rank reads what it holds. Throws Error where a file
  // cannot be read.
  void Load(State& state, const ShardedModel& model, const Runtime& runtime) const;
  // Ranks that read the same weights have the same.
  uint64_t Hash() const;
  // For people: what was read, and what was passed over.
  std::string Summary() const;

 private:
  explicit InitialWeights(Safetensors files) : files_(std::move(files)) {}
  // What the checkpoint's config.json says, where it has one.
  absl::Status CheckSettings(const HfFamily& family, const ModelConfig& model);
  // By its name, or by the one without the family's prefix.
  StoredTensors::const_iterator Find(const HfFamily& family, const std::string& name) const;
  // Whether the head is the token embedding, bit by bit.
  bool HoldsTheEmbeddingTwice(const HfFamily& family) const;
  // Finds the parameters' tensors; the names of those that are not there.
  std::vector<std::string> Match(const HfFamily& family, const Model& model, int64_t heads);
  absl::Status CheckTensors() const;
  absl::Status CheckRest(const HfFamily& family);

  // A parameter's tensor, and where it lies in it.
  struct Source {
    const StoredTensor* tensor;
    HfPlace place;
    Shape shape;  // of the parameter
  };
  Safetensors files_;
  std::map<std::string, Source> sources_;  // by parameter
  std::vector<std::string> ignored_;       // tensors without weights
  bool has_settings_ = false;              // a config.json
};

// Converts the part of a tensor that a view holds. `place` says where the whole of what is viewed lies in it.
void ReadBox(const StoredTensor& from, const HfPlace& place, const TensorView& to);

}  // namespace weft
