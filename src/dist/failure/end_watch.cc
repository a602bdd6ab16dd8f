#include "weft/dist/failure/end_watch.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <system_error>

namespace weft {

// A rank that unwinds ends without the others, so it does not wait for them. Without a thread for the watch they wait
// until their timeout, which is no reason to fail here.
std::shared_ptr<EndWatch> EndWatch::Of(FailureWatch& failures, const DeviceMesh& mesh) {
  if (mesh.size() == 1 || std::uncaught_exceptions() > 0 || !failures.ReportsOn(mesh)) return nullptr;
  try {
    return std::make_shared<EndWatch>(failures, mesh.NumCalls());
  } catch (const std::system_error&) {
    return nullptr;
  }
}

EndWatch::EndWatch(FailureWatch& failures, std::vector<uint64_t> made)
    : failures_(failures), made_(std::move(made)), thread_([this] { Loop(); }) {}

EndWatch::~EndWatch() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// Most meshes end within the first pause, and ask nothing. In a large job every rank that has left asks all others, so
// they ask less often.
void EndWatch::Loop() {
  auto pause = std::max(std::chrono::milliseconds(1000), std::chrono::milliseconds(30) * failures_.num_ranks());
  std::string before;  // the call that a rank waited in when it was asked last
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [this] { return quit_; })) {
    lock.unlock();
    std::string missed = failures_.MissedCall(made_);
    if (!missed.empty() && missed == before) failures_.Missed(missed);
    before = missed;
    lock.lock();
  }
}

}  // namespace weft
