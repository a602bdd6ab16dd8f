// The schema of the config: one row per key, with its type, bounds, default and help.
//
// The reader, the printer and the reference page of keys all use these rows.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "weft/core/host/bounds.h"
#include "weft/train/config/config.h"

namespace weft {

// Accesses an enum member by names, so that one code path reads and prints all enums.
struct EnumRef {
  std::span<const char* const> names;
  std::function<int()> get;
  std::function<void(int)> set;
};

// data.train: paths, or the sources of a mixture and all of their paths.
struct TrainRef {
  PathList* paths;
  std::vector<MixturePart>* mixture;
};

using FieldRef =
    std::variant<bool*, int64_t*, double*, std::string*, PathList*, std::array<double, 2>*, ValSource*, StepRange*,
                 TrainRef, EnumRef, std::vector<OptimizerGroup>*, PlanConfig*, RecomputeConfig*>;

struct Field {
  const char* key = nullptr;  // "optimizer.lr"
  std::function<FieldRef(Config&)> ref = nullptr;
  const char* help = nullptr;
  Bounds bounds = {};
  const char* word = nullptr;                  // an integer may also be this word ("auto"),
  int64_t word_value = 0;                      // which stands for this value
  std::vector<std::string> choices = {};       // of a string; one that ends in ':' accepts any text after it
  const char* type_text = nullptr;             // type shown in the docs, for choices that may grow
  bool (*not_built)(const Config&) = nullptr;  // the value is legal, but this version refuses it;
  const char* instead = nullptr;               // what to use instead
  bool per_rank = false;                       // ranks may differ in it, because it affects no number and no collective
  const char* default_text = nullptr;          // if the default is derived or the key is required
  // Whether the config lacks this value, because the key belongs to another family, or each optimizer uses its own
  // default.
  std::function<bool(const Config&)> absent = nullptr;
};

std::span<const Field> Schema();
const Field* FindField(std::string_view key);
// Returns the sections in order; "" holds the top-level keys.
std::vector<std::string> SectionNames();
// Returns the full keys of one section.
std::vector<std::string> KeysOf(std::string_view section);

// Returns "integer >= 1" or "one of gpt2, llama", for errors and the docs.
std::string TypeText(const Field& field);
std::string TypeText(const Field& field, const FieldRef& ref);  // for a value that is not a config key
std::string DefaultText(const Field& field);

}  // namespace weft
