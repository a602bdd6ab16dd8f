// EventRecord: an entry of TensorBoard's event files, as bytes: an Event of protobuf in TFRecord's frame. They are few
// fields of two stable formats, so they are written by hand instead of by protobuf's library.
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

// Wall times are seconds since 1970. What a file begins with:
std::string VersionRecord(double wall_time);
// Readers forget what earlier files of the folder say of this step and later ones.
std::string RestartRecord(double wall_time, int64_t step);
std::string ScalarsRecord(double wall_time, int64_t step, std::span<const Scalar> scalars);

// Length and data, each with its checksum behind it.
std::string TfRecord(std::string_view data);

}  // namespace weft
