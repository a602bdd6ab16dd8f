// Attrs: the named constants of a node (a dim, an equation, a scale). A few per node, found by a scan.
//
//   Attrs attrs{{"dim", 1}, {"eq", "btc,cd->btd"}};
//   int dim = int(attrs.Int("dim"));
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

using AttrValue = std::variant<int64_t, double, std::string, Shape, Sharding>;

class Attrs {
 public:
  struct Item {
    const char* name;  // a string literal
    AttrValue value;
    Item(const char* n, int64_t v) : name(n), value(v) {}
    Item(const char* n, int v) : name(n), value(int64_t(v)) {}
    Item(const char* n, bool v) : name(n), value(int64_t(v)) {}
    Item(const char* n, double v) : name(n), value(v) {}
    Item(const char* n, std::string v) : name(n), value(std::move(v)) {}
    Item(const char* n, const char* v) : name(n), value(std::string(v)) {}
    Item(const char* n, Shape v) : name(n), value(std::move(v)) {}
    Item(const char* n, Sharding v) : name(n), value(v) {}
    bool operator==(const Item& o) const { return std::string_view(name) == o.name && value == o.value; }
  };

  Attrs() = default;
  Attrs(std::initializer_list<Item> items) : items_(items) {}

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  int64_t Int(std::string_view name) const;  // these four throw Error for an absent name
  double Float(std::string_view name) const;
  const std::string& Text(std::string_view name) const;
  const Shape& Ints(std::string_view name) const;
  const Sharding& Target(std::string_view name) const;
  int64_t IntOr(std::string_view name, int64_t otherwise) const { return Has(name) ? Int(name) : otherwise; }
  void Set(Item item);  // adds or replaces
  bool operator==(const Attrs&) const = default;
  const absl::InlinedVector<Item, 2>& items() const { return items_; }

 private:
  const AttrValue* Find(std::string_view name) const;
  const AttrValue& At(std::string_view name) const;
  absl::InlinedVector<Item, 2> items_;
};
std::string ToString(const Attrs& attrs);  // "dim=1 eq=btc,cd->btd"

}  // namespace weft
