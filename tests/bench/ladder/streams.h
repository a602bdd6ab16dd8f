// Streams, and edges between them that order the work of a step.
//   Edges edges(64);   edges.Restart();   edges.Wait(lane, main);   edges.Wait(main, lane);
#pragma once
#include "probe.h"

inline cudaStream_t Stream(int priority) {
  cudaStream_t stream;
  Check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "create a stream");
  return stream;
}

// The lowest and the highest stream priority. Computation runs with the lowest, and collectives with the highest.
struct Priorities {
  Priorities() { Check(cudaDeviceGetStreamPriorityRange(&low, &high), "read the stream priorities"); }
  int low = 0, high = 0;
};

// Events that order streams. Each issue of a step begins with Restart and then reuses the events from the first one.
class Edges {
 public:
  explicit Edges(size_t most) : events_(most) {
    for (auto& e : events_) Check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "create an event");
  }
  ~Edges() {
    for (auto& e : events_) cudaEventDestroy(e);
  }
  Edges(const Edges&) = delete;
  Edges& operator=(const Edges&) = delete;
  void Restart() { used_ = 0; }
  cudaEvent_t Record(cudaStream_t stream) {
    cudaEvent_t event = events_.at(used_++);
    Check(cudaEventRecord(event, stream), "record an event");
    return event;
  }
  void Wait(cudaStream_t waiter, cudaEvent_t event) { Check(cudaStreamWaitEvent(waiter, event), "wait for an event"); }
  void Wait(cudaStream_t waiter, cudaStream_t stream) { Wait(waiter, Record(stream)); }

 private:
  std::vector<cudaEvent_t> events_;
  size_t used_ = 0;
};
