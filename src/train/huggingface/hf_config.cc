#include "weft/train/huggingface/hf_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/host/suggest.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/train/huggingface/hf_keys.h"
#include "weft/train/io/json_object.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// Keys with their own comparison rules, below.
constexpr const char *kTied = "tie_word_embeddings", *kRopeContext = "original_max_position_embeddings";
constexpr const char* kRopeObjects[] = {kHfScaling, "rope_parameters"};
constexpr const char* kRopeTypes[] = {"rope_type", "type"};

std::string Flat(std::string_view key) { return fmt::format("{}.{}", kHfScaling, key); }

// Checks one config.json. First normalizes it: replaces aliases, turns the object of the rotary embedding into keys
// "rope_scaling.factor", and ignores null values.
class Checker {
 public:
  Checker(const Json& settings, const HfFamily& family, const ModelConfig& model)
      : settings_(settings), family_(family), model_(model) {}

  absl::Status Run(const std::function<bool()>& same_head) {
    if (absl::Status s = CheckWords(); !s.ok()) return s;
    if (absl::Status s = FlattenRope(); !s.ok()) return s;
    if (absl::Status s = ReplaceAliases(); !s.ok()) return s;
    for (std::span<const HfNumber> numbers : {family_.numbers, family_.sizes})
      for (const HfNumber& n : numbers)
        if (absl::Status s = CheckNumber(n); !s.ok()) return s;
    if (absl::Status s = CheckFixed(); !s.ok()) return s;
    if (absl::Status s = CheckTied(same_head); !s.ok()) return s;
    return CheckUnknown();
  }

 private:
  static absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }
  static absl::Status Differ(const std::string& a, const Json& x, const std::string& b, const Json& y) {
    return Bad(
        fmt::format("expected {} and {} to be equal, got {} and {}; remove the one that the weights were not "
                    "trained with",
                    a, b, Shown(x), Shown(y)));
  }
  const Json* Value(const std::string& key) const {
    auto found = settings_.find(key);
    return found == settings_.end() || found->is_null() ? nullptr : &*found;
  }

  absl::Status CheckWords() const {
    for (const HfWord& w : family_.words) {
      const Json* found = Value(w.key);
      if (!w.Applies(model_) || (!found && !w.absent)) continue;
      Json theirs = found ? *found : Json(w.absent);
      if (std::ranges::find(w.words, theirs) != w.words.end()) continue;
      return Bad(fmt::format("expected {} {}, as family {} has it, got {}; {}", w.key, fmt::join(w.words, " or "),
                             family_.family, Given(found, theirs), Advice(w, theirs)));
    }
    return absl::OkStatus();
  }
  static std::string Given(const Json* found, const Json& theirs) {
    return found ? Shown(theirs) : fmt::format("none, where transformers takes {}", Shown(theirs));
  }
  // Returns what to set, so that the model has the value of a key whose row is `w`.
  std::string Advice(const HfWord& w, const Json& theirs) const {
    auto means = [&](const HfWord& other) {
      return std::string_view(other.key) == w.key && std::ranges::find(other.words, theirs) != other.words.end();
    };
    for (const HfWord& other : family_.words)
      if (other.setting && means(other)) return fmt::format("set {}", other.setting);
    for (const HfFamily* other : HfFamilies())
      if (std::string_view(w.key) == "model_type" && std::ranges::any_of(other->words, means))
        return fmt::format("set model.family={}", other->family);
    return kNoModel;
  }

  absl::Status ReplaceAliases() {
    for (const HfAlias& alias : family_.aliases) {
      const Json *named = Value(alias.key), *other = Value(alias.alias);
      if (named && other && *named != *other) return Differ(alias.key, *named, alias.alias, *other);
      if (other) settings_[alias.key] = Json(*other);
    }
    return absl::OkStatus();
  }

  // A number without a default that is absent needs no check: it is a size, which the weights' shapes determine.
  absl::Status CheckNumber(const HfNumber& n) const {
    if (n.free) return absl::OkStatus();
    const Json* found = Value(n.key);
    if (auto null = settings_.find(n.key); n.null && null != settings_.end()) found = &*null;
    if (!found && !n.absent) return absl::OkStatus();
    double ours = n.value(model_), theirs = found ? NumberOf(*found, n.kind) : n.absent(model_);
    if (std::abs(theirs - ours) <= 1e-6 * std::abs(ours)) return absl::OkStatus();
    auto shown = [&](double value) { return n.kind == HfNumber::kFlag ? Shown(value != 0) : fmt::format("{}", value); };
    std::string got = found ? Shown(*found) : fmt::format("none, where transformers takes {}", shown(theirs));
    bool settable = std::string_view(n.ours).find(' ') == std::string_view::npos && !std::isnan(theirs);
    return Bad(fmt::format(
        "expected {} {}, as {} is, got {}; {}", n.key, shown(ours), n.ours, got,
        settable ? fmt::format("set {}={}", n.ours, found && !found->is_null() ? Shown(*found) : shown(theirs))
                 : std::string(kNoModel)));
  }
  // Returns NaN for a value of another type.
  static double NumberOf(const Json& value, HfNumber::Kind kind) {
    if (value.is_null()) return 0;
    if (kind == HfNumber::kFlag) return value.is_boolean() ? double(value.get<bool>()) : NAN;
    return value.is_number() ? value.get<double>() : NAN;
  }

  absl::Status CheckFixed() const {
    for (const auto& [key, value] : settings_.items()) {
      const HfKey* row = FindHfKey(key, family_);
      if (!row || !row->taken || row->taken(value)) continue;
      return Bad(fmt::format("{}: {}, got {}; {}", key, row->why, Shown(value), kNoModel));
    }
    return absl::OkStatus();
  }

  absl::Status CheckTied(const std::function<bool()>& same_head) const {
    auto found = settings_.find(kTied);
    bool given = found != settings_.end(), theirs = family_.tied;
    if (given && !found->is_boolean())
      return Bad(
          fmt::format("expected {} true or false, got {}; set it as the weights were trained", kTied, Shown(*found)));
    if (given) theirs = found->get<bool>();
    if (theirs == model_.tie_embeddings || same_head()) return absl::OkStatus();
    return Bad(fmt::format("expected {} {}, as model.tie_embeddings is, got {}; set model.tie_embeddings={}", kTied,
                           model_.tie_embeddings,
                           given ? Shown(*found) : fmt::format("none, where transformers takes {}", theirs), theirs));
  }

  // Whether a key of config.json is compared or in a table.
  bool Knows(const std::string& key) const {
    bool rope =
        family_.rotary && (key == kRopeContext || std::ranges::find(kRopeObjects, key) != std::end(kRopeObjects));
    return key.starts_with('_') || key == kTied || rope || FindHfKey(key, family_) || family_.Compares(key) ||
           std::ranges::any_of(family_.aliases, [&](const HfAlias& a) { return a.alias == key; });
  }
  absl::Status CheckUnknown() const {
    std::vector<std::string> unknown;
    for (const auto& [key, value] : settings_.items()) {
      bool neutral = std::ranges::find(model_.init_neutral, key) != model_.init_neutral.end();
      if (!value.is_null() && !neutral && !Knows(key)) unknown.push_back(fmt::format("{} = {}", key, Shown(value)));
    }
    if (unknown.empty()) return absl::OkStatus();
    return Bad(
        fmt::format("expected keys that Weft knows of family {}, got also {}; if the model computes the same "
                    "without them, name them in model.init_neutral",
                    family_.family, FirstFew(unknown)));
  }

  absl::Status FlattenRope();
  absl::Status LiftRope(const Json& rope, const char* key, const std::string& name);
  absl::StatusOr<Json> RopeObject() const;
  static absl::StatusOr<bool> ScalesRope(const Json& rope);

  static constexpr const char* kNoModel = "Weft has no such model";
  Json settings_;
  const HfFamily& family_;
  const ModelConfig& model_;
};

// Returns the object of the rotary embedding, or an empty one. Since transformers 5 it is called rope_parameters.
absl::StatusOr<Json> Checker::RopeObject() const {
  Json rope = Json::object();
  const char* first = nullptr;
  for (const char* name : kRopeObjects) {
    const Json* found = Value(name);
    if (!found || found->empty()) continue;
    if (!found->is_object())
      return Bad(fmt::format("expected {} to be an object or null, got {}; copy the file again", name, Shown(*found)));
    if (first && *found != rope) return Differ(first, rope, name, *found);
    first = name;
    rope = *found;
  }
  return rope;
}

absl::StatusOr<bool> Checker::ScalesRope(const Json& rope) {
  Json type = "default";
  const char* first = nullptr;
  for (const char* key : kRopeTypes) {
    auto found = rope.find(key);
    if (found == rope.end() || found->is_null()) continue;
    if (first && *found != type) return Differ(Flat(first), type, Flat(key), *found);
    first = key;
    type = *found;
  }
  if (type == "default" || type == kHfScalingType) return type == kHfScalingType;
  return Bad(fmt::format("expected {} default or {}, which Weft has, got {}; {}", Flat(first), kHfScalingType,
                         Shown(type), kNoModel));
}

// Moves a key out of the object to `name`. The key may also be at the top level; then the two values must be equal.
absl::Status Checker::LiftRope(const Json& rope, const char* key, const std::string& name) {
  auto inside = rope.find(key);
  if (inside == rope.end() || inside->is_null()) return absl::OkStatus();
  if (const Json* outside = Value(key); outside && *outside != *inside)
    return Differ(key, *outside, Flat(key), *inside);
  settings_[name] = *inside;
  return absl::OkStatus();
}

absl::Status Checker::FlattenRope() {
  if (!family_.rotary) return absl::OkStatus();
  absl::StatusOr<Json> rope = RopeObject();
  if (!rope.ok()) return rope.status();
  absl::StatusOr<bool> scaled = ScalesRope(*rope);
  if (!scaled.ok()) return scaled.status();
  for (const char* key : {"rope_theta", "partial_rotary_factor"})
    if (absl::Status s = LiftRope(*rope, key, key); !s.ok()) return s;
  std::string context = Flat(kRopeContext);
  if (const Json* outside = Value(kRopeContext); *scaled && outside) settings_[context] = Json(*outside);
  if (*scaled)
    if (absl::Status s = LiftRope(*rope, kRopeContext, context); !s.ok()) return s;
  for (const auto& [key, value] : rope->items()) {
    bool lifted = key == "rope_theta" || key == "partial_rotary_factor" || key == kRopeContext;
    bool type = std::ranges::find(kRopeTypes, key) != std::end(kRopeTypes);
    bool unused = !*scaled && Knows(Flat(key));  // transformers reads these only if it scales
    if (!lifted && !type && !unused) settings_[Flat(key)] = value;
  }
  if (!*scaled) return absl::OkStatus();
  if (!Value(context)) settings_[context] = settings_.value("max_position_embeddings", Json(family_.context));
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"})
    if (!Value(Flat(key)))
      return Bad(
          fmt::format("expected {}, as rope_type {} has it, got none; copy the file again", Flat(key), kHfScalingType));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHfConfig(const Json& settings, const HfFamily& family, const ModelConfig& model,
                           const std::function<bool()>& same_head) {
  return Checker(settings, family, model).Run(same_head);
}

}  // namespace weft
