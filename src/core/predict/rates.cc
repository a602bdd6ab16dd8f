#include "weft/core/predict/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {
namespace {

double Log(double x) { return std::log(std::max(x, 1.0)); }

// Interpolates a time between measured sizes, both in logarithms, so that a fixed cost and a bandwidth are both met.
// Below the least size the time is that of the least, and above the greatest it grows with the bytes.
double TimeAt(const std::map<double, double>& curve, double bytes) {
  auto above = curve.lower_bound(bytes);
  if (above == curve.begin()) return above->second;
  auto below = std::prev(above);
  if (above == curve.end()) return below->second * bytes / below->first;
  double share = (Log(bytes) - Log(below->first)) / (Log(above->first) - Log(below->first));
  return std::exp(std::log(below->second) * (1 - share) + std::log(above->second) * share);
}

// Whether one is measured for the other: the same type, and for attention and memory-bound work also the same op.
bool Resembles(const BatchWork& a, const BatchWork& b) {
  return a.kind == b.kind && a.dtype == b.dtype && (a.kind == WorkClass::kProduct || a.op == b.op);
}

double Distance(const BatchWork& a, const BatchWork& b) {
  return std::abs(Log(a.flops) - Log(b.flops)) + std::abs(Log(a.bytes) - Log(b.bytes));
}

}  // namespace

void Rates::Add(const BatchWork& work, double ms) { measured_[work.name] = {work, ms}; }

void Rates::AddCopy(double bytes, double ms) { copies_[bytes] = ms; }

void Rates::AddTransfer(const BatchWork::Transfer& transfer, int64_t ranks, double ms) {
  transfers_[{transfer.op, ranks}][transfer.bytes] = ms;
}

absl::StatusOr<double> Rates::MillisecondsOf(const BatchWork& work) const {
  if (auto it = measured_.find(work.name); it != measured_.end()) return it->second.ms;
  if (work.kind == WorkClass::kCollective) return Collective(work);
  return work.kind == WorkClass::kMemory ? Memory(work) : Product(work);
}

const Rates::Measured* Rates::Nearest(const BatchWork& work) const {
  const Measured* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, one] : measured_) {
    double distance = Resembles(work, one.work) ? Distance(work, one.work) : least;
    if (distance < least) nearest = &one, least = distance;
  }
  return nearest;
}

absl::StatusOr<double> Rates::Product(const BatchWork& work) const {
  const Measured* near = Nearest(work);
  if (near) return near->ms * work.flops / near->work.flops;
  return absl::NotFoundError(work.kind == WorkClass::kProduct
                                 ? fmt::format("a product of {}", Name(work.dtype))
                                 : fmt::format("{} of {}", Name(work.op), Name(work.dtype)));
}

absl::StatusOr<double> Rates::Memory(const BatchWork& work) const {
  if (copies_.empty()) return absl::NotFoundError("copies");
  double ms = TimeAt(copies_, work.bytes);
  const Measured* near = Nearest(work);
  return near ? ms * near->ms / TimeAt(copies_, near->work.bytes) : ms;
}

absl::StatusOr<double> Rates::Collective(const BatchWork& work) const {
  if (work.ranks == 1) return 0;
  double ms = 0;
  for (const BatchWork::Transfer& transfer : work.transfers) {
    auto curve = transfers_.find({transfer.op, work.ranks});
    if (curve == transfers_.end())
      return absl::NotFoundError(fmt::format("{} among {} ranks", Name(transfer.op), work.ranks));
    ms += TimeAt(curve->second, transfer.bytes);
  }
  return ms;
}

}  // namespace weft
