// Optimizers. Each is one file in rules/, and CMake collects these files into a table. A new optimizer needs that file,
// and an op if it has its own kernel.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/host/bounds.h"
#include "weft/parallel/nn/module.h"

namespace weft {

// The bounds of an optimizer's numbers, here and in a config. A learning rate of 0 is allowed here, because a schedule
// may begin with it. The scale of a group's learning rate has the bounds of its weight decay.
inline constexpr Bounds kLrBounds{.low = 0}, kBetaBounds{.low = 0, .high = 1, .high_open = true},
    kMomentumBounds = kBetaBounds, kEpsBounds{.low = 0, .low_open = true}, kDecayBounds{.low = 0};

// The options of all rules. Each rule reads some of them (OptimizerRule::keys), and its file describes how.
struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;

  bool operator==(const OptimizerOptions&) const = default;
};

// The inputs of one parameter's update. Tensors have its shape and its stored placement. Scalars have the type of the
// learning rate, in which updates are computed.
struct ParameterUpdate {
  const Parameter& parameter;
  Var value;
  Var gradient;            // of the sum of the losses; times `scale` it is the clipped gradient of their mean
  std::vector<Var> slots;  // the rule's state for this parameter, in the order of its slot names
  Var lr, scale;           // []
  Var updates;             // i64 []: the number of this update, from 1; 0: change nothing
  OptimizerOptions options;
};

using SlotNames = std::span<const char* const>;

struct OptimizerRule {
  const char* name;     // also the name of its file, and the first part of its entries' names
  const char* summary;  // for the user
  OptimizerOptions defaults;
  std::span<const char* const> keys;  // config keys of `optimizer` that it reads, apart from name, lr and weight_decay
  SlotNames (*slots)(const OptimizerOptions& options);
  // Returns the parameter's next value, then its next slots.
  std::vector<Var> (*update)(const ParameterUpdate& update);
  // Whether the rule updates this parameter. AdamW updates the others. Null: it updates all.
  bool (*takes)(const Parameter& parameter) = nullptr;

  bool Reads(std::string_view key) const;
  // Returns the name of a slot's State entry: "adamw.m.blocks.0.attn.q.weight".
  std::string EntryOf(const char* slot, const Parameter& parameter) const;
};

std::span<const OptimizerRule* const> OptimizerRules();
const OptimizerRule* FindOptimizer(std::string_view name);  // null if there is none
// Returns the rule of this name. Throws Error if there is none; the error lists the rules.
const OptimizerRule& OptimizerNamed(std::string_view name, Loc loc = Loc::current());

// Overrides for some parameters. A parameter belongs to at most one group: the last one that matches its path.
struct ParameterGroup {
  std::string match;                    // a glob that matches parameter paths; * also matches dots
  double lr_scale = 1;                  // factor of the scheduled learning rate; 0: the parameters stay as they are
  const OptimizerRule* rule = nullptr;  // &OptimizerNamed("sgd"); null: the optimizer's rule and options
  OptimizerOptions options{};           // of `rule`
  // Applies to every parameter of the group, including those without Parameter::decay(). None: the weight decay of the
  // options, and 0 for parameters without decay().
  std::optional<double> weight_decay{};
};

// The optimizer of a run.
struct Optimizer {
  const OptimizerRule* rule = FindOptimizer("adamw");
  OptimizerOptions options;
  std::vector<ParameterGroup> groups{};
  double lr = 1e-3;  // of a State that Init creates; `weft train` sets it in each step

  const ParameterGroup* GroupOf(const std::string& path) const;  // null if no group matches
};

// Returns the optimizer of this name with its default options. Throws Error if there is none of this name, or for a
// learning rate outside its bounds.
Optimizer MakeOptimizer(std::string_view name, double lr, Loc loc = Loc::current());
// AdamW (Loshchilov and Hutter 2019). Throws Error for a number outside its bounds.
Optimizer AdamW(double lr, const OptimizerOptions& options = {}, Loc loc = Loc::current());
// Throws Error if a number of the optimizer or of its groups is outside its bounds. `at` begins the error.
void CheckNumbers(const Optimizer& optimizer, const std::string& at);

// The rule that updates one parameter, with its options.
struct ParameterRule {
  const OptimizerRule* rule;
  OptimizerOptions options;
  double lr_scale = 1;
  SlotNames slots() const { return rule->slots(options); }
};
ParameterRule RuleOf(const Optimizer& optimizer, const Parameter& parameter);

// The parts of a State entry's name: "adamw.m.blocks.0.attn.q.weight" has the rule adamw, the slot m and the path of
// the parameter. The rule is null if the entry is not a slot of an optimizer.
struct SlotName {
  const OptimizerRule* rule = nullptr;
  std::string slot, path;
};
SlotName ParseSlot(std::string_view entry);

}  // namespace weft
