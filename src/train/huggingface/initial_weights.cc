#include "weft/train/huggingface/initial_weights.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "fmt/format.h"
#include "weft/core/host/suggest.h"
#include "weft/train/checkpoint/manifest.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"
#include "weft/train/huggingface/hf_config.h"
#include "weft/train/io/bad_input.h"
#include "weft/train/io/json_object.h"

namespace weft {
namespace {

template <class From, class To>
To Convert(From value) {
  if constexpr (std::is_same_v<To, double>)
    return double(Compute<From>(value));
  else
    return To(float(value));
}

// Copies two dims at a time in tiles, so that a transposed box does not miss the cache at every element.
template <class From, class To>
void CopyTiles(const std::byte* from, const HfPlace& place, const TensorView& to) {
  constexpr int64_t kTile = 16;
  int last = to.rank - 1, near = last;  // near: the dim whose elements are adjacent in the source
  for (int d = 0; d < to.rank; d++)
    if (place.strides[size_t(d)] < place.strides[size_t(near)]) near = d;
  DimView rows = near == last ? DimView{.extent = 1} : to.dim(near), columns = to.dim(last);
  int64_t row_step = near == last ? 0 : place.strides[size_t(near)], column_step = place.strides[size_t(last)];
  auto tile = [&](const std::byte* source, To* target, int64_t r0, int64_t c0) {
    for (int64_t r = r0; r < std::min(r0 + kTile, rows.extent); r++)
      for (int64_t c = c0; c < std::min(c0 + kTile, columns.extent); c++) {
        From value;
        std::memcpy(&value, source + size_t(r * row_step + c * column_step) * sizeof value, sizeof value);
        target[r * rows.stride + c] = Convert<From, To>(value);
      }
  };
  // Iterates over the other dims.
  Shape at(size_t(to.rank), 0);
  for (int d = 0; d >= 0;) {
    int64_t source = place.offset, target = 0;
    for (int i = 0; i < to.rank; i++) {
      source += (to.dim(i).offset + at[size_t(i)]) * place.strides[size_t(i)];
      target += at[size_t(i)] * to.dim(i).stride;
    }
    for (int64_t r = 0; r < rows.extent; r += kTile)
      for (int64_t c = 0; c < columns.extent; c += kTile)
        tile(from + size_t(source) * sizeof(From), to.as<To>() + target, r, c);
    for (d = last; d >= 0; d--) {
      if (d == last || d == near) continue;
      if (++at[size_t(d)] < to.dim(d).extent) break;
      at[size_t(d)] = 0;
    }
  }
}

// Whether all copies of a parameter in a tensor are equal bit by bit. `shape` is the shape of the parameter.
bool CopiesAgree(const StoredTensor& tensor, const HfPlace& place, const Shape& shape) {
  size_t size = SizeOf(*tensor.dtype);
  for (int64_t i = 0; place.copies > 1 && i < NumElements(shape); i++) {
    int64_t at = place.offset, rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) at += rest % shape[d] * place.strides[d];
    const std::byte* first = tensor.data.data() + size_t(at) * size;
    for (int64_t copy = 1; copy < place.copies; copy++)
      if (std::memcmp(first, first + size_t(copy * place.copy_stride) * size, size) != 0) return false;
  }
  return true;
}

bool IsCheckpoint(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(path) / kManifestFile, error);
}

const char* EmbeddingOf(const HfFamily& family) {
  auto row =
      std::ranges::find_if(family.rows, [](const HfRow& r) { return r.parameter == std::string("embed.weight"); });
  return row->tensor;
}

bool SameBits(const StoredTensor& a, const StoredTensor& b) {
  return a.type == b.type && std::ranges::equal(a.data, b.data);
}

}  // namespace

void ReadBox(const StoredTensor& from, const HfPlace& place, const TensorView& to) {
  if (to.NumElements() == 0) return;
  DispatchFloating(*from.dtype, [&](auto source) {
    DispatchFloating(to.dtype,
                     [&](auto target) { CopyTiles<decltype(source), decltype(target)>(from.data.data(), place, to); });
  });
}

void SetEntry(State& state, const std::string& entry, const StoredTensor& from, const HfPlace& place) {
  const Tensor& target = state.At(entry).local;
  Tensor host = Tensor::Zeros(target.dtype(), target.shape());
  TensorView box = state.View(entry);
  box.data = host.data();
  ReadBox(from, place, box);
  state.device().Copy(target.data(), host.data(), host.bytes());
  state.device().Synchronize();  // before the host memory is freed
}

absl::StatusOr<InitialWeights> InitialWeights::Open(const Config& config) {
  auto refuse = [&](const std::string& what) { return RefuseKey(config, "model.init", what); };
  const HfFamily* family = FindHfFamily(config.model.family);  // CheckConfig refuses families without a table
  absl::StatusOr<Safetensors> files = Safetensors::Open(config.model.init);
  if (!files.ok() && IsCheckpoint(config.model.init))
    return refuse(
        fmt::format("{0}: expected a folder with model.safetensors, got a checkpoint of Weft's; "
                    "checkpoint.resume={0} continues from it, and weft export writes its weights as model.init "
                    "takes them",
                    config.model.init));
  if (!files.ok()) return refuse(std::string(files.status().message()));
  if (std::string why = HfRefusal(*family, config.model); !why.empty()) return refuse(why);
  InitialWeights weights(*std::move(files));
  std::unique_ptr<Model> model = MakeModel(ModelOf(config));
  if (absl::Status status = weights.CheckSettings(*family, config.model); !status.ok())
    return refuse(std::string(status.message()));
  std::vector<std::string> missing = weights.Match(*family, *model, config.model.heads);
  bool head = missing == std::vector<std::string>{family->head};
  if (!missing.empty())
    return refuse(fmt::format("{}: expected the tensors of family {}, got none named {}; {}", config.model.init,
                              family->family, FirstFew(missing),
                              head ? "set model.tie_embeddings=true, or give the whole model"
                                   : "set model.family and model.layers as the checkpoint has them"));
  absl::Status tensors = weights.CheckTensors(), rest = tensors.ok() ? weights.CheckRest(*family) : tensors;
  for (const absl::Status& status : {weights.files_.Fault(), tensors, rest})
    if (!status.ok()) return refuse(std::string(status.message()));
  return weights;
}

absl::Status InitialWeights::CheckSettings(const HfFamily& family, const ModelConfig& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = files_.path(), folder = fs::is_directory(path, error) ? path : path.parent_path();
  std::string file = (folder / "config.json").string();
  has_settings_ = fs::exists(file, error);
  if (!has_settings_) return absl::OkStatus();
  absl::StatusOr<nlohmann::json> settings = ReadJsonObject(file);
  if (!settings.ok()) return settings.status();
  absl::Status fits = CheckHfConfig(*settings, family, model, [&] { return HoldsTheEmbeddingTwice(family); });
  if (fits.ok()) return fits;
  return BadInput(file, fits.message());
}

StoredTensors::const_iterator InitialWeights::Find(const HfFamily& family, const std::string& name) const {
  const StoredTensors& tensors = files_.tensors();
  auto found = tensors.find(name);
  if (found == tensors.end() && name.starts_with(family.prefix))
    found = tensors.find(name.substr(std::strlen(family.prefix)));
  for (const HfTwin& names : family.old_names) {
    std::string_view now = names.tensor;
    if (found != tensors.end() || !name.ends_with(now)) continue;
    found = Find(family, name.substr(0, name.size() - now.size()) + names.other);
  }
  return found;
}

bool InitialWeights::HoldsTheEmbeddingTwice(const HfFamily& family) const {
  auto head = files_.tensors().find(family.head), embedding = Find(family, EmbeddingOf(family));
  return head != files_.tensors().end() && embedding != files_.tensors().end() &&
         SameBits(head->second, embedding->second);
}

std::vector<std::string> InitialWeights::Match(const HfFamily& family, const Model& model, int64_t heads) {
  std::vector<std::string> missing;
  for (const Parameter* p : model.Parameters()) {
    std::optional<HfPlace> place = PlaceInHf(family, p->path(), p->shape(), heads);
    WEFT_CHECK(place, fmt::format("the table of family {} has no row for {}", family.family, p->path()));
    auto found = Find(family, place->tensor);
    if (found != files_.tensors().end()) {
      place->tensor = found->first;
      sources_[p->path()] = {&found->second, *std::move(place), p->shape()};
    } else if (std::find(missing.begin(), missing.end(), place->tensor) == missing.end()) {
      missing.push_back(place->tensor);
    }
  }
  return missing;
}

absl::Status InitialWeights::CheckTensors() const {
  auto bad = [](const StoredTensor& tensor, const std::string& name, const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: tensor {}: {}", tensor.file, name, what));
  };
  for (const auto& [parameter, source] : sources_) {
    const auto& [tensor, place, shape] = source;
    if (tensor->shape != place.shape)
      return bad(*tensor, place.tensor,
                 fmt::format("expected {} for {}, got {}; set the sizes under model as the checkpoint has them",
                             ToString(place.shape), parameter, ToString(tensor->shape)));
    if (!tensor->dtype)
      return bad(*tensor, place.tensor,
                 fmt::format("expected F64, F32, BF16 or F16, got {}; convert it", tensor->type));
    if (!CopiesAgree(*tensor, place, shape))
      return bad(*tensor, place.tensor,
                 fmt::format("expected the {} heads of a group to be equal in {}, as model.kv_heads is less than "
                             "model.heads, got heads that differ; set model.kv_heads to model.heads",
                             place.copies, parameter));
  }
  return absl::OkStatus();
}

// Checks the tensors that no parameter uses. Allows tensors without weights, and a head equal to the embedding.
absl::Status InitialWeights::CheckRest(const HfFamily& family) {
  std::set<std::string> used;
  for (const auto& [parameter, source] : sources_) used.insert(source.place.tensor);
  std::vector<std::string> rest;
  const StoredTensor* embedding = sources_.at("embed.weight").tensor;
  auto holds_none = [&](const std::string& name) {
    return std::any_of(family.no_weights.begin(), family.no_weights.end(),
                       [&](const char* glob) { return fnmatch(glob, name.c_str(), 0) == 0; });
  };
  for (const auto& [name, tensor] : files_.tensors()) {
    if (used.contains(name)) continue;
    bool harmless = holds_none(name);
    for (const HfTwin& twin : family.twins)
      if (name == twin.other) {
        auto first = Find(family, twin.tensor);
        harmless = first != files_.tensors().end() && SameBits(tensor, first->second);
      }
    if (name == family.head) {
      harmless = SameBits(tensor, *embedding);
      if (!harmless)
        return absl::InvalidArgumentError(
            fmt::format("{}: tensor {}: expected the token embedding once more, as model.tie_embeddings is true, got "
                        "other values; set model.tie_embeddings=false",
                        tensor.file, name));
    }
    (harmless ? ignored_ : rest).push_back(name);
  }
  if (rest.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: expected only the tensors of the model, got also {}; set model.family and model.layers as the "
                  "checkpoint has them",
                  files_.path(), FirstFew(rest)));
}

void InitialWeights::Load(State& state, const ShardedModel& model, const Runtime& runtime) const {
  for (const Parameter* p : model.model().Parameters()) {
    const auto& [tensor, place, shape] = sources_.at(p->path());
    SetEntry(state, p->path(), *tensor, place);
  }
  if (absl::Status s = files_.Fault(); !s.ok()) Fail(std::string(s.message()));
  model.RefreshCopies(state, runtime);
}

uint64_t InitialWeights::Hash() const {
  uint64_t hash = files_.Hash();
  if (absl::Status s = files_.Fault(); !s.ok()) Fail(std::string(s.message()));
  return hash;
}

std::string InitialWeights::Summary() const {
  return fmt::format(
      "weights of {}{}{}", files_.path(),
      ignored_.empty() ? "" : fmt::format("; passed over, as no logit depends on them: {}", FirstFew(ignored_)),
      has_settings_ ? "" : "; no config.json with them: heads, norms and positions are as this run has them");
}

}  // namespace weft
