// Streams: a device that runs several sequences of work at the same time, for example kernels in one stream and
// transfers between ranks in another.
//
//   std::unique_ptr<StreamedDevice::Stream> side = device.NewStream();
//   made->Record();                                    // marks the end of the work issued to the main stream
//   {
//     StreamScope scope(device, side.get());
//     device.Wait(*made);
//     group.Enqueue(call);                             // runs at the same time as later work of the main stream
//     moved->Record();
//   }
//   device.Wait(*moved);                               // work issued from here on can read the result
#pragma once
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/core/base/device_runtime.h"
#include "weft/core/base/dtype.h"

namespace weft {

// A device that executes work after the call that issues it returns. Its rules:
// - Work (kernels, Copy, Fill, Event::Record, collectives) goes to the current stream. That is the main stream, unless
//   a StreamScope sets another.
// - Work of one stream runs in order. Two streams have no order between them unless Wait sets one.
// - Synchronize waits for the current stream.
// - After work has failed, Synchronize, Event::Done and Recording::Replay throw its exception each time.
// - One thread at a time may use the device, but any thread may query events and progress and call SetFailure.
class StreamedDevice : public DeviceRuntime {
 public:
  // A stream in addition to the main one. Its destructor waits for the stream's work, unless an exception unwinds.
  class Stream {
   public:
    virtual ~Stream() = default;
  };
  // How many calls have begun and how many have ended, as counted by work. The host can read the numbers even if the
  // work never ends.
  class Progress {
   public:
    virtual ~Progress() = default;
    virtual void Add(uint64_t begun, uint64_t ended) = 0;  // takes effect when the current stream reaches it
    // From any thread. May lag by some milliseconds. Read `ended` first, because `begun` is counted first.
    virtual uint64_t ended() const = 0;
    virtual uint64_t begun() const = 0;
    // For tests: work of the current stream that lasts a random time of up to `most`. Each replay draws another time.
    virtual void Linger(std::chrono::microseconds most) = 0;
  };

  virtual std::unique_ptr<Stream> NewStream() = 0;
  // Must not be called while recording.
  virtual std::unique_ptr<Progress> NewProgress() = 0;
  // While recording, returns what the next work of the current stream comes after. As long as the result is the same,
  // nothing has been added to the stream. Progress::Add may or may not change it.
  virtual std::vector<const void*> Frontier() const = 0;
  // Later work of the current stream starts after all work before the event's last Record is done. The event must
  // belong to this device. It may be recorded again at once.
  virtual void Wait(Event& event) = 0;
  // Copies `rows` rows of `bytes` bytes each, in memory that the device can access. Rows start `to_stride` and
  // `from_stride` bytes apart.
  virtual void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                        int64_t rows) = 0;
  // The operations that sums over ranks in bf16 need. wire_math.h specifies them, and the bits are those of the host.
  virtual void Narrow(BF16* to, const float* from, int64_t count) = 0;
  virtual void Widen(float* to, const BF16* from, int64_t count) = 0;
  virtual void SumChunks(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count) = 0;
  // Returns the current stream in the form that the device's libraries take, for example a cudaStream_t.
  virtual void* Handle() = 0;
  // Waits for the device, and gives memory that nobody uses back to it, so that libraries can allocate it.
  virtual void ReturnUnused() {}
  // Counts memory that a library allocated, or freed if negative, in PeakBytes.
  void CountOutside(int64_t bytes);
  size_t PeakBytes() const final;

  // Returns the number, from 1, of the recording that Record is making, or 0 if work is issued directly.
  uint64_t recording() const { return recording_; }
  // Registers fn for the current recording. It is called before each replay issues its work. If fn throws, no work is
  // issued. Throws Error outside of a recording.
  void BeforeReplay(std::function<void()> fn);
  // With false, Record makes no recordings. Needed if work of the host comes between that of the device.
  void set_records(bool records) { records_ = records; }
  // Reports a failure that the device cannot notice, for example a rank that is missing in a collective. The first
  // error counts.
  void SetFailure(std::exception_ptr error);
  std::exception_ptr failure() const;

 protected:
  using Calls = std::vector<std::function<void()>>;

  bool records() const { return records_; }
  size_t outside() const { return size_t(outside_); }  // bytes that libraries hold now
  // Calls fn while recording() returns a new number. Returns the functions to call before each replay.
  Calls RecordCalls(absl::FunctionRef<void()> fn);
  void ThrowFailure() const;

 private:
  friend class StreamScope;
  friend class StreamRecording;
  // Returns the most bytes that the device's own allocations held at a time since the last ForgetMostInside.
  virtual size_t MostInside() const = 0;
  virtual void ForgetMostInside() = 0;
  // Makes `stream` the current one (null: the main one). Returns the previous one.
  virtual Stream* Use(Stream* stream) = 0;

  bool records_ = true;
  uint64_t recording_ = 0, recordings_ = 0;
  Calls before_replay_;  // those of the current recording
  int64_t outside_ = 0;
  size_t most_before_ = 0;  // the most of all memory before outside_ changed last
  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

// The recordings of a StreamedDevice.
class StreamRecording : public DeviceRuntime::Recording {
 public:
  void Replay() final;

 protected:
  // `before` is the result of RecordCalls.
  StreamRecording(StreamedDevice& device, std::vector<std::function<void()>> before)
      : device_(device), before_(std::move(before)) {}

 private:
  virtual void Issue() = 0;  // to the main stream

  StreamedDevice& device_;
  std::vector<std::function<void()>> before_;
};

// While alive, `stream` is the device's current stream. Scopes nest.
class StreamScope {
 public:
  StreamScope(StreamedDevice& device, StreamedDevice::Stream* stream) : device_(device), before_(device.Use(stream)) {}
  ~StreamScope() { device_.Use(before_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  StreamedDevice& device_;
  StreamedDevice::Stream* before_;
};

// Returns the device as one with streams, or null if its work is done when the call that issues it returns.
inline StreamedDevice* StreamsOf(DeviceRuntime& device) { return dynamic_cast<StreamedDevice*>(&device); }

}  // namespace weft
