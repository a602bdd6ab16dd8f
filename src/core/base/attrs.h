// Attrs: the named constants of a node (a dim, an equation, a scale). A node has a few of them, so lookup is linear.
//
//   Attrs attrs{{"dim", 1}, {"eq", "btc,cd->btd"}};
//   int dim = int(attrs.Int("dim"));
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

// The names of attributes, by type. A name that is not listed under its type does not compile.
namespace attr_names {
// clang-format off
inline constexpr std::string_view
    kInts[] = {"axis", "backends", "bias", "causal", "causal_offset", "context", "descending", "dim", "dtype", "gather_dim", "high",
               "ignore_index", "inner", "inverse", "key", "left", "length", "lengths", "low", "mask", "narrow", "nesterov", "offsets", "packed",
               "parameter", "parameter_gradient", "reduce", "regather", "residual", "right", "rotated", "segments",
               "shape_only", "sinks", "size", "split_dim", "start", "step", "whole", "wide", "wire"},
    kFloats[] = {"beta1", "beta2", "eps", "factor", "high", "k", "low", "momentum", "p", "scale", "smoothing", "softcap",
                 "theta",
                 "value", "weight_decay"},
    kTexts[] = {"eq", "kind", "name"},
    kShapes[] = {"perm", "shape"},
    kShardings[] = {"placement", "target"};
// clang-format on

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

void ThereIsNoAttributeOfThisNameAndType();  // undefined: the compiler names it in its error
}  // namespace attr_names

// A string literal that names an attribute of type T. Null in a table row that names no attribute.
template <class T>
struct AttrName {
  std::string_view text;
  consteval AttrName(const char* name) : text(name ? name : std::string_view()) {
    std::span<const std::string_view> known = attr_names::kOf<T>;
    if (name && std::find(known.begin(), known.end(), name) == known.end())
      attr_names::ThereIsNoAttributeOfThisNameAndType();
  }
  explicit operator bool() const { return text.data() != nullptr; }
};

using AttrValue = std::variant<int64_t, double, std::string, Shape, Sharding>;

class Attrs {
 public:
  struct Item {
    std::string_view name;  // of a string literal
    AttrValue value;
    Item(AttrName<int64_t> n, int64_t v) : name(n.text), value(v) {}
    Item(AttrName<int64_t> n, int v) : name(n.text), value(int64_t(v)) {}
    Item(AttrName<int64_t> n, bool v) : name(n.text), value(int64_t(v)) {}
    Item(AttrName<double> n, double v) : name(n.text), value(v) {}
    Item(AttrName<std::string> n, std::string v) : name(n.text), value(std::move(v)) {}
    Item(AttrName<std::string> n, const char* v) : name(n.text), value(std::string(v)) {}
    Item(AttrName<Shape> n, Shape v) : name(n.text), value(std::move(v)) {}
    Item(AttrName<Sharding> n, Sharding v) : name(n.text), value(v) {}
    bool operator==(const Item& o) const = default;
  };

  Attrs() = default;
  Attrs(std::initializer_list<Item> items) : items_(items) {}

  bool Has(AttrName<double> name) const { return Find(name.text) != nullptr; }
  // These five throw Error if the attribute is missing.
  int64_t Int(AttrName<int64_t> name) const { return At<int64_t>(name.text); }
  double Float(AttrName<double> name) const { return At<double>(name.text); }
  const std::string& Text(AttrName<std::string> name) const { return At<std::string>(name.text); }
  const Shape& Ints(AttrName<Shape> name) const { return At<Shape>(name.text); }
  const Sharding& Target(AttrName<Sharding> name) const { return At<Sharding>(name.text); }
  int64_t IntOr(AttrName<int64_t> name, int64_t otherwise) const {
    const AttrValue* value = Find(name.text);
    return value ? std::get<int64_t>(*value) : otherwise;
  }
  void Set(Item item);  // adds the item or replaces the one of that name
  bool operator==(const Attrs&) const = default;
  const absl::InlinedVector<Item, 2>& items() const { return items_; }

 private:
  const AttrValue* Find(std::string_view name) const;
  const AttrValue& Value(std::string_view name) const;
  template <class T>
  const T& At(std::string_view name) const {
    return std::get<T>(Value(name));
  }
  absl::InlinedVector<Item, 2> items_;
};
std::string ToString(const Attrs& attrs);  // "dim=1 eq=btc,cd->btd"

}  // namespace weft
