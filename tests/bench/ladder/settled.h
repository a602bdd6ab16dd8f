// Timing at settled clocks: launches that follow each other for some time, with the mean clock and power.
//   Bench bench;   Settled s = RunFor(bench, 1.0, 20, [&] { Launch(bench.stream); });
#pragma once
#include <chrono>

#include "product.h"
#include "sensors.h"
#include "streams.h"

struct Bench {
  Bench() { Check(cublasLtCreate(&cublas), "make a cuBLASLt handle"); }
  cublasLtHandle_t cublas = nullptr;
  cudaStream_t stream = Stream(Priorities().low);
  Buffer<uint8_t> workspace{kWorkspace};
  Sensors sensors{0};
};

struct Settled {
  double ms = 0, mhz = 0, watts = 0;
};

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Runs launches for at least `seconds`, and returns the mean ms per launch, clock and power. One batch of launches
// waits in the stream while the host reads the clock, so the GPU never idles.
inline Settled RunFor(Bench& bench, double seconds, int batch, const std::function<void()>& launch) {
  cudaEvent_t first, done[2];
  for (cudaEvent_t* e : {&first, &done[0], &done[1]}) Check(cudaEventCreate(e), "create an event");
  const double energy = bench.sensors.Energy();
  const auto begin = std::chrono::steady_clock::now();
  double mhz = 0;
  int batches = 0;
  Check(cudaEventRecord(first, bench.stream), "record the start");
  for (; batches < 2 || SecondsSince(begin) < seconds; ++batches) {
    for (int i = 0; i < batch; ++i) launch();
    Check(cudaEventRecord(done[batches % 2], bench.stream), "record the end of a batch");
    if (batches == 0) continue;
    Check(cudaEventSynchronize(done[(batches - 1) % 2]), "run a batch");
    mhz += bench.sensors.Clock();
  }
  float ms = 0;
  const cudaEvent_t last = done[(batches - 1) % 2];
  Check(cudaEventSynchronize(last), "run the last batch");
  const double watts = (bench.sensors.Energy() - energy) / SecondsSince(begin);
  Check(cudaEventElapsedTime(&ms, first, last), "read a time");
  for (cudaEvent_t e : {first, done[0], done[1]}) Check(cudaEventDestroy(e), "destroy an event");
  return {double(ms) / batches / batch, mhz / (batches - 1), watts};
}
