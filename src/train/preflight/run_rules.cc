#include "weft/train/preflight/run_rules.h"

#include <fmt/format.h>

#include "weft/parallel/nn/family/family.h"
#include "weft/train/huggingface/hf_names.h"
#include "weft/train/preflight/output_check.h"

namespace weft {
namespace {

std::vector<ConfigFault> CheckInit(const Config& config) {
  const ModelConfig& model = config.model;
  if (model.init.empty() || !FindFamily(model.family) || FindHfFamily(model.family)) return {};
  return {
      {"model.init", fmt::format("there is no table of Hugging Face's names for family {}; remove the key or use {}",
                                 model.family, HfFamilyNames())}};
}

constexpr ConfigRule kRules[] = {CheckInit, CheckOutputPaths};

}  // namespace

std::span<const ConfigRule> RunRules() { return kRules; }

}  // namespace weft
