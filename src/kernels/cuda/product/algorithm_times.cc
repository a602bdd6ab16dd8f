#include "weft/kernels/cuda/product/algorithm_times.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "weft/kernels/cuda/device/blas.h"
#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr int kSamples = 5;                  // most samples, of which the median counts
constexpr float kMostMilliseconds = 4;       // of the samples together, about: a long product needs fewer of them
constexpr float kSampleMilliseconds = 0.2f;  // as many launches as take about this long
constexpr int kMostLaunches = 20;
// Shorter products are a small part of a step, and are not compared under load.
constexpr float kLongMilliseconds = 0.05f;
// Candidates that take at most so many times as long as the best in bursts may be the fastest under load. The fastest
// of those that the library names is always among them.
constexpr float kClose = 1.15f;
constexpr size_t kMostNamed = 3, kMostOthers = 5;
constexpr float kFar = 1.3f;  // a long candidate whose first launch takes so many times as long is not the fastest
constexpr float kReplayMilliseconds = 1;  // so that the host issues replays faster than they run
// How long algorithms that the library does not name are tried. Products of 8 ms and more have twice as long.
constexpr double kTileSeconds = 0.8, kNeighbourSeconds = 0.5, kMillisecondsPerPart = 4;
constexpr size_t kBases = 4;         // the fastest so far, of which neighbours are tried
constexpr size_t kPerReference = 8;  // tries between two bursts of the reference
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns how many samples to take if one takes so many milliseconds. The number is odd, as the median counts.
int SamplesOf(float sample_ms) { return std::clamp(int(kMostMilliseconds / sample_ms), 1, kSamples) | 1; }

}  // namespace

AlgorithmTimes::AlgorithmTimes(cublasLtHandle_t library, cudaStream_t stream, bool under_load)
    : library_(library), stream_(stream), under_load_(under_load), load_times_(stream) {
  WEFT_CUDA(cudaEventCreate(&start_));
  WEFT_CUDA(cudaEventCreate(&stop_));
}

AlgorithmTimes::~AlgorithmTimes() {
  cudaEventDestroy(start_);
  cudaEventDestroy(stop_);
}

std::optional<Algorithm> AlgorithmTimes::Fastest(ProductCall& call, const ProductMemory& memory,
                                                 std::span<const Algorithm> named) {
  Race race{.call = call, .memory = memory, .best = kInfinity};
  for (const Algorithm& one : named) Try(race, one, true);
  if (race.best == kInfinity) return std::nullopt;
  bool compares = under_load_ && race.best >= kLongMilliseconds;
  if (compares) TryOthers(race, named);
  std::stable_sort(race.timed.begin(), race.timed.end(), [](const Timed& a, const Timed& b) { return a.ms < b.ms; });
  return compares ? FastestUnderLoad(race) : race.timed[0].algorithm;
}

void AlgorithmTimes::Try(Race& race, const Algorithm& algorithm, bool named) {
  float ms = Time(race, algorithm) / race.slowdown;
  if (ms == kInfinity) return;
  race.timed.push_back({algorithm, ms, named});
  race.best = std::min(race.best, ms);
}

// Only for memory that is aligned to whole vectors: the library checks other alignments only where it names algorithms.
void AlgorithmTimes::TryOthers(Race& race, std::span<const Algorithm> named) {
  const ProductMemory& memory = race.memory;
  for (const void* data : {memory.a, memory.b, memory.c, static_cast<const void*>(memory.d), memory.bias, memory.gelu})
    if (AlignmentOf(data) < AlignmentOf(nullptr)) return;
  AlgorithmSearch search(race.call.Described(library_, memory), {named.begin(), named.end()});
  double part = std::clamp(double(race.best) / kMillisecondsPerPart, 1., 2.);
  TryFor(race, search.Tiles(), part * kTileSeconds);
  std::vector<Timed> fastest = race.timed;
  std::stable_sort(fastest.begin(), fastest.end(), [](const Timed& a, const Timed& b) { return a.ms < b.ms; });
  std::vector<Algorithm> bases;
  for (const Timed& one : fastest)
    if (bases.size() < kBases) bases.push_back(one.algorithm);
  TryFor(race, search.Neighbours(bases), part * kNeighbourSeconds);
}

// The clock falls while algorithms run, which would make later ones look slower. So the first one that worked runs
// once more now and then, and times are given at the clock of its first burst.
void AlgorithmTimes::TryFor(Race& race, const std::vector<Algorithm>& algorithms, double seconds) {
  auto begin = std::chrono::steady_clock::now();
  const Timed reference = race.timed[0];
  for (const Algorithm& one : algorithms) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) return;
    if (race.tried++ % kPerReference == 0)
      if (float now = TimeRecorded(race, reference.algorithm, reference.ms); now < kInfinity)
        race.slowdown = now / reference.ms;
    Try(race, one, false);
  }
}

// Returns the fastest candidates in bursts. The best named one is among them even if it is not close.
std::vector<AlgorithmTimes::Timed> AlgorithmTimes::Finalists(Race& race) {
  const Timed best_named = *std::ranges::find(race.timed, true, &Timed::named);
  std::vector<Timed> finalists;
  size_t named = 0, others = 0;
  for (const Timed& one : race.timed) {
    bool close = one.ms <= kClose * race.best, first = one.named && named == 0;
    size_t& count = one.named ? named : others;
    if (!first && (!close || count == (one.named ? kMostNamed : kMostOthers))) continue;
    if (!one.named && !IsSame(race, one.algorithm, best_named.algorithm)) continue;
    count++;
    finalists.push_back(one);
  }
  return finalists;
}

// Whether the algorithm computes what the named one does. The library promises that of all algorithms that it accepts,
// and a wrong one would stay in the file.
bool AlgorithmTimes::IsSame(Race& race, const Algorithm& algorithm, const Algorithm& named) {
  auto sample = [&](const Algorithm& one) {
    Check(Launch(race, one), "cublasLtMatmul");
    return ResultSample(race.call.product(), race.memory.d, stream_);
  };
  if (!race.expected) race.expected = sample(named);
  return sample(algorithm).Agrees(*race.expected);
}

Algorithm AlgorithmTimes::FastestUnderLoad(Race& race) {
  std::vector<Timed> finalists = Finalists(race);
  if (finalists.size() == 1) return finalists[0].algorithm;
  int launches = std::clamp(int(kReplayMilliseconds / race.best), 1, kMostLaunches);
  std::vector<Recording> recordings;
  std::vector<cudaGraphExec_t> all;
  std::vector<float> ms;
  for (const Timed& one : finalists) {
    recordings.push_back(Record(race, one.algorithm, launches));
    if (!recordings.back()) return finalists[0].algorithm;
    all.push_back(recordings.back().get());
    ms.push_back(one.ms * float(launches));
  }
  std::vector<float> settled = load_times_.Of(all, ms);
  return finalists[size_t(std::ranges::min_element(settled) - settled.begin())].algorithm;
}

// Returns the milliseconds of one launch; infinite if the algorithm fails.
float AlgorithmTimes::Time(Race& race, const Algorithm& algorithm) {
  if (Launch(race, algorithm) != CUBLAS_STATUS_SUCCESS) return kInfinity;
  float once = Elapsed([&] { Check(Launch(race, algorithm), "cublasLtMatmul"); });
  if (once > (once < kSampleMilliseconds ? 2 : kFar) * race.best * race.slowdown) return once;
  return TimeRecorded(race, algorithm, once);
}

// Returns the milliseconds per launch in a recording. `once` is about that time. Some algorithms begin with a fill,
// after which a kernel of a recording starts 5 us later. In a step that is a third of a product of 8192 x 768 x 768.
float AlgorithmTimes::TimeRecorded(Race& race, const Algorithm& algorithm, float once) {
  int launches = std::clamp(int(kSampleMilliseconds / once), 1, kMostLaunches);
  Recording recording = Record(race, algorithm, launches);
  if (!recording) return kInfinity;
  std::vector<float> samples(size_t(SamplesOf(once * float(launches))));
  for (float& sample : samples) sample = Elapsed([&] { WEFT_CUDA(cudaGraphLaunch(recording.get(), stream_)); });
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2] / float(launches);
}

// Returns null if the algorithm fails.
AlgorithmTimes::Recording AlgorithmTimes::Record(Race& race, const Algorithm& algorithm, int launches) {
  WEFT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  for (int i = 0; i < launches && status == CUBLAS_STATUS_SUCCESS; i++) status = Launch(race, algorithm);
  cudaGraph_t graph = nullptr;
  WEFT_CUDA(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t recording = nullptr;
  cudaError_t made = cudaGraphInstantiate(&recording, graph, 0);
  cudaGraphDestroy(graph);
  Check(made, "cudaGraphInstantiate");
  Recording owned(recording);
  return status == CUBLAS_STATUS_SUCCESS ? std::move(owned) : nullptr;
}

float AlgorithmTimes::Elapsed(absl::FunctionRef<void()> issue) {
  WEFT_CUDA(cudaEventRecord(start_, stream_));
  issue();
  WEFT_CUDA(cudaEventRecord(stop_, stream_));
  WEFT_CUDA(cudaEventSynchronize(stop_));
  float milliseconds = 0;
  WEFT_CUDA(cudaEventElapsedTime(&milliseconds, start_, stop_));
  return std::max(milliseconds, 1e-4f);
}

}  // namespace weft::cuda
