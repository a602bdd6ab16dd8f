#include "weft/kernels/cuda/product/load_times.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr double kLoadMilliseconds = 800, kMoreMilliseconds = 100;  // of a GPU that is cool, and that is hot
constexpr auto kCools = std::chrono::milliseconds(300);
constexpr int kRounds = 6;
constexpr double kTurnMilliseconds = 8;  // longer than the times in which the clock changes

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
    for (int64_t n = Replays(wanted_ms, burst_ms[i]); n > 0; n--) WEFT_CUDA(cudaGraphLaunch(recordings[i], stream_));
  };
  replay(0, LoadMilliseconds());
  std::vector<size_t> order;
  std::vector<Event> marks;
  marks.push_back(Mark(stream_));
  for (int round = 0; round < kRounds; round++)
    for (size_t k = 0; k < recordings.size(); k++) {
      order.push_back(round % 2 ? recordings.size() - 1 - k : k);
      replay(order.back(), kTurnMilliseconds);
      marks.push_back(Mark(stream_));
    }
  WEFT_CUDA(cudaEventSynchronize(marks.back().get()));
  std::vector<std::vector<float>> turns(recordings.size());
  for (size_t i = 0; i < order.size(); i++) {
    float ms = 0;
    WEFT_CUDA(cudaEventElapsedTime(&ms, marks[i].get(), marks[i + 1].get()));
    turns[order[i]].push_back(ms / float(Replays(kTurnMilliseconds, burst_ms[order[i]])));
  }
  hot_ = std::chrono::steady_clock::now();
  std::vector<float> medians;
  for (std::vector<float>& of_one : turns) {
    std::nth_element(of_one.begin(), of_one.begin() + kRounds / 2, of_one.end());
    medians.push_back(of_one[kRounds / 2]);
  }
  return medians;
}

}  // namespace weft::cuda
