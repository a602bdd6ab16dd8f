#include "parallel/train/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "core/base/hash.h"
#include "fmt/format.h"
#include "parallel/train/json_object.h"
#include "parallel/train/path_advice.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read as they lie on disk");

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Bytes = std::span<const std::byte>;

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // as in the reference reader

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

absl::Status Bad(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, what));
}

// A tensor of the header, with the place of its data behind it.
struct Listed {
  std::string name;
  StoredTensor tensor;
  uint64_t begin = 0, end = 0;
};

// The whole numbers of an array, all below 2^63; none when it is something else.
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

absl::StatusOr<Listed> ReadEntry(const std::string& path, const std::string& name, const Json& info) {
  auto bad = [&](const std::string& what) {
    return Bad(path, fmt::format("tensor {}: {}; make the file again", Shown(name), what));
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
  StoredTensor tensor{path, type->name, type->dtype, Shape(shape->begin(), shape->end()), {}};
  return Listed{name, std::move(tensor), uint64_t((*ends)[0]), uint64_t((*ends)[1])};
}

absl::Status CheckMetadata(const std::string& path, const Json& metadata) {
  bool strings = metadata.is_object() &&
                 std::all_of(metadata.begin(), metadata.end(), [](const Json& value) { return value.is_string(); });
  if (strings) return absl::OkStatus();
  return Bad(path, fmt::format("expected __metadata__ to be an object of strings, got {}; make the file again",
                               Shown(metadata)));
}

// The tensors of a header, whose data fill `bytes` without holes or overlaps.
absl::StatusOr<std::vector<Listed>> ReadHeader(const std::string& path, Bytes header, uint64_t bytes) {
  absl::StatusOr<Json> json = ParseJsonObject(header, path);
  if (!json.ok()) return json.status();
  std::vector<Listed> tensors;
  for (const auto& [name, info] : json->items()) {
    if (name == "__metadata__") {
      if (absl::Status status = CheckMetadata(path, info); !status.ok()) return status;
      continue;
    }
    absl::StatusOr<Listed> tensor = ReadEntry(path, name, info);
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*std::move(tensor));
  }
  auto place = [](const Listed& t) { return std::pair(t.begin, t.end); };
  std::sort(tensors.begin(), tensors.end(), [&](const Listed& a, const Listed& b) { return place(a) < place(b); });
  uint64_t end = 0;
  for (const Listed& tensor : tensors) {
    if (tensor.begin != end)
      return Bad(path, fmt::format("tensor {}: expected its data at byte {}, behind those before it, got {}; make the "
                                   "file again",
                                   Shown(tensor.name), end, tensor.begin));
    end = tensor.end;
  }
  if (end != bytes)
    return Bad(path, fmt::format("expected {} bytes of data, as the header says, got {}; copy or make the file again",
                                 end, bytes));
  return tensors;
}

// The bytes of the header; what follows them is data.
absl::StatusOr<uint64_t> HeaderBytes(const std::string& path, Bytes file) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (file.size() >= kPointer.size() && std::memcmp(file.data(), kPointer.data(), kPointer.size()) == 0)
    return Bad(path, "expected a safetensors file, got a pointer of Git LFS to one; fetch it with git lfs pull");
  uint64_t size = 0;
  if (file.size() < sizeof size)
    return Bad(path,
               fmt::format("expected a safetensors file, got a file of {} bytes; copy or make it again", file.size()));
  std::memcpy(&size, file.data(), sizeof size);
  if (size > kMostHeaderBytes)
    return Bad(path, fmt::format("expected a safetensors file, which begins with the size of its header, at most {}, "
                                 "got {}; is this another kind of file?",
                                 kMostHeaderBytes, size));
  if (size > file.size() - sizeof size)
    return Bad(path, fmt::format("expected a header of {} bytes behind the first 8, got a file of {}; copy or make it "
                                 "again",
                                 size, file.size()));
  if (size == 0 || file[sizeof size] != std::byte('{'))
    return Bad(path, "expected a header that begins with {, got something else; is this another kind of file?");
  return size;
}

}  // namespace

absl::Status Safetensors::AddFile(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  Bytes bytes = (*file)->bytes();
  absl::StatusOr<uint64_t> header = HeaderBytes(path, bytes);
  if (!header.ok()) return header.status();
  Bytes data = bytes.subspan(sizeof(uint64_t) + *header);
  absl::StatusOr<std::vector<Listed>> listed = ReadHeader(path, bytes.subspan(sizeof(uint64_t), *header), data.size());
  if (!listed.ok()) return listed.status();
  files_.push_back(*std::move(file));
  for (Listed& t : *listed) {
    t.tensor.data = data.subspan(t.begin, t.end - t.begin);
    auto [there, fresh] = tensors_.emplace(t.name, std::move(t.tensor));
    if (!fresh)
      return Bad(path,
                 fmt::format("tensor {} is in {} too; remove one of the files", Shown(t.name), there->second.file));
  }
  return absl::OkStatus();
}

absl::Status Safetensors::AddIndex(const std::string& index) {
  absl::StatusOr<Json> json = ReadJsonObject(index);
  if (!json.ok()) return json.status();
  auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object() || map->empty())
    return Bad(index, "expected a weight_map of tensors to files, got none; make the index again");
  std::map<std::string, std::string> file_of;
  std::set<std::string> names;
  for (const auto& [tensor, name] : map->items()) {
    bool plain = name.is_string() && fs::path(name.get<std::string>()).filename() == name.get<std::string>();
    if (!plain)
      return Bad(index, fmt::format("tensor {}: expected the name of a file in the same folder, got {}; make the index "
                                    "again",
                                    Shown(tensor), Shown(name)));
    file_of[tensor] = (fs::path(index).parent_path() / name.get<std::string>()).string();
    names.insert(file_of[tensor]);
  }
  for (const std::string& name : names)
    if (absl::Status status = AddFile(name); !status.ok()) return status;
  for (const auto& [tensor, name] : file_of)
    if (auto found = tensors_.find(tensor); found == tensors_.end() || found->second.file != name)
      return Bad(name, fmt::format("expected tensor {}, as {} says, got none; copy or make the files again",
                                   Shown(tensor), index));
  for (const auto& [tensor, stored] : tensors_)
    if (!file_of.contains(tensor))
      return Bad(stored.file,
                 fmt::format("tensor {} is not in {}; copy or make the files again", Shown(tensor), index));
  return absl::OkStatus();
}

absl::StatusOr<Safetensors> Safetensors::Open(const std::string& path) {
  Safetensors weights;
  weights.path_ = path;
  std::error_code error;
  if (!fs::exists(path, error)) return Bad(path, "no such file or folder" + PathAdvice(path));
  std::string whole = (fs::path(path) / "model.safetensors").string(), index = whole + ".index.json";
  absl::Status status;
  if (!fs::is_directory(path, error)) {
    status = weights.AddFile(path);
  } else if (fs::exists(whole, error)) {
    status = weights.AddFile(whole);
  } else if (fs::exists(index, error)) {
    status = weights.AddIndex(index);
  } else {
    status = Bad(path,
                 "expected model.safetensors or model.safetensors.index.json in this folder, got neither; save the "
                 "model as safetensors");
  }
  if (!status.ok()) return status;
  return weights;
}

uint64_t Safetensors::Hash() const {
  constexpr size_t kSamples = 8, kBytes = 64;
  StableHash hash;
  for (const auto& [name, tensor] : tensors_) {
    hash.Mix(name);
    hash.Mix(tensor.type);
    hash.Mix(ToString(tensor.shape));
    for (size_t i = 0; i < kSamples; i++) {
      size_t begin = tensor.data.size() / kSamples * i, size = std::min(kBytes, tensor.data.size() - begin);
      hash.Mix({reinterpret_cast<const char*>(tensor.data.data()) + begin, size});
    }
  }
  return hash.value();
}

}  // namespace weft
