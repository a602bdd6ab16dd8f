#include "weft/train/huggingface/torch_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <string_view>

#include "weft/core/base/error.h"
#include "weft/parallel/nn/layers/attention.h"

namespace weft {
namespace {

// The rows of an nn::MultiHeadAttention. The letters are those of HfRow; c also stands for kdim and vdim.
constexpr HfRow kPacked[] = {
    {"q.weight", "chd", "in_proj_weight", "phd,c", 0, 3},
    {"k.weight", "chd", "in_proj_weight", "phd,c", 1, 3},
    {"v.weight", "chd", "in_proj_weight", "phd,c", 2, 3},
};
constexpr HfRow kSeparate[] = {
    {"q.weight", "chd", "q_proj_weight", "hd,c"},
    {"k.weight", "chd", "k_proj_weight", "hd,c"},
    {"v.weight", "chd", "v_proj_weight", "hd,c"},
};
constexpr HfRow kOfBoth[] = {
    {"q.bias", "hd", "in_proj_bias", "phd", 0, 3}, {"k.bias", "hd", "in_proj_bias", "phd", 1, 3},
    {"v.bias", "hd", "in_proj_bias", "phd", 2, 3}, {"proj.weight", "hdc", "out_proj.weight", "c,hd"},
    {"proj.bias", "c", "out_proj.bias", "c"},
};

// Returns what follows the module's path in a path inside of it.
std::string Within(const std::string& path, const std::string& module) {
  return module.empty() ? path : path.substr(module.size() + 1);
}
bool IsWithin(const std::string& path, const std::string& module) {
  return module.empty() || path.starts_with(module + ".");
}

const HfRow& RowOf(const nn::MultiHeadAttention& attention, const std::string& name) {
  for (std::span<const HfRow> rows :
       {std::span<const HfRow>(attention.packed() ? kPacked : kSeparate), std::span<const HfRow>(kOfBoth)})
    for (const HfRow& row : rows)
      if (name == row.parameter) return row;
  Fail(fmt::format("{}: PyTorch's MultiheadAttention has no such parameter", name));
}

HfPlace OfAttention(const nn::MultiHeadAttention& attention, const Parameter& parameter, const std::string& within) {
  const HfRow& row = RowOf(attention, Within(parameter.path(), attention.path()));
  HfPlace place = PlaceOfRow(row, parameter.path(), parameter.shape(), attention.num_heads());
  place.tensor = within + place.tensor;
  return place;
}

// Whether the parameter is the weight [in, out] of an nn::Linear.
bool HasInputsFirst(const Module& module, const Parameter& parameter) {
  for (const Module* m : module.Modules())
    if (auto* linear = dynamic_cast<const nn::Linear*>(m);
        linear && IsWithin(parameter.path(), m->path()) && Within(parameter.path(), m->path()) == "weight")
      return linear->summed_dims() == 1;
  return false;
}

}  // namespace

HfPlace PlaceInTorch(const Module& module, const Parameter& parameter) {
  std::string name = Within(parameter.path(), module.path());
  for (const Module* m : module.Modules())
    if (auto* attention = dynamic_cast<const nn::MultiHeadAttention*>(m);
        attention && IsWithin(parameter.path(), m->path()))
      return OfAttention(*attention, parameter,
                         m->path() == module.path() ? "" : Within(m->path(), module.path()) + ".");
  size_t rank = parameter.shape().size();
  if (rank == 2 && HasInputsFirst(module, parameter))
    return PlaceOfRow({"", "io", name.c_str(), "o,i"}, parameter.path(), parameter.shape(), 1);
  constexpr std::string_view kLetters = "abcdefg";
  WEFT_CHECK(rank <= kLetters.size(), fmt::format("{}: expected at most {} dims, got {}", parameter.path(),
                                                  kLetters.size(), ToString(parameter.shape())));
  std::string dims(kLetters.substr(0, rank)), layout = fmt::format("{}", fmt::join(dims, ","));
  return PlaceOfRow({"", dims.c_str(), name.c_str(), layout.c_str()}, parameter.path(), parameter.shape(), 1);
}

}  // namespace weft
