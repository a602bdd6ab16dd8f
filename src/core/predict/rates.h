// Rates: how fast a device does the parts of a step, from measurements of single parts.
//
//   Rates rates;
//   rates.Add(work, 0.31);             // a batch of a plan
//   rates.AddCopy(1 << 20, 0.004);     // memory-bound work of any op
//   rates.AddTransfer({Op::kAllGather, 1 << 20}, 2, 0.03);
//   absl::StatusOr<double> ms = rates.MillisecondsOf(work);
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/core/predict/batch_work.h"

namespace weft {

class Rates {
 public:
  // Later measurements of the same work replace earlier ones. Times are above 0.
  void Add(const BatchWork& work, double ms);
  void AddCopy(double bytes, double ms);  // `bytes` read and written
  void AddTransfer(const BatchWork::Transfer& transfer, int64_t ranks, double ms);

  // The part of a collective's time that kernels lose while it runs: 0 to 1. It is 0 if it is not set.
  void set_lost_share(double share) { lost_share_ = share; }
  double lost_share() const { return lost_share_; }

  // Returns the time of work.
  // - Work of a name that was measured takes the time that was measured.
  // - Products and attention run at the rate of those of the same type that are nearest in FLOPs and bytes.
  // - Other kernels take as long as a copy of as many bytes, times the ratio that the nearest of the same op has.
  // - Collectives take as long as their transfers by themselves.
  // Times between two sizes are interpolated. Returns kNotFound with what was not measured: "a product of bf16".
  absl::StatusOr<double> MillisecondsOf(const BatchWork& work) const;

 private:
  struct Measured {
    BatchWork work;
    double ms;
  };
  using Curve = std::map<double, double>;  // from bytes to milliseconds

  absl::StatusOr<double> Product(const BatchWork& work) const;
  absl::StatusOr<double> Memory(const BatchWork& work) const;
  absl::StatusOr<double> Collective(const BatchWork& work) const;
  const Measured* Nearest(const BatchWork& work) const;

  double lost_share_ = 0;
  std::map<std::string, Measured> measured_;
  Curve copies_;
  std::map<std::pair<Op, int64_t>, Curve> transfers_;  // by op and ranks
};

}  // namespace weft
