// Equation: the parts of an equation such as "btc,chd->bthd", which einsum and the ops fused from it compute: the
// labels of both operands and of the result.
#pragma once
#include <string>
#include <string_view>

namespace weft {

struct Equation {
  std::string a, b, out;
  explicit Equation(std::string_view text);  // throws Error unless Holds(text)
  static bool Holds(std::string_view text);  // whether it is an equation of two operands
};

}  // namespace weft
