// Hugging Face's names: where each of our parameters lies in their checkpoints, a table per family that reads both
// ways.
//
//   {"blocks.*.attn.k.bias", "gd", "transformer.h.*.attn.c_attn.bias", "hd", 1, 3}
//
// says that the bias [G, D] of k in block 7 is the second third of the vector transformer.h.7.attn.c_attn.bias [3 H D],
// with each of the G key-value heads there once for every query head of its group.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weft/core/base/shape.h"
#include "weft/train/config/config.h"

namespace weft {

struct HfRow {
  const char *parameter, *dims;  // ours, a letter a dim; * is the number of a block
  // theirs, the letters of each dim in its order: "hd,c" is [H D, C]. An h where ours has g repeats each of our heads.
  const char *tensor, *layout;
  int part = 0, parts = 1;  // ours is one of as many equal parts of their last dim
};

// The object of their config.json that is there where model.rope_factor is not 1, and its rope_type.
inline constexpr const char *kHfScaling = "rope_scaling", *kHfScalingType = "llama3";

// What no shape shows: a key of their config.json, or of an object in it ("rope_scaling.factor"), and what it must be.
struct HfNumber {
  const char *key, *ours;  // "n_head", "model.heads"
  double (*value)(const ModelConfig& model);
  bool real = false;                                     // written with a point, whatever its value
  double (*absent)(const ModelConfig& model) = nullptr;  // transformers' default; null: the weights' shapes show it
  bool free = false;                                     // ours may be another
};
// Another name under which transformers takes a key.
struct HfAlias {
  const char *alias, *key;
};
struct HfWord {
  const char* key;
  std::span<const char* const> words;  // that mean what the family does
};

struct HfFamily {
  const char* family;  // of ModelFamilies()
  const char* prefix;  // of tensors; files of a model without its head leave it out
  std::span<const HfRow> rows;
  std::span<const char* const> no_weights;  // tensors that hold none, such as masks: globs
  std::span<const HfNumber> numbers;
  std::span<const HfWord> words;
  // What shapes show as well, and the rest that transformers wants to find; for files that we write.
  std::span<const HfNumber> sizes;
  const char* rest;  // as JSON
  std::span<const HfAlias> aliases;
  bool tied;    // tie_word_embeddings where it is absent
  bool rotary;  // with an object kHfScaling
};
const HfFamily* FindHfFamily(std::string_view family);  // null where there is no table

// Element (i, j, ...) of ours is element offset + i strides[0] + j strides[1] + ... of theirs, and so is the element
// copy_stride further on, `copies` times in all.
struct HfPlace {
  std::string tensor;
  Shape shape;    // of all of theirs
  Shape strides;  // of our dims, in elements of theirs
  int64_t offset = 0;
  int64_t copies = 1, copy_stride = 0;
};
// `heads` is the number of query heads. Nothing for a parameter without a row. Throws Error where the box of the
// parameter would not lie inside their tensor.
std::optional<HfPlace> PlaceInHf(const HfFamily& family, const std::string& parameter, const Shape& shape,
                                 int64_t heads);

}  // namespace weft
