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
#include <memory>

#include "weft/core/base/device_runtime.h"

namespace weft {

// A device whose work goes on after the call that issues it. What is issued (kernels, Copy, Fill, Event::Record,
// collectives) goes to the current stream: the main one, unless a StreamScope says otherwise. Work of one stream runs
// in its order, that of two in any order but where Wait sets one. Synchronize waits for the current stream. Where work
// has failed, Synchronize and Event::Done throw what it threw, from then on. Used by one thread at a time.
class StreamedDevice : public DeviceRuntime {
 public:
  // An order of work beside the main one. Its destructor waits for what it was given.
  class Stream {
   public:
    virtual ~Stream() = default;
  };

  virtual std::unique_ptr<Stream> NewStream() = 0;
  // What is issued next to the current stream begins when all is done that stood before the event's last Record. The
  // event may be recorded again at once. It is of this device.
  virtual void Wait(Event& event) = 0;
  // Rows of `bytes`, of memory that the device reaches, which lie `to_stride` and `from_stride` bytes apart.
  virtual void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                        int64_t rows) = 0;
  // The current stream as the device's libraries take it: a cudaStream_t.
  virtual void* Handle() = 0;
  // Whether what is issued now is recorded (Record), to be done when that is replayed.
  virtual bool IsRecording() const = 0;
  // Off: Record has no use for recordings, as where work of the host comes between that of the device.
  void set_records(bool records) { records_ = records; }

 protected:
  bool records_ = true;

 private:
  friend class StreamScope;
  // Makes `stream` the current one (null: the main one), and returns the one before.
  virtual Stream* Use(Stream* stream) = 0;
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
