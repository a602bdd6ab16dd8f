#include "weft/parallel/nn/family/family.h"

#include <fmt/format.h>

#include "weft/core/host/suggest.h"

namespace weft {
namespace models {
#define WEFT_MODEL_FAMILY(name) extern const ModelFamily name;
#include "model_families.inc"
#undef WEFT_MODEL_FAMILY
}  // namespace models

std::span<const ModelFamily* const> ModelFamilies() {
  static const ModelFamily* const families[] = {
#define WEFT_MODEL_FAMILY(name) &models::name,
#include "model_families.inc"
#undef WEFT_MODEL_FAMILY
  };
  return families;
}

double FamilyKey::In(const TransformerConfig& config) const {
  auto found = config.own.find(name);
  return found == config.own.end() ? otherwise : found->second;
}

const FamilyKey* ModelFamily::FindKey(std::string_view key) const {
  for (const FamilyKey& own : keys)
    if (key == own.name) return &own;
  return nullptr;
}

const ModelFamily* FindFamily(std::string_view name) {
  for (const ModelFamily* family : ModelFamilies())
    if (name == family->name) return family;
  return nullptr;
}

const ModelFamily& Family(std::string_view name, Loc loc) {
  if (const ModelFamily* family = FindFamily(name)) return *family;
  std::vector<std::string> names;
  for (const ModelFamily* family : ModelFamilies()) names.emplace_back(family->name);
  Fail(fmt::format("Family at {}: {}", ToString(loc), ExpectedOneOf(names, name)));
}

}  // namespace weft
