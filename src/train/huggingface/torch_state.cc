#include "weft/train/huggingface/torch_state.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "weft/core/host/suggest.h"
#include "weft/parallel/step/sharded_model.h"
#include "weft/train/checkpoint/safetensors_writer.h"
#include "weft/train/huggingface/initial_weights.h"
#include "weft/train/huggingface/torch_names.h"
#include "weft/train/io/durable.h"

namespace weft {
namespace {

// A parameter's tensor in a file.
struct Part {
  const Parameter* parameter;
  HfPlace place;
};
using Parts = std::map<std::string, std::vector<Part>>;  // by tensor
Parts PartsOf(const Module& module, const std::string& prefix) {
  Parts parts;
  for (const Parameter* p : module.Parameters()) {
    HfPlace place = PlaceInTorch(module, *p);
    std::string tensor = prefix + place.tensor;
    parts[tensor].push_back({p, std::move(place)});
  }
  return parts;
}

// Checks that the file has the module's tensors and, under the prefix, no others.
void CheckTensors(const Parts& parts, const Safetensors& files, const std::string& prefix, const std::string& who) {
  std::vector<std::string> missing, rest;
  for (const auto& [name, of] : parts)
    if (!files.tensors().contains(name)) missing.push_back(name);
  for (const auto& [name, tensor] : files.tensors())
    if (name.starts_with(prefix) && !parts.contains(name)) rest.push_back(name);
  WEFT_CHECK(
      missing.empty() && rest.empty(),
      fmt::format("{}: {}: expected the tensors of the module, {}{}{}; build the module with the sizes, the bias "
                  "and the norms that PyTorch's has, or give the prefix of its names",
                  who, files.path(), missing.empty() ? "" : "got none named " + FirstFew(missing),
                  missing.empty() || rest.empty() ? "" : ", and ", rest.empty() ? "" : "got also " + FirstFew(rest)));
  for (const auto& [name, of] : parts) {
    const StoredTensor& tensor = files.tensors().at(name);
    const Part& first = of.front();
    WEFT_CHECK(
        tensor.shape == first.place.shape,
        fmt::format("{}: {}: tensor {}: expected {} for {}, got {}; build the module with PyTorch's sizes", who,
                    tensor.file, name, ToString(first.place.shape), first.parameter->path(), ToString(tensor.shape)));
    WEFT_CHECK(tensor.dtype, fmt::format("{}: {}: tensor {}: expected F64, F32, BF16 or F16, got {}; convert it", who,
                                         tensor.file, name, tensor.type));
  }
}

// Writes the elements of a parameter to their places in the bytes of its tensor.
void Lay(const Tensor& value, const HfPlace& place, std::span<std::byte> bytes) {
  size_t size = SizeOf(value.dtype());
  const auto* from = value.as<const std::byte>();
  for (int64_t i = 0; i < value.num_elements(); i++) {
    int64_t at = place.offset, rest = i;
    for (size_t d = value.shape().size(); d-- > 0; rest /= value.shape()[d])
      at += rest % value.shape()[d] * place.strides[d];
    std::memcpy(bytes.data() + size_t(at) * size, from + size_t(i) * size, size);
  }
}

// The file, on the rank that writes it. A failure is kept, so that all ranks learn of it after the collectives that all
// of them take part in.
class Writer {
 public:
  Writer(State& state, const std::string& path, const std::string& who) : state_(state), path_(path), who_(who) {}

  void Create(const Parts& parts) {
    std::error_code error;
    if (!Writes()) return;
    if (std::filesystem::exists(path_, error)) {
      status_ = absl::AlreadyExistsError(
          fmt::format("{}: expected a file to be made, got one that is there; name another, or remove it", path_));
      return;
    }
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, of] : parts)
      entries.push_back({name, state_.At(of.front().parameter->path()).local.dtype(), of.front().place.shape});
    absl::StatusOr<DurableFile> file = DurableFile::Create(path_);
    status_ = file.status();
    if (file.ok()) status_ = file_.emplace(*std::move(file)).Write(SafetensorsHeader(entries, "pt"));
  }
  void Write(std::span<const std::byte> bytes) {
    if (Writes() && status_.ok()) status_ = file_->Write(bytes);
  }
  void Close() {
    if (Writes() && status_.ok()) status_ = file_->Close();
  }
  // Throws Error on all ranks if the writing rank failed.
  void Check() {
    DeviceMesh& mesh = state_.session()->mesh();
    EagerScope eager(state_.session(), Loc::current());
    Placements terms(std::vector<Placement>(size_t(mesh.shape().num_axes()), Partial()));
    DTensor failed = DTensor::FromLocal(Tensor::Scalar(status_.ok() ? 0 : 1, DType::kF32), mesh, terms, {});
    if (failed.Item() == 0) return;
    Fail(fmt::format(
        "{}: {}", who_,
        Writes() ? std::string(status_.message()) : path_ + ": the first rank of the mesh cannot write it"));
  }

 private:
  bool Writes() const { return state_.session()->mesh().rank() == 0; }

  State& state_;
  const std::string &path_, &who_;
  std::optional<DurableFile> file_;
  absl::Status status_;
};

}  // namespace

void LoadTorchState(State& state, const Module& module, const std::string& path, const std::string& prefix, Loc loc) {
  std::string who = "LoadTorchState at " + ToString(loc);
  absl::StatusOr<Safetensors> files = Safetensors::Open(path);
  WEFT_CHECK(files.ok(), fmt::format("{}: {}", who, std::string(files.status().message())));
  Parts parts = PartsOf(module, prefix);
  CheckTensors(parts, *files, prefix, who);
  for (const auto& [name, of] : parts)
    for (const Part& part : of) SetEntry(state, part.parameter->path(), files->tensors().at(name), part.place);
  absl::Status read = files->Fault();
  WEFT_CHECK(read.ok(), fmt::format("{}: {}", who, std::string(read.message())));
  RefreshCopies(module, state.model(), state, state.runtime());
}

void SaveTorchState(State& state, const Module& module, const std::string& path, const std::string& prefix, Loc loc) {
  const std::string who = "SaveTorchState at " + ToString(loc);
  Parts parts = PartsOf(module, prefix);
  Writer writer(state, path, who);
  writer.Create(parts);
  writer.Check();
  std::vector<std::byte> bytes;
  for (const auto& [name, of] : parts) {
    for (const Part& part : of) {
      Tensor value = state.Value(part.parameter->path()).FullTensor().To(CpuRuntime());
      bytes.resize(size_t(NumElements(part.place.shape)) * SizeOf(value.dtype()));
      Lay(value, part.place, bytes);
    }
    writer.Write(bytes);
  }
  writer.Close();
  writer.Check();
}

}  // namespace weft
