#include "weft/train/config/config_value.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "fmt/format.h"
#include "weft/core/host/utf8.h"
#include "weft/train/config/optimizer_groups.h"
#include "weft/train/config/plan_value.h"
#include "weft/train/config/recompute_value.h"
#include "weft/train/io/yaml_value.h"

namespace weft {
namespace {

struct Setter {
  const Field& field;
  const YamlNode& node;
  const FieldRef& ref;

  ValueFault Expected(const YamlNode& wrong, const std::string& hint = "") const {
    return {fmt::format("expected {}, got {}{}", TypeText(field, ref), Shown(wrong), hint), &wrong};
  }
  std::optional<ValueFault> operator()(bool* out) const {
    if (node.kind != YamlNode::kScalar || node.quoted || (node.text != "true" && node.text != "false")) {
      bool word = node.kind == YamlNode::kScalar && !node.quoted;
      return Expected(node, word ? DidYouMean(node.text, {"true", "false"}) : "");
    }
    *out = node.text == "true";
    return std::nullopt;
  }
  std::optional<ValueFault> operator()(int64_t* out) const {
    if (field.word && node.kind == YamlNode::kScalar && node.text == field.word) {
      *out = field.word_value;
      return std::nullopt;
    }
    int64_t value = 0;
    if (!ReadNumber(node, value)) return Expected(node, IntegerHint(node));
    if (!Within(field.bounds, double(value))) return Expected(node);
    *out = value;
    return std::nullopt;
  }
  std::optional<ValueFault> operator()(double* out) const {
    double value = 0;
    if (!ReadNumber(node, value) || !Within(field.bounds, value)) return Expected(node, RealHint(node));
    *out = value;
    return std::nullopt;
  }
  std::optional<ValueFault> operator()(std::string* out) const {
    if (node.kind != YamlNode::kScalar || node.text.empty()) return Expected(node);
    if (field.choices.empty() && IsOfHome(node)) return Expected(node, HomeHint(node));
    if (!IsChoice(field.choices, node.text)) return Expected(node, DidYouMean(node.text, field.choices));
    *out = node.text;
    return std::nullopt;
  }
  std::optional<ValueFault> operator()(PathList* out) const {
    PathList paths;
    auto add = [&](const YamlNode& item) -> std::optional<ValueFault> {
      if (item.kind != YamlNode::kScalar || item.text.empty()) return Expected(item);
      if (IsOfHome(item)) return Expected(item, HomeHint(item));
      paths.push_back(item.text);
      return std::nullopt;
    };
    if (node.kind != YamlNode::kList) {
      if (std::optional<ValueFault> fault = add(node)) return fault;
    } else {
      for (const YamlNode& item : node.items)
        if (std::optional<ValueFault> fault = add(item)) return fault;
    }
    if (paths.empty()) return Expected(node, " that is empty");
    *out = std::move(paths);
    return std::nullopt;
  }
  std::optional<ValueFault> operator()(const TrainRef& train) const {
    auto is_map = [](const YamlNode& item) { return item.kind == YamlNode::kMap; };
    train.mixture->clear();
    if (node.kind != YamlNode::kList || std::none_of(node.items.begin(), node.items.end(), is_map))
      return (*this)(train.paths);
    if (node.items.size() > kMaxSources)
      return ValueFault{fmt::format("expected at most {} sources, got {}", kMaxSources, node.items.size()), &node};
    train.paths->clear();
    for (const YamlNode& item : node.items) {
      MixturePart part;
      if (std::optional<ValueFault> fault = ReadPart(item, part)) return fault;
      train.paths->insert(train.paths->end(), part.paths.begin(), part.paths.end());
      train.mixture->push_back(std::move(part));
    }
    return std::nullopt;
  }
  std::optional<ValueFault> ReadPart(const YamlNode& item, MixturePart& part) const {
    if (item.kind != YamlNode::kMap) return Expected(item, "; give all sources as {path: PATH}");
    auto read = [&](const YamlEntry& entry) { return ReadPartKey(entry, part); };
    if (std::optional<ValueFault> fault = ReadEntries(item, " of a source", read)) return fault;
    if (!part.paths.empty()) return std::nullopt;
    return ValueFault{"expected a path in each source, got one without; add path: PATH", &item};
  }
  std::optional<ValueFault> ReadPartKey(const YamlEntry& entry, MixturePart& part) const {
    constexpr double kMostWeight = 1e9, kLeastWeight = 1e-9;
    const YamlNode& value = entry.value;
    if (entry.key == "path") return Setter{field, value, ref}(&part.paths);
    if (entry.key == "weight") {
      if (ReadNumber(value, part.weight) && Within({.low = kLeastWeight, .high = kMostWeight}, part.weight))
        return std::nullopt;
      return ValueFault{fmt::format("expected the weight of a source as a number >= {} and <= {}, got {}", kLeastWeight,
                                    kMostWeight, Shown(value)),
                        &value};
    }
    if (entry.key == "field") {
      part.field = value.text;
      if (value.kind == YamlNode::kScalar && !value.text.empty()) return std::nullopt;
      return ValueFault{fmt::format("expected the field of a source as a string, got {}", Shown(value)), &value};
    }
    return ValueFault{fmt::format("{:?} is no key of a source, which has path, weight and field{}", entry.key,
                                  DidYouMean(entry.key, {"path", "weight", "field"})),
                      &value};
  }
  std::optional<ValueFault> operator()(std::vector<OptimizerGroup>* out) const { return ReadGroups(node, *out); }
  std::optional<ValueFault> operator()(PlanConfig* out) const { return ReadPlan(node, *out); }
  std::optional<ValueFault> operator()(RecomputeConfig* out) const { return ReadRecompute(node, *out); }
  std::optional<ValueFault> operator()(std::array<double, 2>* out) const {
    if (node.kind != YamlNode::kList) return Expected(node);
    if (node.items.size() != 2) return Expected(node, fmt::format(" of {}", node.items.size()));
    std::array<double, 2> values{};
    double* value = values.data();
    for (const YamlNode& item : node.items) {
      if (!ReadNumber(item, *value) || !Within(field.bounds, *value)) return Expected(item);
      value++;
    }
    *out = values;
    return std::nullopt;
  }
  std::optional<ValueFault> operator()(StepRange* out) const {
    if (node.kind != YamlNode::kList) return Expected(node);
    if (node.items.size() != 2) return Expected(node, fmt::format(" of {}", node.items.size()));
    StepRange steps;
    for (int64_t* step : {&steps.first, &steps.last}) {
      const YamlNode& item = step == &steps.first ? node.items.front() : node.items.back();
      if (!ReadNumber(item, *step) || !Within(field.bounds, double(*step))) return Expected(item);
    }
    *out = steps;
    return std::nullopt;
  }
  std::optional<ValueFault> operator()(ValSource* out) const {
    double fraction = 0;
    bool is_number = ReadNumber(node, fraction);
    if (is_number && !Within(field.bounds, fraction)) return Expected(node);
    *out = {.paths = {}, .fraction = is_number ? fraction : 0};
    return is_number ? std::nullopt : (*this)(&out->paths);
  }
  std::optional<ValueFault> operator()(const EnumRef& out) const {
    if (node.kind != YamlNode::kScalar) return Expected(node);
    for (size_t i = 0; i < out.names.size(); i++) {
      if (node.text != out.names[i]) continue;
      out.set(int(i));
      return std::nullopt;
    }
    return Expected(node, DidYouMean(node.text, {out.names.begin(), out.names.end()}));
  }
};

struct Printer {
  const Field& field;

  std::string operator()(bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(int64_t* value) const {
    if (field.word && *value == field.word_value) return field.word;
    return Within(field.bounds, double(*value)) ? fmt::format("{}", *value) : "";
  }
  std::string operator()(double* value) const { return fmt::format("{}", *value); }
  std::string operator()(std::string* value) const { return value->empty() ? "" : Quoted(*value); }
  std::string operator()(PathList* value) const {
    std::string list;
    for (const std::string& path : *value) list += (list.empty() ? "[" : ", ") + Quoted(path);
    return list.empty() ? "" : list + "]";
  }
  std::string operator()(const TrainRef& ref) const {
    std::string list;
    for (MixturePart& part : *ref.mixture)
      list += fmt::format("{}{{path: {}, weight: {}{}}}", list.empty() ? "[" : ", ", (*this)(&part.paths), part.weight,
                          part.field.empty() ? "" : ", field: " + Quoted(part.field));
    return list.empty() ? (*this)(ref.paths) : list + "]";
  }
  std::string operator()(std::vector<OptimizerGroup>* value) const { return PrintGroups(*value); }
  std::string operator()(PlanConfig* value) const { return PrintPlan(*value); }
  std::string operator()(RecomputeConfig* value) const { return PrintRecompute(*value); }
  std::string operator()(std::array<double, 2>* value) const {
    return fmt::format("[{}, {}]", (*value)[0], (*value)[1]);
  }
  std::string operator()(StepRange* value) const {
    return value->empty() ? "" : fmt::format("[{}, {}]", value->first, value->last);
  }
  std::string operator()(ValSource* value) const {
    if (value->empty()) return "";
    return value->paths.empty() ? fmt::format("{}", value->fraction) : (*this)(&value->paths);
  }
  std::string operator()(const EnumRef& ref) const { return ref.names[size_t(ref.get())]; }
};

}  // namespace

absl::StatusOr<YamlNode> WordValue(const std::string& key, const std::string& text) {
  if (size_t bad = InvalidUtf8(text); bad != text.npos)
    return absl::InvalidArgumentError(
        fmt::format("{}{}: expected UTF-8 text, got the byte 0x{:02x} at offset {}; rename the file if it is a path",
                    kCommandLine, key, uint8_t(text[bad]), bad));
  bool yaml = !text.empty() && std::string_view("[{'\"").find(text[0]) != std::string_view::npos;
  if (yaml) return ParseYaml(text, kCommandLine + key);
  YamlNode node{.kind = text.empty() ? YamlNode::kNull : YamlNode::kScalar};
  node.text = text;
  return node;
}

std::optional<ValueFault> SetValue(const Field& field, const YamlNode& node, Config& config) {
  return SetValue(field, field.ref(config), node);
}

std::optional<ValueFault> SetValue(const Field& field, FieldRef ref, const YamlNode& node) {
  return std::visit(Setter{field, node, ref}, ref);
}

std::string PrintValue(const Field& field, const Config& config) {
  if (field.absent && field.absent(config)) return "";
  // References are made for writing; printing only reads, so the const_cast is safe.
  return PrintValue(field, field.ref(const_cast<Config&>(config)));
}

std::string PrintValue(const Field& field, FieldRef ref) { return std::visit(Printer{field}, ref); }

}  // namespace weft
