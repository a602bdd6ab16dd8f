// Optimizers: each is one file in rules/, which CMake joins into a table. A new one is that file, and an op where it
// has a kernel of its own.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/parallel/nn/module.h"

namespace weft {

// What the rules read; each says in its file what it reads and how.
struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;
};

// A parameter on its way through an update. Tensors have its shape and lie as it is stored; scalars are of the type of
// the learning rate.
struct ParameterUpdate {
  const Parameter& parameter;
  Var value;
  Var gradient;            // of the sum of the losses; times `scale` it is that of their mean, clipped
  std::vector<Var> slots;  // what the rule keeps from step to step, in the order of its names
  Var lr, scale;           // []
  Var updates;             // i64 []: the number of this update from 1, or 0: nothing changes
  OptimizerOptions options;
};

struct OptimizerRule {
  const char* name;     // of the file too, and the first part of its entries' names
  const char* summary;  // for people
  std::span<const char* const> slots;
  // The parameter's next value, then its next slots.
  std::vector<Var> (*update)(const ParameterUpdate& update);

  // The State entry of a slot: "adamw.m.blocks.0.attn.q.weight".
  std::string EntryOf(const char* slot, const Parameter& parameter) const;
};

std::span<const OptimizerRule* const> OptimizerRules();
const OptimizerRule* FindOptimizer(std::string_view name);  // null where there is none

}  // namespace weft
