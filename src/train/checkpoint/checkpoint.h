// Checkpoint: a saved state, which any mesh can read. Files are mapped; a rank touches the boxes that meet its shard.
//
//   absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open("checkpoints/step-000100");
//   absl::Status whole = checkpoint->Verify();       // or a share on each rank
//   status = checkpoint->Load(state);
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/parallel/step/state.h"
#include "weft/train/checkpoint/manifest.h"
#include "weft/train/io/mapped_file.h"

namespace weft {

class Checkpoint {
 public:
  // Reads the manifest and maps the files, which must have the sizes that it says. Errors name the file.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  std::string PathOf(const std::string& file) const;
  // Of a file that is text; "" where there is none of this name. Throws Error where it cannot be read.
  std::string TextOf(std::string_view file) const;
  std::string ConfigYaml() const { return TextOf(kConfigFile); }
  // Of the manifest, and so of all that it holds checksums of.
  uint32_t Crc() const { return crc_; }

  // Compares checksums: every parts-th header and box. Errors name the file and the tensor.
  absl::Status Verify(int part = 0, int parts = 1) const;
  // As MappedFile::Fault, of all files: asked after Read and before what it copied is used.
  absl::Status Fault() const;
  // Copies what meets `to`, whose tensor is there.
  void Read(const std::string& tensor, const BoxData& to) const;
  // Sets the saved entries of a state, in whatever type they have there. What a checkpoint need not have (the scale of
  // a loss that was not scaled, what another optimizer keeps) stays as it is.
  absl::Status Load(State& state) const;
  // Of a state's entries, how many parameters start anew what their optimizer keeps, by optimizer: the checkpoint has
  // nothing of it, as another one made it.
  std::map<std::string, int> StartedAnew(const State& state) const;

 private:
  Checkpoint() = default;
  std::vector<BoxData> BoxesOf(const std::string& tensor) const;  // as they lie in the files
  absl::Status CheckEntry(const std::string& name, const State::Entry& entry) const;
  bool IsNewSlot(const std::string& entry) const;

  std::string folder_;
  Manifest manifest_;
  uint32_t crc_ = 0;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

}  // namespace weft
