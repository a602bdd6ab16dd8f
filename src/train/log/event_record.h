// EventRecord: an entry of a TensorBoard event file, as bytes: a protobuf Event in a TFRecord frame. Both formats are
// stable and few fields are used, so the code writes them itself instead of using the protobuf library.
//
//   file << VersionRecord(now) << RestartRecord(now, 1) << ScalarsRecord(now, 1, scalars);
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft {

struct Scalar {
  std::string_view tag;
  float value;
};

// Returns the first record of a file. All wall times are in seconds since 1970.
std::string VersionRecord(double wall_time);
// Returns a record that makes readers drop what earlier files of the folder contain about `step` and later steps.
std::string RestartRecord(double wall_time, int64_t step);
std::string ScalarsRecord(double wall_time, int64_t step, std::span<const Scalar> scalars);

// Frames `data`: length, checksum of the length, data, checksum of the data.
std::string TfRecord(std::string_view data);

}  // namespace weft
