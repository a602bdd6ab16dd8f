#include "weft/train/checkpoint/safetensors.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "fmt/format.h"
#include "weft/core/base/hash.h"
#include "weft/train/checkpoint/safetensors_header.h"
#include "weft/train/io/bad_input.h"
#include "weft/train/io/json_object.h"
#include "weft/train/io/path_advice.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read as they lie on disk");

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Bytes = std::span<const std::byte>;

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // as in the reference implementation

// Returns the size of the header in bytes. The data follows it.
absl::StatusOr<uint64_t> HeaderBytes(const std::string& path, Bytes file) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (file.size() >= kPointer.size() && std::memcmp(file.data(), kPointer.data(), kPointer.size()) == 0)
    return BadInput(path, "expected a safetensors file, got a pointer of Git LFS to one; fetch it with git lfs pull");
  uint64_t size = 0;
  if (file.size() < sizeof size)
    return BadInput(
        path, fmt::format("expected a safetensors file, got a file of {} bytes; copy or make it again", file.size()));
  std::memcpy(&size, file.data(), sizeof size);
  if (size > kMostHeaderBytes)
    return BadInput(path,
                    fmt::format("expected a safetensors file, which begins with the size of its header, at most {}, "
                                "got {}; is this another kind of file?",
                                kMostHeaderBytes, size));
  if (size > file.size() - sizeof size)
    return BadInput(path,
                    fmt::format("expected a header of {} bytes after the first 8, got a file of {}; copy or make it "
                                "again",
                                size, file.size()));
  if (size == 0 || file[sizeof size] != std::byte('{'))
    return BadInput(path, "expected a header that begins with {, got something else; is this another kind of file?");
  return size;
}

}  // namespace

absl::Status Safetensors::AddFile(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  Bytes bytes = (*file)->bytes();
  absl::StatusOr<uint64_t> header = HeaderBytes(path, bytes);
  if (absl::Status s = (*file)->Fault(); !s.ok()) return s;
  if (!header.ok()) return header.status();
  Bytes data = bytes.subspan(sizeof(uint64_t) + *header);
  absl::StatusOr<std::map<std::string, ListedTensor>> listed =
      ReadSafetensorsHeader(path, bytes.subspan(sizeof(uint64_t), *header), data.size());
  if (absl::Status s = (*file)->Fault(); !s.ok()) return s;
  if (!listed.ok()) return listed.status();
  std::string_view name_of_file = (*file)->path();
  files_.push_back(*std::move(file));
  while (!listed->empty()) {  // one by one, so that a long header is not held twice
    auto [name, t] = *listed->begin();
    listed->erase(listed->begin());
    StoredTensor stored{name_of_file, t.type, t.dtype, t.shape, data.subspan(t.begin, t.end - t.begin)};
    auto [there, fresh] = tensors_.emplace(name, std::move(stored));
    if (!fresh)
      return BadInput(path,
                      fmt::format("tensor {} is in {} too; remove one of the files", Shown(name), there->second.file));
  }
  return absl::OkStatus();
}

absl::Status Safetensors::AddIndex(const std::string& index) {
  absl::StatusOr<Json> json = ReadJsonObject(index);
  if (!json.ok()) return json.status();
  auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object() || map->empty())
    return BadInput(index, "expected a weight_map of tensors to files, got none; make the index again");
  std::map<std::string, std::string> file_of;
  std::set<std::string> names;
  for (const auto& [tensor, name] : map->items()) {
    bool plain = name.is_string() && fs::path(name.get<std::string>()).filename() == name.get<std::string>();
    if (!plain)
      return BadInput(index,
                      fmt::format("tensor {}: expected the name of a file in the same folder, got {}; make the index "
                                  "again",
                                  Shown(tensor), Shown(name)));
    file_of[tensor] = (fs::path(index).parent_path() / name.get<std::string>()).string();
    names.insert(file_of[tensor]);
  }
  for (const std::string& name : names)
    if (absl::Status status = AddFile(name); !status.ok()) return status;
  for (const auto& [tensor, name] : file_of)
    if (auto found = tensors_.find(tensor); found == tensors_.end() || found->second.file != name)
      return BadInput(name, fmt::format("expected tensor {}, as {} says, got none; copy or make the files again",
                                        Shown(tensor), index));
  for (const auto& [tensor, stored] : tensors_)
    if (!file_of.contains(tensor))
      return BadInput(std::string(stored.file),
                      fmt::format("tensor {} is not in {}; copy or make the files again", Shown(tensor), index));
  return absl::OkStatus();
}

absl::StatusOr<Safetensors> Safetensors::Open(const std::string& path) {
  Safetensors weights;
  weights.path_ = path;
  std::error_code error;
  if (!fs::exists(path, error)) return BadInput(path, "no such file or folder" + PathAdvice(path));
  std::string whole = (fs::path(path) / "model.safetensors").string(), index = whole + ".index.json";
  absl::Status status;
  if (!fs::is_directory(path, error)) {
    status = weights.AddFile(path);
  } else if (fs::exists(whole, error)) {
    status = weights.AddFile(whole);
  } else if (fs::exists(index, error)) {
    status = weights.AddIndex(index);
  } else {
    status =
        BadInput(path,
                 "expected model.safetensors or model.safetensors.index.json in this folder, got neither; save the "
                 "model as safetensors");
  }
  if (!status.ok()) return status;
  return weights;
}

absl::Status Safetensors::Fault() const {
  for (const std::shared_ptr<const MappedFile>& file : files_)
    if (absl::Status s = file->Fault(); !s.ok()) return s;
  return absl::OkStatus();
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
