// DeviceDouble: stands in for a GPU on hosts without one. The host cannot reach its memory: a host access to such a
// pointer ends the process. Its work runs in streams after the call that issues it.
#pragma once
#include <sys/mman.h>
#include <chrono>
#include <random>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "double/stream_double.h"
#include "weft/core/base/error.h"
#include "weft/core/runtime/wire_math.h"

namespace weft::test {

class DeviceDouble final : public StreamedDevice {
 public:
  // Work starts up to `most_us` microseconds late (StreamDouble).
  explicit DeviceDouble(int most_us = 0, uint64_t seed = 1)
      : most_us_(most_us), next_seed_(seed + 1), main_(most_us, seed) {}
  ~DeviceDouble() override {
    main_.Drain();
    for (auto& [address, bytes] : memory_) munmap(address, bytes->bytes());
  }
  Device device() const override { return {DeviceKind::kCuda, 0}; }
  std::string name() const override { return "a double"; }
  BufferPtr Allocate(size_t bytes) override {
    inside_ += bytes;
    most_inside_ = std::max(most_inside_, inside_);
    return std::make_shared<Buffer>(
        AllocateBytes(bytes), bytes, device(),
        [](Buffer& buffer) {
          auto& device = static_cast<DeviceDouble&>(buffer.runtime());
          device.inside_ -= buffer.bytes();
          device.Release(buffer.data());
        },
        this);
  }
  // Memory that a library allocates. The double frees the rest when it ends.
  void* AllocateBytes(size_t bytes) {
    size_t room = bytes ? bytes : 1;
    void* address = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    WEFT_CHECK(address != MAP_FAILED, "the double has no address left");
    memory_[static_cast<char*>(address)] = AllocateCpu(room);
    return address;
  }
  // Unmaps the address. The bytes stay until the current stream reaches this point, and are poison from then on: NaN,
  // or a negative integer. So what another stream still reads or writes there changes results. They are kept for a
  // while, so that no other memory is there.
  void Release(void* data) {
    auto found = memory_.find(static_cast<char*>(data));
    BufferPtr bytes = found->second;
    munmap(data, bytes->bytes());
    PostAlways([bytes] { std::memset(bytes->data(), 0xFF, bytes->bytes()); });
    memory_.erase(found);
    freed_.push_back(bytes);
    for (freed_bytes_ += bytes->bytes(); freed_bytes_ > kMostFreed; freed_.pop_front())
      freed_bytes_ -= freed_.front()->bytes();
  }
  // Kept as long as the double lives, so that no other memory gets such an address.
  BufferPtr TryAllocateStaging(size_t bytes) override {
    return bytes > most_staging_ ? nullptr : staging_.emplace_back(AllocateCpu(bytes));
  }
  // From now on the host locks at most this many bytes in one allocation.
  void set_most_staging(size_t bytes) { most_staging_ = bytes; }
  // Behaves like a GPU's driver: host memory that is not staging memory is read before the call returns, and a copy to
  // it is done by then.
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    char* target = Reached(static_cast<char*>(to));
    const char* source = Reached(static_cast<char*>(const_cast<void*>(from)));
    std::shared_ptr<std::vector<char>> read;
    if (source == from && !IsStaging(from)) read = std::make_shared<std::vector<char>>(source, source + bytes);
    Post([=] { std::memcpy(target, read ? read->data() : source, bytes); });
    if (target == to && !IsStaging(to)) Synchronize();
  }
  void Fill(void* data, uint8_t byte, size_t bytes) override {
    if (bytes == 0) return;
    char* target = Reached(static_cast<char*>(data));
    Post([=] { std::memset(target, byte, bytes); });
    filled_ = current_;
  }
  void Synchronize() override {
    WEFT_CHECK(recording() == 0, "the double was waited for while it recorded");
    current_->Drain();
    ThrowFailure();
  }
  std::unique_ptr<Event> NewEvent() override { return std::make_unique<Mark>(*this); }
  std::unique_ptr<Recording> Record(absl::FunctionRef<void()> fn) override {
    if (!records()) return nullptr;
    tape_.clear();
    Calls before = RecordCalls(fn);
    return std::make_unique<Tape>(*this, std::move(before), std::exchange(tape_, {}));
  }
  Memory MemoryNow() const override { return {size_t(1) << 40, size_t(1) << 40}; }
  using StreamedDevice::outside;

  std::unique_ptr<Stream> NewStream() override {
    auto stream = std::make_unique<StreamDouble>(std::max(most_us_, beside_us_), next_seed_++);
    newest_ = stream.get();
    return stream;
  }
  // Returns the newest stream. It is valid as long as its owner keeps it.
  Stream& newest_stream() { return *newest_; }
  // Sets how late work may start on streams other than the main one. It applies to streams created from now on.
  void set_beside_us(int most_us) { beside_us_ = most_us; }
  std::unique_ptr<Progress> NewProgress() override { return std::make_unique<Tally>(*this); }
  std::vector<const void*> Frontier() const override {
    auto last =
        std::find_if(tape_.rbegin(), tape_.rend(), [this](const Issued& one) { return one.stream == current_; });
    if (recording() == 0 || last == tape_.rend()) return {};
    return {current_, reinterpret_cast<const void*>(tape_.rend() - last)};
  }
  void Wait(Event& event) override {
    Give([this, &mark = static_cast<Mark&>(event)] {
      Post(current_, [state = mark.state(), until = mark.recorded()] {
        std::unique_lock lock(state->mutex);
        state->passed.wait(lock, [&] { return state->done >= until; });
      });
    });
  }

  void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                int64_t rows) override {
    if (bytes == 0) return;
    char *target = Reached(static_cast<char*>(to)), *source = static_cast<char*>(Reached(from));
    Post([=] {
      for (int64_t i = 0; i < rows; i++) std::memcpy(target + i * to_stride, source + i * from_stride, size_t(bytes));
    });
  }
  void Narrow(BF16* to, const float* from, int64_t count) override {
    Post([=, to = ReachedAs(to), from = ReachedAs(from)] { NarrowOnHost(to, from, count); });
  }
  void Widen(float* to, const BF16* from, int64_t count) override {
    Post([=, to = ReachedAs(to), from = ReachedAs(from)] { WidenOnHost(to, from, count); });
  }
  void SumChunks(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count) override {
    Post([=, to = Reached(to), chunks = ReachedAs(chunks)] { SumChunksOnHost(to, dtype, chunks, num_chunks, count); });
  }
  void* Handle() override { return this; }
  // Whether the last work of the current stream is a Fill.
  bool has_just_filled() const { return filled_ == current_; }

  // Returns where the bytes of one of the double's addresses really are, for work that runs on it. Addresses of the
  // host stay as they are.
  char* Reached(char* at) const {
    auto after = memory_.upper_bound(at);
    if (after == memory_.begin()) return at;
    auto& [address, bytes] = *std::prev(after);
    return at < address + bytes->bytes() ? static_cast<char*>(bytes->data()) + (at - address) : at;
  }
  void* Reached(const void* at) const { return Reached(static_cast<char*>(const_cast<void*>(at))); }
  template <class T>
  T* ReachedAs(T* at) const {
    return static_cast<T*>(Reached(static_cast<const void*>(at)));
  }

  // Posts work to the current stream. It is skipped after a failure, and an exception that it throws is a failure.
  template <class Work>
  void Post(Work work) {
    PostAlways([this, work = std::move(work)] {
      if (failure()) return;
      try {
        work();
      } catch (...) {
        SetFailure(std::current_exception());
      }
    });
  }
  void PostAlways(std::function<void()> task) {
    Give([this, task = std::move(task)] { Post(current_, task); });
  }
  // Calls `issue`, which posts work to the current stream. While recording, it is called at each replay instead.
  void Give(std::function<void()> issue) {
    if (filled_ == current_) filled_ = nullptr;
    if (recording() > 0)
      tape_.push_back({current_, std::move(issue)});
    else
      issue();
  }
  int64_t posted_beside() const { return posted_beside_; }  // work posted to streams other than the main one
  int64_t replays() const { return replays_; }

 private:
  struct Issued {
    StreamDouble* stream;
    std::function<void()> issue;
  };
  class Tape final : public StreamRecording {
   public:
    Tape(DeviceDouble& device, Calls before, std::vector<Issued> issued)
        : StreamRecording(device, std::move(before)), device_(device), issued_(std::move(issued)) {}

   private:
    void Issue() override {
      device_.replays_++;
      StreamDouble* before = device_.current_;
      for (const Issued& issued : issued_) {
        device_.current_ = issued.stream;
        issued.issue();
      }
      device_.current_ = before;
    }
    DeviceDouble& device_;
    std::vector<Issued> issued_;
  };
  class Tally final : public Progress {
   public:
    explicit Tally(DeviceDouble& device) : device_(device) {}
    void Add(uint64_t begun, uint64_t ended) override {
      device_.PostAlways([sums = sums_, begun, ended] {
        sums->begun += begun;
        sums->ended += ended;
      });
    }
    uint64_t ended() const override { return sums_->ended; }
    uint64_t begun() const override { return sums_->begun; }
    void Linger(std::chrono::microseconds most) override {
      device_.PostAlways([draws = draws_, most] {
        std::minstd_rand draw(unsigned(++*draws));
        std::this_thread::sleep_for(most * std::uniform_real_distribution<>(0, 1)(draw));
      });
    }

   private:
    struct Sums {
      std::atomic<uint64_t> begun{0}, ended{0};
    };
    DeviceDouble& device_;
    std::shared_ptr<std::atomic<uint64_t>> draws_ = std::make_shared<std::atomic<uint64_t>>(0);
    std::shared_ptr<Sums> sums_ = std::make_shared<Sums>();
  };
  class Mark final : public Event {
   public:
    struct State {
      std::mutex mutex;
      std::condition_variable passed;
      uint64_t done = 0;
    };
    explicit Mark(DeviceDouble& device) : device_(device) {}
    void Record() override {
      device_.Give([this] {
        device_.Post(device_.current_, [state = state_, here = ++recorded_] {
          std::lock_guard lock(state->mutex);
          state->done = std::max(state->done, here);
          state->passed.notify_all();
        });
      });
    }
    bool Done() override {
      device_.ThrowFailure();
      std::lock_guard lock(state_->mutex);
      return state_->done >= recorded_;
    }
    const std::shared_ptr<State>& state() const { return state_; }
    uint64_t recorded() const { return recorded_; }

   private:
    DeviceDouble& device_;
    std::shared_ptr<State> state_ = std::make_shared<State>();
    uint64_t recorded_ = 0;
  };

  void Post(StreamDouble* stream, std::function<void()> task) {
    if (stream != &main_) posted_beside_++;
    stream->Post(std::move(task));
  }
  size_t MostInside() const override { return most_inside_; }
  void ForgetMostInside() override { most_inside_ = inside_; }
  Stream* Use(Stream* stream) override {
    auto* next = stream ? static_cast<StreamDouble*>(stream) : &main_;
    StreamDouble* before = std::exchange(current_, next);
    return before == &main_ ? nullptr : before;
  }
  bool IsStaging(const void* data) const {
    auto* at = static_cast<const char*>(data);
    return std::any_of(staging_.begin(), staging_.end(), [at](const BufferPtr& b) {
      auto* begin = static_cast<const char*>(b->data());
      return begin <= at && at < begin + b->bytes();
    });
  }

  int most_us_, beside_us_ = 0;
  size_t most_staging_ = SIZE_MAX;
  uint64_t next_seed_;
  StreamDouble* newest_ = nullptr;
  const StreamDouble* filled_ = nullptr;
  static constexpr size_t kMostFreed = 64 << 20;
  std::map<char*, BufferPtr> memory_;  // the bytes of each address
  std::deque<BufferPtr> freed_;
  size_t inside_ = 0, most_inside_ = 0;  // bytes of Allocate
  size_t freed_bytes_ = 0;
  std::vector<BufferPtr> staging_;
  std::vector<Issued> tape_;  // the work of the current recording
  int64_t posted_beside_ = 0, replays_ = 0;
  StreamDouble main_;  // declared after the members that its work uses
  StreamDouble* current_ = &main_;
};

// While it lives, or until Release, the stream starts no work.
class Hold {
 public:
  explicit Hold(StreamedDevice::Stream& stream) : stream_(static_cast<StreamDouble&>(stream)) { stream_.SetHeld(true); }
  ~Hold() { Release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void Release() { stream_.SetHeld(false); }

 private:
  StreamDouble& stream_;
};

}  // namespace weft::test
