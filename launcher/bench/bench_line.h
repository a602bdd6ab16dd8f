// BenchLine: the measurement of one case of weft bench, as a row of a table for people or a JSON object for programs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/bench/call_times.h"

namespace weft {

struct BenchLine {
  std::string kind;                                         // "gemm"
  std::string name;                                         // of the case: "512 x 512 x 512"
  std::string dtype;                                        // "" if the case has no single dtype
  std::vector<std::pair<std::string, std::string>> labels;  // such as {"op", "all_reduce"}
  std::vector<std::pair<std::string, int64_t>> sizes;       // such as {"m", 512}
  CallTimes times;
  std::optional<double> rate;                        // of one rank, from the median time
  std::string unit;                                  // of the rate: "TFLOP/s"
  std::vector<std::pair<std::string, double>> more;  // such as {"wrong", 0}
};

// The hardware, the host and the ranks of a measurement.
struct BenchPlace {
  std::string device, device_name;  // "cuda", "NVIDIA H200"; for the CPU, the name of the processor
  std::string host;                 // of rank 0
  int ranks = 1, threads = 1;       // `threads` per rank
};

// Returns one JSON object without a newline: kind, case, device, device_name, ranks, threads, dtype, labels, sizes,
// median_ms, min_ms, p90_ms, repeats, calls, processor_ms, rate, unit, more, host, version, commit, unix_time. The rate
// is null if the case has none.
std::string BenchJson(const BenchLine& line, const BenchPlace& place);

// Returns "weft 0.1.0 (5f375fc), 2 ranks on Intel(R) Xeon(R) ..., 4 threads per rank, host a" and, on a second line,
// the names of the columns.
std::string BenchHead(const BenchPlace& place);
std::string BenchRow(const BenchLine& line);

// Returns the name of this host's processor, "Intel(R) Xeon(R) ...", or "CPU" if the system does not report it.
std::string ProcessorName();

}  // namespace weft
