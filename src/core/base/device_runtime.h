// DeviceRuntime: what a device provides besides its kernels: memory, copies and the order of its work.
//
// Each rank has one per device, owned by its Context. All contexts share the CPU's. Work on a device (kernels, Copy,
// Fill) runs in the order in which it was issued, possibly after the call that issued it returns. Synchronize or an
// Event reports completion.
#pragma once
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "weft/core/base/buffer.h"
#include "weft/core/base/memory.h"

namespace weft {

class DeviceRuntime {
 public:
  // A point in the order of the device's work.
  class Event {
   public:
    virtual ~Event() = default;
    virtual void Record() = 0;  // moves the event to the current point
    virtual bool Done() = 0;    // whether all work issued before the last Record is done; never waits
  };
  // Work that was recorded once and can be issued again with one call.
  class Recording {
   public:
    virtual ~Recording() = default;
    virtual void Replay() = 0;
  };

  virtual ~DeviceRuntime() = default;
  virtual Device device() const = 0;
  virtual std::string name() const = 0;  // the product name, "NVIDIA H200"
  // Returns memory with undefined contents, aligned to at least 64 bytes. Throws Error with the requested and the free
  // bytes if there is not enough.
  virtual BufferPtr Allocate(size_t bytes) = 0;
  // Returns host memory that Copy reads and writes without waiting. For a GPU that is page-locked memory. Returns null
  // if the host cannot lock more pages. Throws Error for any other failure.
  virtual BufferPtr TryAllocateStaging(size_t bytes) = 0;
  // Returns staging memory like TryAllocateStaging. Throws Error, as Allocate does, if the host cannot lock more pages.
  BufferPtr AllocateStaging(size_t bytes);
  // Copies between host and device, or within either, in any direction.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  virtual void Fill(void* data, uint8_t byte, size_t bytes) = 0;
  virtual void Synchronize() = 0;
  virtual std::unique_ptr<Event> NewEvent() = 0;
  // Records the work that fn issues, without running it. fn must issue the same work each time it is called and
  // allocate nothing on the device. Returns null, without calling fn, if the device does not use recordings.
  virtual std::unique_ptr<Recording> Record(absl::FunctionRef<void()> fn) = 0;
  virtual Memory MemoryNow() const = 0;
  virtual size_t PeakBytes() const = 0;  // the most memory in use so far; for the CPU, that of the process
};

// Returns the device's name for error messages: "the CPU of host h", "NVIDIA H200 (cuda:0) of host h".
std::string PlaceOf(const DeviceRuntime& runtime);

// The host itself. Its work is done when the call returns. It has no state, so all contexts share it.
DeviceRuntime& CpuRuntime();

}  // namespace weft
