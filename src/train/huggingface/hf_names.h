// Hugging Face's names: the location of each of our parameters in their checkpoints. One table per family serves
// reading and writing.
//
//   {"blocks.*.attn.k.bias", "gd", "transformer.h.*.attn.c_attn.bias", "hd", 1, 3}
//
// means that the bias [G, D] of k in block 7 is the second third of the vector transformer.h.7.attn.c_attn.bias [3 H
// D]. There each of the G key-value heads occurs once for every query head of its group.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weft/core/base/shape.h"
#include "weft/train/config/config.h"

namespace weft {

struct HfRow {
  const char *parameter, *dims;  // ours, one letter per dim; * is the block number
  // Theirs, the letters of each dim in order: "hd,c" is [H D, C]. An h for our g repeats each of our heads.
  const char *tensor, *layout;
  int part = 0, parts = 1;  // ours is one of `parts` equal parts of their last dim
};

// The object in their config.json that exists if model.rope_factor is not 1, and its rope_type.
inline constexpr const char *kHfScaling = "rope_scaling", *kHfScalingType = "llama3";

// A value that no shape shows: a key of their config.json, or of an object in it ("rope_scaling.factor"), and our
// value.
struct HfNumber {
  const char *key, *ours;  // "n_head", "model.heads"
  double (*value)(const ModelConfig& model);
  bool real = false;  // written with a decimal point, even if it is an integer
  // Transformers' default; null: the weights' shapes show the value.
  double (*absent)(const ModelConfig& model) = nullptr;
  bool free = false;  // ours may differ
};
// Another name that transformers accepts for a key.
struct HfAlias {
  const char *alias, *key;
};
struct HfWord {
  const char* key;
  std::span<const char* const> words;  // the values that mean what the family does
};

struct HfFamily {
  const char* family;  // a name in ModelFamilies()
  const char* prefix;  // of tensors; files of a model without its head omit it
  std::span<const HfRow> rows;
  std::span<const char* const> no_weights;  // globs of tensors that are not weights, such as masks
  std::span<const HfNumber> numbers;
  std::span<const HfWord> words;
  // Values that shapes show as well, and other keys that transformers requires; for files that we write.
  std::span<const HfNumber> sizes;
  const char* rest;  // the other keys, as JSON
  std::span<const HfAlias> aliases;
  bool tied;    // the default of tie_word_embeddings
  bool rotary;  // whether it has an object kHfScaling
};
const HfFamily* FindHfFamily(std::string_view family);  // null if there is no table

// The location of a parameter in one of their tensors. Our element (i, j, ...) is their element offset + i strides[0] +
// j strides[1] + ... If `copies` > 1, it occurs `copies` times, copy_stride elements apart.
struct HfPlace {
  std::string tensor;
  Shape shape;    // of their whole tensor
  Shape strides;  // per dim of ours, in elements of theirs
  int64_t offset = 0;
  int64_t copies = 1, copy_stride = 0;
};
// Returns none for a parameter without a row. `heads` is the number of query heads. Throws Error if the parameter would
// not lie inside their tensor.
std::optional<HfPlace> PlaceInHf(const HfFamily& family, const std::string& parameter, const Shape& shape,
                                 int64_t heads);

}  // namespace weft
