// EndWatch: ends the job if a rank waits in a collective of a mesh that this rank has left without calling it.
//
// A rank leaves a mesh at the end of main, for example. Its process still runs, because it waits for the others. So
// without this watch they would wait for it until their timeout.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/dist/failure/failure_watch.h"

namespace weft {

class EndWatch {
 public:
  // Returns a watch for a mesh that this rank destroys now, or null if there is nothing to watch: other ranks report
  // only the calls of the mesh that was watched last. `failures` must outlive the watch.
  static std::shared_ptr<EndWatch> Of(FailureWatch& failures, const DeviceMesh& mesh);
  EndWatch(FailureWatch& failures, std::vector<uint64_t> made);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

 private:
  void Loop();

  FailureWatch& failures_;
  std::vector<uint64_t> made_;  // calls of this rank, by group
  std::mutex mutex_;
  std::condition_variable changed_;
  bool quit_ = false;
  std::thread thread_;
};

}  // namespace weft
