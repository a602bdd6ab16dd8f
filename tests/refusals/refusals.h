// Calls that must be refused. refusals_test runs them: each error names the op, the line of the call, the operands,
// what was expected and given, and what to do. tests/golden/refusals.txt has the texts.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/ops/ops.h"

namespace weft::test {

struct Refusal {
  std::string op;                  // what the error begins with
  std::string what;                // what is wrong with the call
  std::vector<std::string> shows;  // parts of the error that name operands
  std::function<void()> call;
};

// In the order of their lines. Each call is one line of the file.
std::vector<Refusal> AttentionRefusals();
std::vector<Refusal> OpRefusals();
std::vector<Refusal> LayerRefusals();

inline Var F32(Shape shape) { return Leaf("x", DType::kF32, std::move(shape)); }
inline Var BF16(Shape shape) { return Leaf("x", DType::kBF16, std::move(shape)); }
inline Var I64(Shape shape) { return Leaf("x", DType::kI64, std::move(shape)); }
inline Var Bool(Shape shape) { return Leaf("x", DType::kBool, std::move(shape)); }

}  // namespace weft::test
