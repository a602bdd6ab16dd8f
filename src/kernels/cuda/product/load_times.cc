#include "weft/kernels/cuda/product/load_times.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr double kLoadMilliseconds = 2000, kMoreMilliseconds = 200;  // of a GPU that is cool, and that is hot
constexpr auto kCools = std::chrono::milliseconds(300);
constexpr int kRounds = 4, kRoundsOfMany = 2;  // of many recordings several are about as fast, so either may win
constexpr size_t kMany = 5;
// The clock follows the power of the last tens of milliseconds. In a shorter turn a recording would run at the clock of
// all of them, and one that draws little power would not gain by it.
constexpr double kSettleMilliseconds = 60, kTurnMilliseconds = 100;

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

Event Mark(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  WEFT_CUDA(cudaEventCreate(&event));
  Event owned(event);
  WEFT_CUDA(cudaEventRecord(event, stream));
  return owned;
}

// Waits for the stop.
float Milliseconds(cudaEvent_t start, cudaEvent_t stop) {
  WEFT_CUDA(cudaEventSynchronize(stop));
  float ms = 0;
  WEFT_CUDA(cudaEventElapsedTime(&ms, start, stop));
  return ms;
}

int64_t Replays(double wanted_ms, float one_ms) {
  return std::max<int64_t>(1, std::llround(wanted_ms / std::max(double(one_ms), 1e-3)));
}

}  // namespace

double LoadTimes::LoadMilliseconds() const {
  bool hot = hot_ && std::chrono::steady_clock::now() - *hot_ < kCools;
  return hot ? kMoreMilliseconds : kLoadMilliseconds;
}

std::vector<float> LoadTimes::Of(std::span<const cudaGraphExec_t> recordings, std::span<const float> burst_ms) {
  auto replay = [&](size_t i, double wanted_ms) {
    int64_t count = Replays(wanted_ms, burst_ms[i]);
    for (int64_t n = 0; n < count; n++) WEFT_CUDA(cudaGraphLaunch(recordings[i], stream_));
    return count;
  };
  replay(0, LoadMilliseconds());
  std::vector<float> means(recordings.size());
  const int rounds = recordings.size() < kMany ? kRounds : kRoundsOfMany;
  for (int round = 0; round < rounds; round++)
    for (size_t k = 0; k < recordings.size(); k++) {
      size_t i = round % 2 ? recordings.size() - 1 - k : k;
      replay(i, kSettleMilliseconds);
      Event start = Mark(stream_);
      int64_t count = replay(i, kTurnMilliseconds);
      means[i] += Milliseconds(start.get(), Mark(stream_).get()) / float(count * rounds);
    }
  hot_ = std::chrono::steady_clock::now();
  return means;
}

}  // namespace weft::cuda
