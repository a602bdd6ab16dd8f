// Times the algorithms of one product in bursts, cheaply, to find those that are worth seconds at settled clocks.
//   Bursts bursts(bench, task, without);   // times those that the heuristic names
//   bursts.Try(more, 1);                   // adds others for at most one second
#pragma once
#include <cstdlib>
#include <limits>
#include <set>

#include "launches.h"
#include "model_products.h"

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Bursts {
 public:
  struct Counts {
    size_t named = 0, accepted = 0, timed = 0, repeats = 0, failed = 0, wrong = 0;
  };

  // Keys in `without`, each after a comma, are of algorithms that are not run.
  Bursts(Bench& bench, Task& t, const std::string& without) : bench_(bench), t_(t), without_(without + ",") {
    for (cudaEvent_t* e : {&begin_, &end_}) Check(cudaEventCreate(e), "create an event");
    ProductShape shape = t.shape;
    shape.candidates = kMostCandidates;
    t.product = std::make_shared<Product>(bench.cublas, shape);
    counts_.named = t.product->candidates();
    t.burst_ms.assign(counts_.named, kInfinity);
    TimeNamed();
  }
  ~Bursts() {
    for (cudaEvent_t e : {begin_, end_}) cudaEventDestroy(e);
  }
  Bursts(const Bursts&) = delete;
  Bursts& operator=(const Bursts&) = delete;

  // Adds algorithms to the product's candidates and times them until the seconds are over.
  void Try(const std::vector<Algorithm>& algorithms, double seconds) {
    const auto begin = std::chrono::steady_clock::now();
    counts_.accepted += algorithms.size();
    for (const Algorithm& one : algorithms) {
      if (SecondsSince(begin) > seconds) return;
      if (without_.find("," + weft::cuda::KeyOf(one) + ",") != std::string::npos) continue;
      t_.product->Add(one);
      t_.burst_ms.push_back(kInfinity);
      Time(t_.product->candidates() - 1);
    }
  }

  // Returns the candidates that have a time, the fastest first.
  std::vector<size_t> Sorted() const {
    std::vector<size_t> order;
    for (size_t i = 0; i < t_.burst_ms.size(); ++i)
      if (t_.burst_ms[i] < kInfinity) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return t_.burst_ms[a] < t_.burst_ms[b]; });
    return order;
  }
  std::vector<Algorithm> Fastest(size_t most) const {
    std::vector<Algorithm> fastest;
    for (size_t i : Sorted())
      if (fastest.size() < most) fastest.push_back(t_.product->algorithms()[i]);
    return fastest;
  }
  // Returns whether a candidate's result is right, and counts it if not. Those of the heuristic are trusted.
  bool Right(size_t candidate) {
    if (candidate < counts_.named || ErrorOf(bench_, t_, candidate) <= 1) return true;
    std::fprintf(stderr, "products: %s %s: algorithm %s gives wrong values\n", t_.name, t_.direction,
                 weft::cuda::KeyOf(t_.product->algorithms()[candidate]).c_str());
    ++counts_.wrong;
    t_.burst_ms[candidate] = kInfinity;
    return false;
  }
  const Counts& counts() const { return counts_; }
  float best_ms() const { return best_; }

  // Returns what a candidate launches, without running it. Empty where it cannot be captured.
  Launches Captured(size_t candidate) {
    t_.product->Choose(candidate);
    cudaGraph_t graph = nullptr;
    Launches launches;
    Check(cudaStreamBeginCapture(bench_.stream, cudaStreamCaptureModeThreadLocal), "begin a capture");
    const bool issued = TryLaunch();
    if (cudaStreamEndCapture(bench_.stream, &graph) == cudaSuccess && issued) launches = LaunchesOf(graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    return launches;
  }

 private:
  // A candidate whose launch takes so many times as long as the best is not timed further. A short launch by itself
  // takes up to twice as long as in a burst.
  static constexpr float kFar = 1.3f, kFarIfShort = 2, kShortMs = 0.2f;
  static constexpr float kLongMs = 4;  // a launch that takes as long is its own burst
  static constexpr double kHangs = 5;  // seconds
  static constexpr size_t kPerReference = 8;

  bool TryLaunch() const {
    return t_.product->TryRun(t_.a, t_.b, t_.c, bench_.workspace.data(), bench_.stream) == CUBLAS_STATUS_SUCCESS;
  }

  // A run of the first one heats the GPU before, so that all times are at about the same clock.
  void TimeNamed() {
    t_.product->Choose(0);
    if (FirstMs() == kInfinity) throw std::runtime_error("the heuristic's first algorithm fails");
    t_.burst_ms[0] = Ms(1);
    RunCandidate(bench_, t_, 0, 0.3);
    for (size_t i = 0; i < counts_.named; ++i) Time(i);
    reference_ = Sorted().at(0);
    reference_ms_ = BurstMs(reference_);
  }

  // Sets the time of a candidate if it works and is not far slower than the best. It stays infinite for a candidate
  // that launches the same work as an earlier one.
  void Time(size_t candidate) {
    t_.burst_ms[candidate] = kInfinity;
    const Launches launches = Captured(candidate);
    if (!launches.work.empty() && !works_.insert(launches.work).second) {
      ++counts_.repeats;
      return;
    }
    if (FirstMs() == kInfinity) {
      ++counts_.failed;
      return;
    }
    if (++counts_.timed % kPerReference == 0 && reference_ms_ > 0) {
      slowdown_ = BurstMs(reference_) / reference_ms_;
      t_.product->Choose(candidate);
    }
    const float once = Ms(1);
    if (once > (best_ < kShortMs ? kFarIfShort : kFar) * best_ * slowdown_) return;
    const float ms = t_.burst_ms[candidate] = (once < kLongMs ? BurstMs(candidate) : once) / slowdown_;
    if (ms < best_ && Right(candidate)) best_ = ms;
  }

  // Returns the ms of a first launch, which also loads the kernel. Infinite if it fails. Ends the program if the GPU is
  // of no use after it.
  float FirstMs() {
    Check(cudaEventRecord(begin_, bench_.stream), "record the start");
    const bool issued = TryLaunch();
    Check(cudaEventRecord(end_, bench_.stream), "record the end");
    const auto begin = std::chrono::steady_clock::now();
    cudaError_t status = cudaErrorNotReady;
    while (status == cudaErrorNotReady && SecondsSince(begin) < kHangs) status = cudaEventQuery(end_);
    cudaGetLastError();
    if (status == cudaErrorNotReady) Abandon("does not end");
    if (status != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess) Abandon(cudaGetErrorString(status));
    float ms = 0;
    if (!issued || status != cudaSuccess || cudaEventElapsedTime(&ms, begin_, end_) != cudaSuccess) return kInfinity;
    return ms;
  }

  // Exits at once, because after such an error even freeing memory may wait forever.
  [[noreturn]] void Abandon(const char* why) const {
    const std::string key = weft::cuda::KeyOf(t_.product->algorithms()[t_.product->choice()]);
    std::fprintf(stderr, "products: %s %s: algorithm %s: %s. Leave it out by without=%s\n", t_.name, t_.direction,
                 key.c_str(), why, key.c_str());
    std::fflush(stdout);
    std::_Exit(1);
  }

  // Returns the ms per launch of some launches of the chosen candidate.
  float Ms(int launches) {
    float ms = 0;
    Check(cudaEventRecord(begin_, bench_.stream), "record the start");
    for (int i = 0; i < launches; ++i) Launch(bench_, t_);
    Check(cudaEventRecord(end_, bench_.stream), "record the end");
    Check(cudaEventSynchronize(end_), "run a burst");
    Check(cudaEventElapsedTime(&ms, begin_, end_), "read a time");
    return ms / float(launches);
  }

  // Returns the median of up to 5 bursts of 0.4 ms.
  float BurstMs(size_t candidate) {
    t_.product->Choose(candidate);
    const float once = Ms(1);
    const int launches = std::clamp(int(0.4f / once), 1, 20);
    std::vector<float> samples(size_t(std::clamp(int(4 / (once * float(launches))), 1, 5) | 1));
    for (float& sample : samples) sample = Ms(launches);
    return Median(samples);
  }

  Bench& bench_;
  Task& t_;
  std::string without_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  Counts counts_;
  float best_ = kInfinity;
  // The GPU's clock changes while candidates are timed. A named candidate that is timed again now and then says by how
  // much, and times are given at the clock of its first burst.
  size_t reference_ = 0;
  float reference_ms_ = 0, slowdown_ = 1;
  std::set<std::string> works_;
};
