#include "weft/train/huggingface/hf_names.h"

#include <algorithm>

#include "fmt/format.h"
#include "weft/core/base/error.h"

namespace weft {
namespace hf_families {
#define WEFT_HF_FAMILY(name) extern const HfFamily name;
#include "hf_families.inc"
#undef WEFT_HF_FAMILY
}  // namespace hf_families

namespace {

constexpr const HfFamily* kFamilies[] = {
#define WEFT_HF_FAMILY(name) &hf_families::name,
#include "hf_families.inc"
#undef WEFT_HF_FAMILY
};

// Returns "7" if `pattern` is "blocks.*.attn" and `path` is "blocks.7.attn", "" if the two are equal, or none.
std::optional<std::string> MatchBlock(std::string_view pattern, std::string_view path) {
  size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == path ? std::optional("") : std::nullopt;
  std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (path.size() <= head.size() + tail.size() || !path.starts_with(head) || !path.ends_with(tail)) return std::nullopt;
  std::string number(path.substr(head.size(), path.size() - head.size() - tail.size()));
  return number.find_first_not_of("0123456789") == number.npos ? std::optional(number) : std::nullopt;
}

std::string WithBlock(std::string name, const std::string& number) {
  if (size_t star = name.find('*'); star != name.npos) name.replace(star, 1, number);
  return name;
}

// Returns the index after the last of their elements that the parameter uses.
int64_t EndOf(const HfPlace& place, const Shape& ours) {
  int64_t last = place.offset + (place.copies - 1) * place.copy_stride;
  for (size_t d = 0; d < ours.size(); d++) last += (ours[d] - 1) * place.strides[d];
  return last + 1;
}

// Goes through their dims from last to first, and through the letters of each dim from last to first. The stride of a
// letter is the product of the extents of all letters after it.
HfPlace Lay(const HfRow& row, const Shape& ours, int64_t heads) {
  std::string_view dims = row.dims, layout = row.layout;
  HfPlace place{.strides = Shape(ours.size())};
  int64_t extent = 1, stride = 1;
  auto close_dim = [&] {
    place.shape.insert(place.shape.begin(), extent);
    extent = 1;
  };
  for (auto letter = layout.rbegin(); letter != layout.rend(); ++letter) {
    if (*letter == ',') {
      close_dim();
      continue;
    }
    if (*letter == 'p') {
      place.offset += row.part * stride;
      stride *= row.parts;
      extent *= row.parts;
      continue;
    }
    bool repeated = *letter == 'h' && dims.find('h') == dims.npos;
    size_t d = dims.find(repeated ? 'g' : *letter);
    if (repeated) {
      WEFT_CHECK(heads % ours[d] == 0,
                 fmt::format("{}: {} heads are no groups for {} key-value heads", row.parameter, heads, ours[d]));
      place.copies = heads / ours[d];
      place.copy_stride = stride;
    }
    int64_t copies = repeated ? place.copies : 1;
    place.strides[d] = stride * copies;
    stride *= ours[d] * copies;
    extent *= ours[d] * copies;
  }
  close_dim();
  return place;
}

}  // namespace

std::span<const HfFamily* const> HfFamilies() { return kFamilies; }

std::string HfFamilyNames() {
  std::string names;
  for (size_t i = 0; i < std::size(kFamilies); i++)
    names += (i == 0 ? "" : i + 1 < std::size(kFamilies) ? ", " : " or ") + std::string(kFamilies[i]->family);
  return names;
}

const HfFamily* FindHfFamily(std::string_view family) {
  for (const HfFamily* hf : kFamilies)
    if (family == hf->family) return hf;
  return nullptr;
}

std::string HfRefusal(const HfFamily& family, const ModelConfig& model) {
  for (const HfFixed& f : family.fixed)
    if (f.value(model) != f.must)
      return fmt::format("{}: expected {}, as transformers' models of family {} have it, got {}", f.ours, f.must,
                         family.family, f.value(model));
  return "";
}

bool HfFamily::Compares(std::string_view key) const {
  auto is = [&](const auto& row) { return row.key == key; };
  return std::ranges::any_of(numbers, is) || std::ranges::any_of(sizes, is) || std::ranges::any_of(words, is);
}

HfPlace PlaceOfRow(const HfRow& row, const std::string& parameter, const Shape& shape, int64_t heads) {
  WEFT_CHECK(std::string_view(row.dims).size() == shape.size(),
             fmt::format("{} is {}, but its row has the dims \"{}\"", parameter, ToString(shape), row.dims));
  HfPlace place = Lay(row, shape, heads);
  place.tensor = row.tensor;
  WEFT_CHECK(EndOf(place, shape) <= NumElements(place.shape),
             fmt::format("{}: {} {} would end at element {} of {}", place.tensor, parameter, ToString(shape),
                         EndOf(place, shape), ToString(place.shape)));
  return place;
}

std::optional<HfPlace> PlaceInHf(const HfFamily& family, const std::string& parameter, const Shape& shape,
                                 int64_t heads) {
  for (const HfRow& row : family.rows) {
    std::optional<std::string> number = MatchBlock(row.parameter, parameter);
    if (!number) continue;
    HfPlace place = PlaceOfRow(row, parameter, shape, heads);
    place.tensor = WithBlock(row.tensor, *number);
    return place;
  }
  return std::nullopt;
}

}  // namespace weft
