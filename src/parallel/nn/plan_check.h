// Finds rows of a plan that match nothing in a model, which are usually misspelt.
#pragma once
#include <string>
#include <vector>

#include "weft/parallel/nn/module.h"

namespace weft {

std::vector<std::string> PathsOf(const std::vector<const Parameter*>& parameters);
std::vector<std::string> PathsOf(const std::vector<const Module*>& modules);

// Returns an error if the pattern matches none of the paths, otherwise "". `what` is what they are the paths of.
std::string Unmatched(const std::string& pattern, const char* what, const std::vector<std::string>& paths);
// Returns the points that rows may name: those of every layer, and the names of the model's other parameters.
std::vector<std::string> PointsOf(const std::vector<std::string>& parameters);
// Returns an error if the row names none of the points, otherwise "".
std::string UnknownPoint(const ShardingPlan::Row& row, const std::vector<std::string>& points);
// Whether the row can have an effect at its point: the point is no parameter, or a module that the row matches has it.
bool HasPoint(const ShardingPlan::Row& row, const std::vector<std::string>& parameters);

// Throws PlanError for a row that is not optional and has no effect on the model, on whatever mesh. `at` begins the
// error: "Init at train.cc:12".
void CheckPlan(const ShardingPlan& plan, const Module& model, const std::string& at);

}  // namespace weft
