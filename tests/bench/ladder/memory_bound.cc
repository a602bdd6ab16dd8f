// Measures every memory-bound kernel of the CUDA table against the rate of a copy in the same run. Prints one JSON line
// per measurement, and one for all of them. Fails if a kernel stays below kBar of a copy with the same traffic. The
// copy has the same costs for a launch and for filling and draining the device.
//
//   memory_bound [PART_OF_A_NAME...]      libweft_cuda.so is next to it or on LD_LIBRARY_PATH
//   memory_bound --list                   lists the measurements; needs no GPU
//
// Traffic is the minimum that an op needs: every operand read once and every result written once (memory_cases.h). A
// measurement is a median over launches, each between two events, with all the kernels that the table's row runs.
// Launches take turns on copies of their tensors, which together are far larger than the L2 cache.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "memory_clock.h"
#include "memory_tensors.h"

namespace weft::bench {
namespace {

constexpr double kBar = 0.80;
constexpr size_t kMiB = size_t(1) << 20;
constexpr size_t kSizes[] = {64 * kMiB, 256 * kMiB, 1024 * kMiB};
constexpr size_t kCold = 512 * kMiB;  // total size of the copies of the tensors

std::string ShapeText(const Call& call) {
  const Operand* largest = nullptr;
  for (const auto* operands : {&call.in, &call.out})
    for (const Operand& o : *operands)
      if (o.bytes() > (largest ? largest->bytes() : 0)) largest = &o;
  return ToString(largest->shape);
}

class Ladder {
 public:
  void MeasureCopies(const char* when);
  void Measure(const MemoryCase& c);
  // Returns whether no kernel stayed below the bar.
  bool Report() const;

 private:
  void MeasureAt(const MemoryCase& c, int64_t rows, size_t size);
  void Print(const MemoryCase& c, const std::vector<Call>& calls, size_t size, double us);

  MemoryTensors tensors_;
  MemoryClock clock_{tensors_.stream()};
  std::map<size_t, double> copies_;  // GB/s by traffic
  double copy_ = 0;                  // the best of them
  int measured_ = 0, low_ = 0;
  std::multimap<double, std::string> lowest_;
};

void Ladder::MeasureCopies(const char* when) {
  auto rate = [&](auto copy, size_t traffic) {
    auto launch = [&](int i) {
      auto [to, from] = tensors_.CopyPair(traffic / 2, i);
      copy(tensors_.stream(), to, from, traffic / 2);
    };
    return double(traffic) / clock_.MedianUs(launch) * 1e-3;
  };
  for (size_t traffic : kSizes) {
    double driver = rate(CopyByDriver, traffic), kernel = rate(CopyByKernel, traffic);
    double& best = copies_[traffic];
    best = std::max({best, driver, kernel});
    copy_ = std::max(copy_, best);
    fmt::print(
        "{{\"bench\":\"copy\",\"when\":\"{}\",\"bytes\":{},\"driver_gb_per_s\":{:.0f},\"kernel_gb_per_s\":{:.0f}}}\n",
        when, traffic, driver, kernel);
  }
}

void Ladder::Measure(const MemoryCase& c) {
  int64_t last = 0;
  for (size_t size : kSizes) {
    int64_t rows = RowsFor(c, size);
    if (rows != last) MeasureAt(c, rows, size);
    last = rows;
  }
}

void Ladder::MeasureAt(const MemoryCase& c, int64_t rows, size_t size) {
  tensors_.Reset();
  auto calls = std::make_shared<const std::vector<Call>>(c.calls(rows));
  std::vector<Launch> launches;
  for (size_t bytes = 0; bytes < kCold; bytes += Traffic(*calls)) launches.push_back(tensors_.Bind(calls));
  double us = clock_.MedianUs([&](int i) { tensors_.Run(launches[size_t(i) % launches.size()]); });
  Print(c, *calls, size, us);
}

void Ladder::Print(const MemoryCase& c, const std::vector<Call>& calls, size_t size, double us) {
  size_t bytes = Traffic(calls);
  double rate = double(bytes) / us * 1e-3, share = rate / copy_, at_size = rate / copies_.at(size);
  fmt::print(
      "{{\"bench\":\"memory_bound\",\"op\":\"{}\",\"dtype\":\"{}\",\"model\":\"{}\",\"shape\":\"{}\",\"calls\":{},"
      "\"bytes\":{},\"us\":{:.1f},\"gb_per_s\":{:.0f},\"share\":{:.3f},\"share_of_copy_as_large\":{:.3f},\"pass\":{}}}"
      "\n",
      c.name, Name(c.dtype), c.model, ShapeText(calls[0]), calls.size(), bytes, us, rate, share, at_size,
      at_size >= kBar);
  std::fflush(stdout);
  measured_++, low_ += at_size < kBar;
  lowest_.emplace(at_size, fmt::format("{} {} {} at {} MiB", c.name, Name(c.dtype), c.model, bytes / kMiB));
}

bool Ladder::Report() const {
  fmt::print("{{\"bench\":\"memory_bound\",\"copy_gb_per_s\":{:.0f},\"bar\":{:.2f},\"measured\":{},\"below\":{}}}\n",
             copy_, kBar, measured_, low_);
  for (const auto& [share, name] : lowest_)
    if (share < kBar) fmt::print(stderr, "memory_bound: {:.2f} of a copy, expected {:.2f}: {}\n", share, kBar, name);
  return low_ == 0;
}

bool List() {
  for (const MemoryCase& c : MemoryCases())
    for (size_t size : kSizes) {
      std::vector<Call> calls = c.calls(RowsFor(c, size));
      fmt::print("{} {} {} {} x {}: {:.0f} MiB\n", c.name, Name(c.dtype), c.model, ShapeText(calls[0]), calls.size(),
                 double(Traffic(calls)) / kMiB);
    }
  return true;
}

bool Main(int count, char** parts) {
  if (count == 1 && std::string_view(parts[0]) == "--list") return List();
  Ladder ladder;
  ladder.MeasureCopies("first");
  for (const MemoryCase& c : MemoryCases()) {
    std::string name = fmt::format("{} {} {}", c.name, Name(c.dtype), c.model);
    auto wanted = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (count == 0 || std::any_of(parts, parts + count, wanted)) ladder.Measure(c);
  }
  ladder.MeasureCopies("last");
  return ladder.Report();
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  try {
    return weft::bench::Main(argc - 1, argv + 1) ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "memory_bound: {}\n", e.what());
    return 2;
  }
}
