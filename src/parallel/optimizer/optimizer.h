// Optimizers: each is one file in rules/, which CMake joins into a table. A new one is that file, and an op where it
// has a kernel of its own.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/parallel/nn/module.h"

namespace weft {

// What the rules read; each names what it reads, and says in its file how.
struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

// A parameter on its way through an update. Tensors have its shape and lie as it is stored; scalars are of the type of
// the learning rate, in which updates are computed.
struct ParameterUpdate {
  const Parameter& parameter;
  Var value;
  Var gradient;            // of the sum of the losses; times `scale` it is that of their mean, clipped
  std::vector<Var> slots;  // what the rule keeps from step to step, in the order of its names
  Var lr, scale;           // []
  Var updates;             // i64 []: the number of this update from 1, or 0: nothing changes
  OptimizerOptions options;
};

using SlotNames = std::span<const char* const>;

struct OptimizerRule {
  const char* name;     // of the file too, and the first part of its entries' names
  const char* summary;  // for people
  OptimizerOptions defaults;
  std::span<const char* const> keys;  // of optimizer's in the config, beside name, lr and weight_decay
  SlotNames (*slots)(const OptimizerOptions& options);
  // The parameter's next value, then its next slots.
  std::vector<Var> (*update)(const ParameterUpdate& update);
  // Whether the rule is for this parameter; AdamW updates the others. Null: for all.
  bool (*takes)(const Parameter& parameter) = nullptr;

  bool Reads(std::string_view key) const;
  // The State entry of a slot: "adamw.m.blocks.0.attn.q.weight".
  std::string EntryOf(const char* slot, const Parameter& parameter) const;
};

std::span<const OptimizerRule* const> OptimizerRules();
const OptimizerRule* FindOptimizer(std::string_view name);  // null where there is none

// What some parameters have of their own. Each parameter is of one group at most: the last one that matches its path.
struct ParameterGroup {
  std::string match;                    // a glob over parameter paths; * also crosses dots
  double lr_scale = 1;                  // of the scheduled learning rate; 0: the parameters stay as they are
  const OptimizerRule* rule = nullptr;  // null: rule and options of the optimizer
  OptimizerOptions options{};           // of `rule`
  // Of every parameter of the group, also of those that decay() leaves out. None: as without the group.
  std::optional<double> weight_decay{};
};

// The optimizer of a run.
struct Optimizer {
  const OptimizerRule* rule = FindOptimizer("adamw");
  OptimizerOptions options;
  std::vector<ParameterGroup> groups{};

  const ParameterGroup* GroupOf(const std::string& path) const;  // null where no group matches
};

// What updates one parameter.
struct ParameterRule {
  const OptimizerRule* rule;
  OptimizerOptions options;
  double lr_scale = 1;
  SlotNames slots() const { return rule->slots(options); }
};
ParameterRule RuleOf(const Optimizer& optimizer, const Parameter& parameter);

// An entry's name taken apart: "adamw.m.blocks.0.attn.q.weight" is of adamw, m and the path. No rule: another entry's.
struct SlotName {
  const OptimizerRule* rule = nullptr;
  std::string slot, path;
};
SlotName ParseSlot(std::string_view entry);

}  // namespace weft
