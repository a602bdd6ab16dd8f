// The meaning for Weft of the keys in a published model's config.json, except keys that are compared with a key of ours
// (hf_names.h, hf_config.cc).
//
//   fixed      affects what transformers computes: only the value that matches Weft is accepted
//   neutral    affects no logit: dropout, initial values, generation, labels, tokens, storage, records
//
// The tables cover the keys of the families' configurations, of their base class and of the modelling code, in
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

namespace hf {
// Functions for HfKey::taken.
inline bool IsNone(const nlohmann::json& v) { return v.is_null() || (v.is_structured() && v.empty()); }
inline bool IsFalse(const nlohmann::json& v) { return v.is_null() || v == false; }
inline bool IsTrue(const nlohmann::json& v) { return v == true; }
inline bool IsTrueOrNone(const nlohmann::json& v) { return v.is_null() || v == true; }
inline bool IsOneOrNone(const nlohmann::json& v) { return v.is_null() || (v.is_number() && v.get<double>() == 1); }
}  // namespace hf

// Returns the keys of all models in transformers. HfFamily::keys has those of one family.
std::span<const HfKey> HfGenericKeys();
struct HfFamily;
// Searches both, the family's first. Returns null for a key that is in neither, or that the family compares.
const HfKey* FindHfKey(std::string_view key, const HfFamily& family);

}  // namespace weft
