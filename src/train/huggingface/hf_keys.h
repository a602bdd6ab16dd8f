// The meaning for Weft of the keys in a published model's config.json, except keys that are compared with a key of ours
// (hf_names.h, hf_config.cc).
//
//   fixed      affects what transformers computes: only the value that matches Weft is accepted
//   neutral    affects no logit: dropout, initial values, generation, labels, tokens, storage, records
//
// The tables cover the keys of GPT2Config, LlamaConfig, the configurations' base class and the modelling code, in
// transformers 4.30 to 5.23.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace weft {

struct HfKey {
  const char* key;
  // Allowed value of a fixed key, or why a neutral key affects no logit.
  const char* why;
  bool (*taken)(const nlohmann::json&) = nullptr;  // whether a fixed key has Weft's value; null: neutral
};
// HfGenericKeys returns the keys of all models in transformers, HfKeysOf those of one family.
std::span<const HfKey> HfGenericKeys();
std::span<const HfKey> HfKeysOf(std::string_view family);
const HfKey* FindHfKey(std::string_view key, std::string_view family);  // searches both; null if in neither

}  // namespace weft
