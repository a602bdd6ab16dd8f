// The schema of the config: one row a key, with its type, bounds, default and help.
//
// The reader, the printer and the README's table all walk these rows; a row is all that a new key needs.
#pragma once
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// An enum member behind its names, so that one code path reads and prints all enums.
struct EnumRef {
  std::span<const char* const> names;
  std::function<int()> get;
  std::function<void(int)> set;
};

// data.train: paths, or the parts of a mixture and all of their paths.
struct TrainRef {
  PathList* paths;
  std::vector<MixturePart>* mixture;
};

using FieldRef = std::variant<bool*, int64_t*, double*, std::string*, PathList*, std::array<double, 2>*, ValSource*,
                              StepRange*, TrainRef, EnumRef, std::vector<OptimizerGroup>*, PlanConfig*>;

// Inclusive bounds unless open.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
};

struct Field {
  const char* key = nullptr;  // "optimizer.lr"
  std::function<FieldRef(Config&)> ref = nullptr;
  const char* help = nullptr;
  Bounds bounds = {};
  const char* word = nullptr;                  // an integer may also be this word ("auto"),
  int64_t word_value = 0;                      //   which means this value
  std::vector<std::string> choices = {};       // of a string; one that ends in ':' takes anything after it
  const char* type_text = nullptr;             // for docs, where the choices may grow
  bool (*not_built)(const Config&) = nullptr;  // the value is legal, but this version refuses it;
  const char* instead = nullptr;               //   what to do meanwhile
  bool per_rank = false;                       // ranks may differ in it: it changes no number and no collective
  const char* default_text = nullptr;          // where the default is derived or the key is required
  // The config has no such value: the key is another family's, or each optimizer has a default of its own.
  std::function<bool(const Config&)> absent = nullptr;
};

std::span<const Field> Schema();
const Field* FindField(std::string_view key);
// The sections in order, "" for the keys at the top level.
std::vector<std::string> SectionNames();
// The full keys of one section.
std::vector<std::string> KeysOf(std::string_view section);

// "integer >= 1", "one of gpt2, llama": what an error says was expected, and what README shows.
std::string TypeText(const Field& field);
std::string TypeText(const Field& field, const FieldRef& ref);  // for a value that is no key of the config
std::string DefaultText(const Field& field);

// All keys as the Markdown table that README holds.
std::string ConfigMarkdown();

}  // namespace weft
