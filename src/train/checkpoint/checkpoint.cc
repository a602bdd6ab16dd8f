#include "weft/train/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "fmt/format.h"
#include "weft/core/base/box.h"
#include "weft/core/runtime/filler.h"
#include "weft/parallel/optimizer/optimizer.h"
#include "weft/parallel/step/loss_scale.h"
#include "weft/train/io/crc32c.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostManifestBytes = uint64_t{1} << 30;

// Maps a file. Refuses a link, because it may lead out of the folder.
absl::StatusOr<std::shared_ptr<const MappedFile>> OpenIn(const std::string& path, uint64_t most) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(path, error)))
    return absl::DataLossError(fmt::format("{}: expected a file, got a link; copy what it leads to", path));
  return MappedFile::Open(path, MappedFile::kInOrder, most);
}

bool IsOptional(const std::string& entry) {
  return entry == entry::kLossScale || entry == entry::kGoodSteps || entry == entry::kSkipped || entry == State::kCalls;
}

}  // namespace

std::string Checkpoint::PathOf(const std::string& file) const { return (fs::path(folder_) / file).string(); }

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder) {
  Checkpoint c;
  c.folder_ = folder;
  std::string path = (fs::path(folder) / kManifestFile).string();
  absl::StatusOr<std::shared_ptr<const MappedFile>> text = OpenIn(path, kMostManifestBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<Manifest> manifest = ParseManifest((*text)->bytes(), path);
  c.crc_ = Crc32c((*text)->bytes());
  if (absl::Status s = (*text)->Fault(); !s.ok()) return s;
  if (!manifest.ok()) return manifest.status();
  c.manifest_ = *std::move(manifest);
  for (const SavedFile& file : c.manifest_.files) {
    absl::StatusOr<std::shared_ptr<const MappedFile>> mapped = OpenIn(c.PathOf(file.name), kAnySize);
    if (!mapped.ok()) return mapped.status();
    if (size_t size = (*mapped)->bytes().size(); size != file.bytes)
      return absl::DataLossError(fmt::format("{}: expected {} bytes, as {} says, got {}: it was cut short or changed",
                                             c.PathOf(file.name), file.bytes, kManifestFile, size));
    c.files_.push_back(*std::move(mapped));
  }
  return c;
}

std::string Checkpoint::TextOf(std::string_view file) const {
  for (size_t i = 0; i < files_.size(); i++) {
    if (manifest_.files[i].name != file) continue;
    std::string text(reinterpret_cast<const char*>(files_[i]->bytes().data()), files_[i]->bytes().size());
    if (absl::Status s = files_[i]->Fault(); !s.ok()) Fail(std::string(s.message()));
    return text;
  }
  return "";
}

absl::Status Checkpoint::Fault() const {
  for (const std::shared_ptr<const MappedFile>& file : files_)
    if (absl::Status s = file->Fault(); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status Checkpoint::Verify(int part, int parts) const {
  int piece = 0;
  auto check = [&](size_t file, uint64_t offset, uint64_t bytes, uint32_t crc, const std::string& what) {
    if (piece++ % parts != part || Crc32c(files_[file]->bytes().subspan(offset, bytes)) == crc) return absl::OkStatus();
    if (absl::Status s = files_[file]->Fault(); !s.ok()) return s;
    return absl::DataLossError(fmt::format("{}: {}: the checksum of bytes {} to {} is not that of {}: it was changed",
                                           PathOf(manifest_.files[file].name), what, offset, offset + bytes,
                                           kManifestFile));
  };
  for (size_t i = 0; i < files_.size(); i++)
    if (absl::Status s = check(i, 0, manifest_.files[i].header_bytes, manifest_.files[i].header_crc, "header"); !s.ok())
      return s;
  for (const auto& [name, tensor] : manifest_.tensors)
    for (const SavedBox& b : tensor.boxes) {
      uint64_t bytes = uint64_t(Volume(b.box)) * SizeOf(tensor.dtype);
      if (absl::Status s = check(b.file, b.offset, bytes, b.crc, "tensor " + name); !s.ok()) return s;
    }
  return Fault();
}

std::vector<BoxData> Checkpoint::BoxesOf(const std::string& tensor) const {
  const SavedTensor& saved = manifest_.tensors.at(tensor);
  std::vector<BoxData> boxes;
  for (const SavedBox& b : saved.boxes) {
    auto* data = const_cast<std::byte*>(files_[b.file]->bytes().data() + b.offset);
    boxes.push_back({b.box, saved.dtype, data, RowMajor(Extents(b.box))});
  }
  return boxes;
}

void Checkpoint::Read(const std::string& tensor, const BoxData& to) const {
  for (const BoxData& box : BoxesOf(tensor)) CopyMeeting(box, to);
}

// Whether the entry is a slot of an optimizer for which the checkpoint has no slot of this parameter. A checkpoint has
// either all slots or none.
bool Checkpoint::IsNewSlot(const std::string& entry) const {
  SlotName name = ParseSlot(entry);
  if (!name.rule) return false;
  std::string rule = std::string(name.rule->name) + ".";
  for (auto it = manifest_.tensors.lower_bound(rule); it != manifest_.tensors.end() && it->first.starts_with(rule);
       ++it)
    if (ParseSlot(it->first).path == name.path) return false;
  return true;
}

std::map<std::string, int> Checkpoint::StartedAnew(const State& state) const {
  std::map<std::string, std::set<std::string>> paths;
  for (const auto& [name, entry] : state.entries())
    if (entry.saved && !manifest_.tensors.contains(name) && IsNewSlot(name))
      paths[ParseSlot(name).rule->name].insert(ParseSlot(name).path);
  std::map<std::string, int> counts;
  for (const auto& [rule, of] : paths) counts[rule] = int(of.size());
  return counts;
}

absl::Status Checkpoint::CheckEntry(const std::string& name, const State::Entry& entry) const {
  auto found = manifest_.tensors.find(name);
  if (found != manifest_.tensors.end() && found->second.shape == entry.global) return absl::OkStatus();
  if (found == manifest_.tensors.end() && (IsOptional(name) || IsNewSlot(name))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: tensor {}: expected {}, got {}; the model must be the one that was saved", folder_, name,
                  ToString(entry.global), found == manifest_.tensors.end() ? "none" : ToString(found->second.shape)));
}

absl::Status Checkpoint::Load(State& state) const {
  for (const auto& [name, entry] : state.entries())
    if (entry.saved)
      if (absl::Status s = CheckEntry(name, entry); !s.ok()) return s;
  size_t largest = 0;
  for (const auto& [name, entry] : state.entries()) largest = std::max(largest, entry.local.bytes());
  Filler filler(state.device(), std::min(Filler::kPiece, largest));
  for (const auto& [name, entry] : state.entries()) {
    if (!entry.saved || !manifest_.tensors.contains(name)) continue;
    std::optional<Box> held = HeldBox(entry.global, entry.sharding, state.mesh(), state.coords());
    if (held) filler.Fill(entry.local, *held, BoxesOf(name));
  }
  filler.Finish();
  return Fault();
}

}  // namespace weft
