// Checkpoint: a saved state, which can be loaded on any mesh. Files are mapped; a rank reads only the boxes that
// intersect its shard.
//
//   absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open("checkpoints/step-000100");
//   absl::Status whole = checkpoint->Verify();       // or a share per rank
//   status = checkpoint->Load(state);
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/parallel/program/state.h"
#include "weft/train/checkpoint/manifest.h"
#include "weft/train/io/mapped_file.h"

namespace weft {

class Checkpoint {
 public:
  // Reads the manifest and maps the files. Returns an error that names the file if a size differs from the manifest's.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  std::string PathOf(const std::string& file) const;
  // Returns the contents of a text file, or "" if the checkpoint has none of this name. Throws Error if it cannot be
  // read.
  std::string TextOf(std::string_view file) const;
  std::string ConfigYaml() const { return TextOf(kConfigFile); }
  // Returns the checksum of the manifest. It covers the whole checkpoint, because the manifest contains the other
  // checksums.
  uint32_t Crc() const { return crc_; }

  // Compares checksums of headers and boxes: of those with index % parts == part. Errors name the file and the tensor.
  absl::Status Verify(int part = 0, int parts = 1) const;
  // Returns MappedFile::Fault of all files. Call it after Read, before the copied data is used.
  absl::Status Fault() const;
  // Copies the part of a tensor that intersects `to`. Requires that the checkpoint has the tensor.
  void Read(const std::string& tensor, const BoxData& to) const;
  // Sets the saved entries of a state, converted to their types there. Entries that a checkpoint may lack stay as they
  // are: the loss scale of a run without one, and the slots of another optimizer.
  absl::Status Load(State& state) const;
  // Returns, per optimizer, the number of parameters whose optimizer state starts from its initial value, because the
  // checkpoint was made with another optimizer and has none.
  std::map<std::string, int> StartedAnew(const State& state) const;

 private:
  Checkpoint() = default;
  std::vector<BoxData> BoxesOf(const std::string& tensor) const;  // as views of the mapped files
  absl::Status CheckEntry(const std::string& name, const State::Entry& entry) const;
  bool IsNewSlot(const std::string& entry) const;

  std::string folder_;
  Manifest manifest_;
  uint32_t crc_ = 0;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

}  // namespace weft
