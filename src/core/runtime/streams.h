// Streams: a device on which work goes on in several orders at once: kernels in one, what moves between ranks in
// another.
//
//   std::unique_ptr<StreamedDevice::Stream> beside = device.NewStream();
//   made->Record();                                    // what is issued so far, on the main stream
//   {
//     StreamScope scope(device, beside.get());
//     device.Wait(*made);
//     group.Enqueue(call);                             // beside what the main stream is given next
//     moved->Record();
//   }
//   device.Wait(*moved);                               // what is issued from here on finds the result
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/core/base/device_runtime.h"

namespace weft {

// A device whose work goes on after the call that issues it. What is issued (kernels, Copy, Fill, Event::Record,
// collectives) goes to the current stream: the main one, unless a StreamScope says otherwise. Work of one stream runs
// in its order, that of two in any order but where Wait sets one. Synchronize waits for the current stream. Where work
// has failed, Synchronize, Event::Done and Recording::Replay throw what it threw, from then on. Used by one thread at a
// time, save that other threads may ask events and counters and call SetFailure.
class StreamedDevice : public DeviceRuntime {
 public:
  // An order of work beside the main one. Its destructor waits for what it was given, unless an exception unwinds.
  class Stream {
   public:
    virtual ~Stream() = default;
  };
  // A number that work moves on. The host can read it where the work comes to no end.
  class Counter {
   public:
    virtual ~Counter() = default;
    virtual void Add(uint64_t more) = 0;  // when the current stream comes here
    virtual uint64_t Value() const = 0;   // by any thread; some milliseconds late at most
  };

  virtual std::unique_ptr<Stream> NewStream() = 0;
  // Not while recording.
  virtual std::unique_ptr<Counter> NewCounter() = 0;
  // What is issued next to the current stream begins when all is done that stood before the event's last Record. The
  // event may be recorded again at once. It is of this device.
  virtual void Wait(Event& event) = 0;
  // Rows of `bytes`, of memory that the device reaches, which lie `to_stride` and `from_stride` bytes apart.
  virtual void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                        int64_t rows) = 0;
  // The current stream as the device's libraries take it: a cudaStream_t.
  virtual void* Handle() = 0;

  // The number of the recording, from 1, that takes what is issued now (Record); 0: none does, it is done at once.
  uint64_t recording() const { return recording_; }
  // While recording: fn is called each time the recording is replayed, before its work is issued. A throw prevents
  // that.
  void BeforeReplay(std::function<void()> fn);
  // Off: Record has no use for recordings, as where work of the host comes between that of the device.
  void set_records(bool records) { records_ = records; }
  // Work has failed and the device does not know, as when a rank does not come to a collective. The first error counts.
  void SetFailure(std::exception_ptr error);
  std::exception_ptr failure() const;

 protected:
  using Calls = std::vector<std::function<void()>>;

  bool records() const { return records_; }
  // Calls fn while recording() is a new number; returns what is to be called before a replay.
  Calls RecordCalls(absl::FunctionRef<void()> fn);
  void ThrowFailure() const;

 private:
  friend class StreamScope;
  friend class StreamRecording;
  // Makes `stream` the current one (null: the main one), and returns the one before.
  virtual Stream* Use(Stream* stream) = 0;

  bool records_ = true;
  uint64_t recording_ = 0, recordings_ = 0;
  Calls before_replay_;  // of what is recorded now
  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

// What Record of such a device returns.
class StreamRecording : public DeviceRuntime::Recording {
 public:
  void Replay() final;

 protected:
  // `before`: what RecordCalls returned.
  StreamRecording(StreamedDevice& device, std::vector<std::function<void()>> before)
      : device_(device), before_(std::move(before)) {}

 private:
  virtual void Issue() = 0;  // to the main stream

  StreamedDevice& device_;
  std::vector<std::function<void()>> before_;
};

// While it lives, `stream` is the device's current one. Scopes nest.
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

// The device as one with streams; null for one whose work is done when the call that issues it returns.
inline StreamedDevice* StreamsOf(DeviceRuntime& device) { return dynamic_cast<StreamedDevice*>(&device); }

}  // namespace weft
