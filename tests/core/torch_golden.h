// Golden cases that tests/interop/torch_golden.py made with PyTorch, which describes the format, and their replay:
// eagerly, traced, and on 2 x 2 ranks in this process. The files are in a hidden folder, because the quickstart trains
// on the text files of tests.
//
//   const GoldenFunctions kFunctions{{"exp", [](const GoldenCase& c, const Vars& in) { return Vars{Exp(in[0])}; }}};
//   for (const GoldenCase& c : ReadGolden("ops.jsonl")) ExpectTraced(c, kFunctions.at(c.op));
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/core/base/tensor.h"
#include "weft/core/ir/node.h"

namespace weft::test {

struct GoldenCase {
  int line;  // of the file
  std::string op;
  nlohmann::json attrs;
  std::vector<Tensor> in, out;
  std::vector<std::optional<std::vector<double>>> grad;  // of each operand; empty: the case has no gradients
  double tolerance;                                      // of |got - want| / max(1, largest |want|)

  int Int(const char* name) const { return attrs.at(name).get<int>(); }
  double Float(const char* name) const { return attrs.at(name).get<double>(); }
};

// Throws if the file is missing or malformed.
std::vector<GoldenCase> ReadGolden(const std::string& file);

using Vars = std::vector<Var>;
using GoldenFunction = std::function<Vars(const GoldenCase& c, const Vars& in)>;
using GoldenFunctions = std::map<std::string, GoldenFunction>;

// Check outputs and gradients of a case, each in another way of running it. On the mesh of 2 x 2 ranks, the program
// runs both traced and eagerly, and the first operand is sharded or Partial, in a way that differs by line.
void ExpectEager(const GoldenCase& c, const GoldenFunction& fn);
void ExpectTraced(const GoldenCase& c, const GoldenFunction& fn);
void ExpectOnMesh(const GoldenCase& c, const GoldenFunction& fn);

}  // namespace weft::test
