// Model families. Each is one file in models/, and CMake collects these files into a table. A new family needs that
// file and a config.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "weft/parallel/nn/layers/transformer.h"

namespace weft {

// The target of each position in training.
enum class Objective : uint8_t {
  kNext,    // the next token, predicted from the tokens up to this one
  kMasked,  // the original token of a masked position, predicted from both sides
  kPairs,   // the next token of a text, predicted from its source and from the tokens up to this one
};

// A config key that only one family has: model.NAME in a config, own[NAME] in TransformerConfig.
struct FamilyKey {
  const char* name;
  const char* help;
  bool flag = false;  // true: a boolean, stored as 1 or 0; false: a number from `low` to `high`
  double low = 0, high = 0;
  double otherwise = 0;  // the value if the config does not set the key
  bool integer = false;  // whether the number must be whole
  // The value in checkpoints from before there was such a key. Unset: `otherwise`.
  std::optional<double> earlier{};

  double In(const TransformerConfig& config) const;  // the value in config.own, or `otherwise`
};

// Keys of several families.
inline constexpr FamilyKey kExactGelu{
    .name = "exact_gelu", .help = "GELU by erf instead of its tanh form", .flag = true, .otherwise = 1, .earlier = 0},
    kWindow{.name = "window",
            .help = "tokens that a token attends to, itself included; 0: all before it",
            .high = 1e9,
            .otherwise = 4096,
            .integer = true},
    kHeadDim{.name = "head_dim", .help = "dims of a head; 0: dim / heads", .high = 1 << 20, .integer = true};

struct ModelFamily {
  const char* name;                                         // also the name of its file
  const char* summary;                                      // for the user
  TransformerConfig (*configure)(TransformerConfig sizes);  // sets the architecture, such as norm and bias
  int64_t (*default_ffn)(int64_t dim);
  bool tie_embeddings;  // the default of model.tie_embeddings
  Objective objective = Objective::kNext;
  std::span<const FamilyKey> keys = {};
  const char* plan = "megatron";  // a name in NamedPlans(); the plan of configs that name none

  const FamilyKey* FindKey(std::string_view key) const;  // null if there is none of this name
};

std::span<const ModelFamily* const> ModelFamilies();
const ModelFamily* FindFamily(std::string_view name);  // null if there is none
// Returns the family of this name. Throws Error if there is none; the error lists the families.
const ModelFamily& Family(std::string_view name, Loc loc = Loc::current());

}  // namespace weft
