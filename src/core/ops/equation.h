// Equation: what einsum and the ops made of it compute, "btc,chd->bthd", in its parts: the labels of both operands and
// of the result.
#pragma once
#include <string>
#include <string_view>

namespace weft {

struct Equation {
  std::string a, b, out;
  explicit Equation(std::string_view text);  // throws Error where it is no equation of two operands
};

}  // namespace weft
