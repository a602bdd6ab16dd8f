// What the keys of a published model's config.json mean to Weft, but for those that are compared with a key of ours
// (hf_names.h, hf_config.cc).
//
//   fixed      changes what transformers computes: only the value that means what Weft computes is taken
//   neutral    changes no logit: dropout, initial values, generation, labels, tokens, storage, records
//
// The tables are those of GPT2Config, LlamaConfig, the configurations' base class and the modelling code, of
// transformers 4.30 to 5.23.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace weft {

struct HfKey {
  const char* key;
  const char* why;                                 // what a fixed key may be; why a neutral one changes no logit
  bool (*taken)(const nlohmann::json&) = nullptr;  // whether a fixed key has Weft's value; null: neutral
};
// The keys that all models of transformers have, and those of one family.
std::span<const HfKey> HfGenericKeys();
std::span<const HfKey> HfKeysOf(std::string_view family);
const HfKey* FindHfKey(std::string_view key, std::string_view family);  // in both; null: in neither

}  // namespace weft
