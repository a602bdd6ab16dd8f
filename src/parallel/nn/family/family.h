// Model families: each is one file in models/, which CMake joins into a table. A new family is that file and a config.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "weft/parallel/nn/layers/transformer.h"

namespace weft {

// What a token of a sequence is trained to give.
enum class Objective : uint8_t {
  kNext,    // the token that follows it, seen from those up to it
  kMasked,  // itself where it was masked, seen from both sides
};

// A key of a family's own: model.NAME in a config, own[NAME] in TransformerConfig.
struct FamilyKey {
  const char* name;
  const char* help;
  bool flag = false;  // true or false, as 1 or 0; else a number within the bounds
  double low = 0, high = 0;
  double otherwise = 0;  // where the config has none
};

struct ModelFamily {
  const char* name;                                         // of the file too
  const char* summary;                                      // for people
  TransformerConfig (*configure)(TransformerConfig sizes);  // sets what is not a size
  int64_t (*default_ffn)(int64_t dim);
  bool tie_embeddings;  // unless the config says otherwise
  Objective objective = Objective::kNext;
  std::span<const FamilyKey> keys = {};
  const char* plan = "megatron";  // of NamedPlans(), where a config names none

  const FamilyKey* FindKey(std::string_view key) const;  // null where it has none of this name
};

std::span<const ModelFamily* const> ModelFamilies();
const ModelFamily* FindFamily(std::string_view name);  // null where there is none

}  // namespace weft
