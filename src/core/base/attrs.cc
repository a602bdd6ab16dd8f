#include "weft/core/base/attrs.h"

#include <fmt/format.h>

#include "weft/core/base/error.h"

namespace weft {

const AttrValue* Attrs::Find(std::string_view name) const {
  for (const Item& item : items_)
    if (name == item.name) return &item.value;
  return nullptr;
}

const AttrValue& Attrs::Value(std::string_view name) const {
  const AttrValue* value = Find(name);
  WEFT_CHECK(value, fmt::format("attribute \"{}\" is missing; the node has {}", name, ToString(*this)));
  return *value;
}

void Attrs::Set(Item item) {
  for (Item& old : items_)
    if (old.name == item.name) {
      old.value = std::move(item.value);
      return;
    }
  items_.push_back(std::move(item));
}

std::string ToString(const Attrs& attrs) {
  struct Print {
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const Shape& v) const { return weft::ToString(v); }
    std::string operator()(const Sharding& v) const { return weft::ToString(v); }
  };
  std::string text;
  for (const auto& item : attrs.items())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", item.name, std::visit(Print{}, item.value));
  return text;
}

}  // namespace weft
