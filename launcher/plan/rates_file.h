// RatesFile: the lines of weft bench rates --json, from which weft plan predicts the time of a step.
#pragma once
#include <cstdint>
#include <string>

#include "weft/core/base/device.h"
#include "weft/core/predict/rates.h"

namespace weft {

struct RatesFile {
  std::string path;
  DeviceKind device = DeviceKind::kCpu;
  std::string device_name;  // "NVIDIA H200"; of the CPU, that of the processor
  int64_t ranks = 0;        // the fewest that ran while a kernel was measured; the most, if the file has no kernels
  Rates rates;
};

// Reads the lines of kinds call, copy, gemm, collective and overlap. Lines of other kinds, such as those of whole
// steps, are not used. On a GPU, times of collectives that a recording replays count. Errors name the file and the
// line: it cannot be read, is no JSON object with what its kind has, or is of another device than the first line.
// Without a line of overlap, collectives of a CPU are taken to hide nothing, because they run on the cores of the
// kernels, and those of a GPU to cost kernels nothing.
absl::StatusOr<RatesFile> ReadRates(const std::string& path);

// Returns an error if the file is of another kind of device.
absl::Status CheckDevice(const RatesFile& file, DeviceKind device);

// Says which measurement, as named by an error of a prediction, the file lacks, and which command makes it.
std::string LacksText(const RatesFile& file, const absl::Status& lacks);

// Returns a note if a step of so many ranks may find a slower device than the file's: more ranks share the cores of a
// host. Otherwise "".
std::string NoteOnRanks(const RatesFile& file, int64_t ranks);

}  // namespace weft
