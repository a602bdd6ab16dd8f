#include "weft/train/checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "weft/train/io/bad_input.h"
#include "weft/train/io/json_object.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using Tensors = std::map<std::string, ListedTensor>;

constexpr std::string_view kMetadata = "__metadata__";

struct Type {
  const char* name;
  int64_t size;
  std::optional<DType> dtype = {};
};
const Type kTypes[] = {{"F64", 8, DType::kF64},
                       {"F32", 4, DType::kF32},
                       {"BF16", 2, DType::kBF16},
                       {"F16", 2, DType::kF16},
                       {"I64", 8},
                       {"U64", 8},
                       {"I32", 4},
                       {"U32", 4},
                       {"I16", 2},
                       {"U16", 2},
                       {"I8", 1},
                       {"U8", 1},
                       {"BOOL", 1},
                       {"F8_E4M3", 1},
                       {"F8_E5M2", 1},
                       {"F8_E8M0", 1},
                       {"C64", 8}};

// Returns the integers of an array, or none unless all are integers from 0 up to 2^63 - 1.
std::optional<std::vector<int64_t>> WholeNumbers(const Json& info, const char* key) {
  auto found = info.find(key);
  if (found == info.end() || !found->is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Json& item : *found) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()))
      return std::nullopt;
    numbers.push_back(item.get<int64_t>());
  }
  return numbers;
}

std::optional<int64_t> BytesOf(const std::vector<int64_t>& shape, int64_t element) {
  int64_t bytes = element;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

absl::StatusOr<ListedTensor> ReadEntry(const std::string& path, const std::string& name, const Json& info) {
  auto bad = [&](const std::string& what) {
    return BadInput(path, fmt::format("tensor {}: {}; make the file again", Shown(name), what));
  };
  if (!info.is_object()) return bad(fmt::format("expected an object with dtype and shape, got {}", Shown(info)));
  auto type_name = info.find("dtype");
  auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                           [&](const Type& t) { return type_name != info.end() && *type_name == t.name; });
  if (type == std::end(kTypes))
    return bad(fmt::format("expected a dtype such as F32 or BF16, got {}",
                           type_name == info.end() ? "none" : Shown(*type_name)));
  std::optional<std::vector<int64_t>> shape = WholeNumbers(info, "shape"), ends = WholeNumbers(info, "data_offsets");
  if (!shape) return bad(fmt::format("expected a shape of whole numbers, got {}", Shown(info)));
  if (!ends || ends->size() != 2 || (*ends)[0] > (*ends)[1])
    return bad(fmt::format("expected data_offsets [begin, end], got {}", Shown(info)));
  std::optional<int64_t> bytes = BytesOf(*shape, type->size);
  if (bytes != (*ends)[1] - (*ends)[0])
    return bad(fmt::format("expected as many bytes as its shape and dtype want, {}, got {}",
                           bytes ? fmt::format("{}", *bytes) : "more than 2^63", (*ends)[1] - (*ends)[0]));
  return ListedTensor{type->name, type->dtype, Shape(shape->begin(), shape->end()), uint64_t((*ends)[0]),
                      uint64_t((*ends)[1])};
}

// Reads the header one member at a time, with a tree of values for one tensor only. A tree of the whole header would
// take 15 times its bytes. Requires that CheckJson has accepted the text.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Value(value); }
  bool number_unsigned(number_unsigned_t value) override { return Value(value); }
  bool number_float(number_float_t value, const string_t&) override { return Value(value); }
  bool string(string_t& value) override { return Value(value); }
  bool binary(binary_t&) override { return Value(nullptr); }
  bool start_object(size_t) override { return Begin(Json::object()); }
  bool start_array(size_t) override { return Begin(Json::array()); }
  bool end_object() override { return End(); }
  bool end_array() override { return End(); }
  bool key(string_t& name) override {
    (depth_ == 1 ? name_ : key_) = name;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    return Fails(BadInput(path_, FaultOf(error)));
  }

  absl::Status status;
  Tensors tensors;

 private:
  static constexpr int kMaxValues = 256;  // per tensor, so that its tree stays small

  bool Fails(absl::Status fault) {
    status = std::move(fault);
    return false;
  }
  bool InMetadata() const { return name_ == kMetadata; }
  bool BadMetadata(const std::string& got) {
    return Fails(BadInput(
        path_, fmt::format("expected __metadata__ to be an object of strings, got {}; make the file again", got)));
  }

  bool Begin(Json container) {
    depth_++;
    if (depth_ == 1) return true;
    if (!InMetadata()) return Place(std::move(container), /*open=*/true);
    if (depth_ > 2) return BadMetadata(Shown(Json{{key_, container}}));
    return container.is_object() || BadMetadata("a list");
  }
  bool Value(Json value) {
    if (!InMetadata()) return Place(std::move(value), /*open=*/false);
    if (depth_ == 1) return BadMetadata(Shown(value));
    return value.is_string() || BadMetadata(Shown(Json{{key_, value}}));
  }
  bool End() {
    depth_--;
    if (!open_.empty()) open_.pop_back();
    return depth_ != 1 || InMetadata() || Member();
  }

  // Stores a value at its position in the tree of the current member.
  bool Place(Json value, bool open) {
    if (open_.empty()) {
      member_ = std::move(value), values_ = 0;
      if (!open) return Member();
      open_.push_back(&member_);
      return true;
    }
    if (++values_ > kMaxValues)
      return Fails(
          BadInput(path_, fmt::format("tensor {}: expected a dtype, a shape and data_offsets, got more than {} "
                                      "values; make the file again",
                                      Shown(name_), kMaxValues)));
    Json& into = *open_.back();
    Json& placed = into.is_array() ? into.emplace_back(std::move(value)) : into[key_] = std::move(value);
    if (open) open_.push_back(&placed);
    return true;
  }
  bool Member() {
    absl::StatusOr<ListedTensor> tensor = ReadEntry(path_, name_, member_);
    if (!tensor.ok()) return Fails(tensor.status());
    tensors.emplace(name_, *std::move(tensor));
    return true;
  }

  const std::string& path_;
  int depth_ = 0, values_ = 0;
  std::string name_, key_;  // the key of the header's member, and the key within that
  Json member_;
  std::vector<Json*> open_;  // the lists and objects of member_ that are still open
};

absl::Status CheckPlaces(const std::string& path, const Tensors& tensors, uint64_t bytes) {
  std::vector<const Tensors::value_type*> order;
  order.reserve(tensors.size());
  for (const auto& tensor : tensors) order.push_back(&tensor);
  auto place = [](const auto* t) { return std::pair(t->second.begin, t->second.end); };
  std::sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return place(a) < place(b); });
  uint64_t end = 0;
  for (const auto* t : order) {
    const auto& [name, tensor] = *t;
    if (tensor.begin != end)
      return BadInput(path,
                      fmt::format("tensor {}: expected its data at byte {}, after those before it, got {}; make the "
                                  "file again",
                                  Shown(name), end, tensor.begin));
    end = tensor.end;
  }
  if (end == bytes) return absl::OkStatus();
  return BadInput(
      path,
      fmt::format("expected {} bytes of data, as the header says, got {}; copy or make the file again", end, bytes));
}

}  // namespace

absl::StatusOr<Tensors> ReadSafetensorsHeader(const std::string& path, std::span<const std::byte> header,
                                              uint64_t data_bytes) {
  if (absl::Status checked = CheckJson(header, path); !checked.ok()) return checked;
  HeaderReader reader(path);
  const char* text = reinterpret_cast<const char*>(header.data());
  Json::sax_parse(text, text + header.size(), &reader);
  if (!reader.status.ok()) return reader.status;
  if (absl::Status status = CheckPlaces(path, reader.tensors, data_bytes); !status.ok()) return status;
  return std::move(reader.tensors);
}

}  // namespace weft
