// SdpaMeasure: finds the times by which attention calls choose a backend, and keeps them between runs. Host code
// without CUDA.
//
// All contenders of a call are timed in one session, so their times are comparable. A file keeps them. Its title names
// the GPU, the driver, the version of cuDNN and that of Weft, and its keys name dtypes, shapes and options (SdpaKey).
// Only the first rank measures (core/compile/measure.h).
#pragma once
#include <string>
#include <vector>

#include "weft/kernels/common/cache_file.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {

// Times `contenders` on a call, whose views have no data. Returns microseconds, one per contender, or nothing if the
// device lacks the memory for the operands. TimeSdpa of sdpa_trial.h is one.
using SdpaTimer = std::vector<double> (*)(std::span<const SdpaKernels* const> contenders, const KernelCall& call);

class SdpaMeasure {
 public:
  SdpaMeasure(SdpaTable table, CacheFile file, SdpaTimer timer)
      : table_(table), file_(std::move(file)), timer_(timer) {}

  // Puts the times of the call's contenders into the context's BackendTimes: those of the file, or else new ones, which
  // are added to the file. Does nothing if they are there, if times do not count (SdpaContenders), or with WEFT_TUNE=0.
  // The first problem with the file or with memory gives a note, and then the order of the table counts for the calls
  // that have no times.
  void operator()(const KernelCall& call);

 private:
  using Contenders = std::vector<const SdpaKernels*>;
  bool Recall(const Contenders& contenders, const std::string& key, BackendTimes& times);
  void Time(const Contenders& contenders, const std::string& key, const KernelCall& call);
  void Note(const std::string& text);

  SdpaTable table_;
  CacheFile file_;
  SdpaTimer timer_;
  bool noted_ = false;
};

}  // namespace weft::cuda
