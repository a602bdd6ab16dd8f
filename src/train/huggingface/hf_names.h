// Hugging Face's names: the location of each of our parameters in their checkpoints, and the meaning of each key of
// their config.json. One table per family serves reading and writing. Each is one file in families/, and CMake collects
// these files; a family without such a file cannot be read or written.
//
//   {"blocks.*.attn.k.bias", "gd", "transformer.h.*.attn.c_attn.bias", "phd", 1, 3}
//
// means that the bias [G, D] of k in block 7 is the second third of the vector transformer.h.7.attn.c_attn.bias [3 H
// D]. There each of the G key-value heads occurs once for every query head of its group.
//
// Letters: c width, h heads, g key-value heads, d head size, f hidden width, v vocabulary, t context, p parts.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weft/core/base/shape.h"
#include "weft/train/config/config.h"
#include "weft/train/huggingface/hf_keys.h"

namespace weft {

struct HfRow {
  const char *parameter, *dims;  // ours, one letter per dim; * is the block number
  // Theirs, the letters of each dim in order: "hd,c" is [H D, C]. An h for our g repeats each of our heads. Their
  // tensor holds `parts` parameters of this size; p is the number of the parameter among them.
  const char *tensor, *layout;
  int part = 0, parts = 1;
};

// The object in their config.json that exists if model.rope_factor is not 1, and its rope_type.
inline constexpr const char *kHfScaling = "rope_scaling", *kHfScalingType = "llama3";

// A value that no shape shows: a key of their config.json, or of an object in it ("rope_scaling.factor"), and our
// value.
struct HfNumber {
  // kReal is written with a decimal point, even if it is an integer. kFlag is true or false, for us 1 or 0.
  enum Kind : uint8_t { kInteger, kReal, kFlag };
  const char *key, *ours;  // "n_head", "model.heads"
  double (*value)(const ModelConfig& model);
  Kind kind = kInteger;
  // Transformers' default; null: the weights' shapes show the value.
  double (*absent)(const ModelConfig& model) = nullptr;
  bool free = false;  // ours may differ
  bool null = false;  // their null is our 0
};
// Another name that transformers accepts for a key.
struct HfAlias {
  const char *alias, *key;
};
// A key whose value is a word. A key may have several rows, each for some models of the family.
struct HfWord {
  const char* key;
  std::span<const char* const> words;                   // the values that mean what the model does
  bool (*applies)(const ModelConfig& model) = nullptr;  // null: to all models of the family
  const char* setting = nullptr;                        // makes it apply: "model.exact_gelu=true"
  const char* absent = nullptr;                         // transformers' default; null: one of `words`
  bool Applies(const ModelConfig& model) const { return !applies || applies(model); }
};

// Two names of tensors. Twins are two tensors with the same values: files have both or the first. Old names are ends of
// tensors' names, now and earlier.
struct HfTwin {
  const char *tensor, *other;
  bool written = true;  // whether we write both twins
};
// The only value that a key of ours may have, because transformers' models of the family have no such option.
struct HfFixed {
  const char* ours;
  double (*value)(const ModelConfig& model);
  double must;
};

struct HfFamily {
  const char* family;  // a name in ModelFamilies()
  const char* prefix;  // of tensors; files of a model without its head omit it
  const char* head;    // the tensor that equals the token embedding if the two are tied
  std::span<const HfRow> rows;
  std::span<const char* const> no_weights;  // globs of tensors that are not weights, such as masks
  std::span<const HfNumber> numbers;
  std::span<const HfWord> words;
  // Values that shapes show as well, and other keys that transformers requires; for files that we write.
  std::span<const HfNumber> sizes;
  std::span<const HfKey> keys;  // the family's other keys
  const char* rest;             // the other keys of files that we write, as JSON
  std::span<const HfAlias> aliases = {};
  std::span<const HfTwin> twins = {}, old_names = {};
  std::span<const HfFixed> fixed = {};
  bool tied = false;       // the default of tie_word_embeddings
  bool rotary = false;     // whether it has an object kHfScaling
  int64_t context = 2048;  // the default of max_position_embeddings, which the scaling begins from

  bool Compares(std::string_view key) const;  // whether the key is one of numbers, sizes or words
};
std::span<const HfFamily* const> HfFamilies();
std::string HfFamilyNames();                            // "gpt2, llama or neox"
const HfFamily* FindHfFamily(std::string_view family);  // null if there is no table
// Returns why transformers has no such model, "model.transform: expected ...", or "".
std::string HfRefusal(const HfFamily& family, const ModelConfig& model);

// The location of a parameter in one of their tensors. Our element (i, j, ...) is their element offset + i strides[0] +
// j strides[1] + ... If `copies` > 1, it occurs `copies` times, copy_stride elements apart.
struct HfPlace {
  std::string tensor;
  Shape shape;    // of their whole tensor
  Shape strides;  // per dim of ours, in elements of theirs
  int64_t offset = 0;
  int64_t copies = 1, copy_stride = 0;
};
// Returns the location in the row's tensor of a parameter of this shape. Throws Error if the shape does not have the
// row's dims, or would not lie inside the tensor.
HfPlace PlaceOfRow(const HfRow& row, const std::string& parameter, const Shape& shape, int64_t heads);
// Returns none for a parameter without a row. `heads` is the number of query heads. Throws Error if the parameter would
// not lie inside their tensor.
std::optional<HfPlace> PlaceInHf(const HfFamily& family, const std::string& parameter, const Shape& shape,
                                 int64_t heads);

}  // namespace weft
