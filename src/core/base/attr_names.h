// The names of attributes, by type: a name that is not here, or of another type, does not compile.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

namespace attr_names {
inline constexpr std::string_view kInts[] = {"axis",
                                             "bias",
                                             "causal",
                                             "causal_offset",
                                             "context",
                                             "dim",
                                             "dtype",
                                             "gather_dim",
                                             "high",
                                             "ignore_index",
                                             "inner",
                                             "inverse",
                                             "key",
                                             "length",
                                             "low",
                                             "narrow",
                                             "nesterov",
                                             "parameter",
                                             "parameter_gradient",
                                             "reduce",
                                             "regather",
                                             "residual",
                                             "shape_only",
                                             "size",
                                             "split_dim",
                                             "start",
                                             "wide"},
                                  kFloats[] = {"beta1",     "beta2", "eps",      "factor",      "high",
                                               "k",         "low",   "momentum", "p",           "scale",
                                               "smoothing", "theta", "value",    "weight_decay"},
                                  kTexts[] = {"eq", "kind", "name"}, kShapes[] = {"perm", "shape"},
                                  kShardings[] = {"placement", "target"};

template <class T>
constexpr std::span<const std::string_view> kOf;
template <>
inline constexpr std::span<const std::string_view> kOf<int64_t> = kInts;
template <>
inline constexpr std::span<const std::string_view> kOf<double> = kFloats;
template <>
inline constexpr std::span<const std::string_view> kOf<std::string> = kTexts;
template <>
inline constexpr std::span<const std::string_view> kOf<Shape> = kShapes;
template <>
inline constexpr std::span<const std::string_view> kOf<Sharding> = kShardings;

void ThereIsNoAttributeOfThisNameAndType();  // what the compiler says; it has no body
}  // namespace attr_names

// A string literal that names an attribute of type T; null where a row of a table names none.
template <class T>
struct AttrName {
  const char* text;
  consteval AttrName(const char* name) : text(name) {
    std::span<const std::string_view> known = attr_names::kOf<T>;
    if (name && std::find(known.begin(), known.end(), name) == known.end())
      attr_names::ThereIsNoAttributeOfThisNameAndType();
  }
  explicit operator bool() const { return text != nullptr; }
};

}  // namespace weft
