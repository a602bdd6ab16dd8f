// DeviceRuntime: what a device provides beside its kernels: memory, copies, and the order of the work on it.
//
// One per rank and device; a Context owns it. Work on a device (kernels, Copy, Fill) runs in the order in which it was
// issued, maybe later than the call that issued it: Synchronize, or an Event, tells when it is done.
#pragma once
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "weft/core/base/buffer.h"
#include "weft/core/base/memory.h"

namespace weft {

class DeviceRuntime {
 public:
  // A point in the order of the work.
  class Event {
   public:
    virtual ~Event() = default;
    virtual void Record() = 0;  // here
    virtual bool Done() = 0;    // is everything that was issued before the last Record done? Never waits.
  };
  // Work that was recorded once, to be issued again as one call.
  class Recording {
   public:
    virtual ~Recording() = default;
    virtual void Replay() = 0;
  };

  virtual ~DeviceRuntime() = default;
  virtual Device device() const = 0;
  virtual std::string name() const = 0;  // of the product: "NVIDIA H200"
  // Contents undefined; aligned to 64 bytes at least. Throws Error that tells what was asked for and what is free.
  virtual BufferPtr Allocate(size_t bytes) = 0;
  // Host memory that Copy reads and writes without waiting.
  virtual BufferPtr AllocateStaging(size_t bytes) = 0;
  // Between any two places of the host and this device.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  virtual void Fill(void* data, uint8_t byte, size_t bytes) = 0;
  virtual void Synchronize() = 0;
  virtual std::unique_ptr<Event> NewEvent() = 0;
  // Records what fn issues, without running it. fn must issue the same whenever it is called and allocate nothing on
  // the device. Null where the device has no use for recordings: then fn was not called.
  virtual std::unique_ptr<Recording> Record(absl::FunctionRef<void()> fn) = 0;
  virtual Memory MemoryNow() const = 0;
  virtual size_t PeakBytes() const = 0;  // most memory in use so far; of the CPU: of the process
};

// "the CPU of host h", "NVIDIA H200 (cuda:0) of host h": as errors name it.
std::string PlaceOf(const DeviceRuntime& runtime);

// The host itself. Its work is done when the call returns. It has no state, so all contexts share it.
DeviceRuntime& CpuRuntime();

}  // namespace weft
