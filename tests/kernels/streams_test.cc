// Laws of a device with streams. They run on a device double, and on a GPU if ctest selects one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "double/device_double.h"
#include "error_of.h"
#include "weft/core/base/tensor.h"
#include "weft/kernels/common/cuda_library.h"

namespace weft {
namespace {

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    const char* name = std::getenv("WEFT_TEST_DEVICE");
    if (!name || std::string_view(name) != "cuda") {
      context_.AddDevice(std::make_unique<test::DeviceDouble>(50));
    } else if (absl::Status s = OpenCuda(context_, 0); !s.ok()) {
      FAIL() << s;
    }
    device_ = StreamsOf(context_.device(DeviceKind::kCuda));
    ASSERT_TRUE(device_);
  }
  StreamedDevice& device() { return *device_; }

 private:
  Context context_{0, 1};
  StreamedDevice* device_ = nullptr;
};

// Not the sum of the most of the device's own allocations and the most of libraries, which are at different times.
TEST_F(Streams, PeakIsTheMostInUseAtATime) {
  constexpr size_t kUnit = size_t(8) << 20;
  auto allocate = [&](size_t units) { return device().Allocate(units * kUnit); };
  auto most = [&, before = device().PeakBytes()] { return (device().PeakBytes() - before) / kUnit; };
  BufferPtr held = allocate(6);
  EXPECT_EQ(most(), 6u);
  held.reset();
  device().Synchronize();
  device().CountOutside(4 * int64_t(kUnit));
  EXPECT_EQ(most(), 6u);
  held = allocate(1);
  EXPECT_EQ(most(), 6u);
  BufferPtr more = allocate(3);
  EXPECT_EQ(most(), 8u);
  device().CountOutside(-4 * int64_t(kUnit));
  EXPECT_EQ(most(), 8u);
  BufferPtr rest = allocate(5);
  EXPECT_EQ(most(), 9u);
}

TEST_F(Streams, ProgressMovesOnWhenTheDeviceComesToIt) {
  auto progress = device().NewProgress(), other = device().NewProgress();
  EXPECT_EQ(progress->begun(), 0u);
  progress->Add(1, 0);
  progress->Add(2, 1);
  device().Synchronize();
  EXPECT_EQ(progress->begun(), 3u);
  EXPECT_EQ(progress->ended(), 1u);
  auto beside = device().NewStream();
  auto made = device().NewEvent(), moved = device().NewEvent();
  auto recording = device().Record([&] {
    progress->Add(1, 0);
    made->Record();
    {
      StreamScope scope(device(), beside.get());
      device().Wait(*made);
      other->Add(0, 1);
      moved->Record();
    }
    device().Wait(*moved);
    progress->Add(0, 1);
  });
  EXPECT_EQ(device().recording(), 0u);
  for (int i = 0; i < 100; i++) recording->Replay();
  device().Synchronize();
  EXPECT_EQ(progress->begun(), 103u);
  EXPECT_EQ(progress->ended(), 101u);
  EXPECT_EQ(other->begun(), 0u);
  EXPECT_EQ(other->ended(), 100u);
}

// Work of one stream moves its frontier, and no work of another stream does.
TEST_F(Streams, WorkMovesTheFrontierOfItsStream) {
  EXPECT_TRUE(device().Frontier().empty());
  BufferPtr buffer = device().Allocate(64);
  auto beside = device().NewStream();
  auto made = device().NewEvent(), moved = device().NewEvent();
  auto progress = device().NewProgress();
  auto recording = device().Record([&] {
    device().Fill(buffer->data(), 1, 64);
    auto first = device().Frontier();
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(device().Frontier(), first);
    made->Record();
    auto marked = device().Frontier();
    {
      StreamScope scope(device(), beside.get());
      device().Wait(*made);
      auto waited = device().Frontier();
      device().Fill(buffer->data(), 2, 64);
      EXPECT_NE(device().Frontier(), waited);
      moved->Record();
    }
    EXPECT_EQ(device().Frontier(), marked);
    device().Wait(*moved);
    EXPECT_NE(device().Frontier(), marked);
    device().Fill(buffer->data(), 3, 64);
    auto last = device().Frontier();
    EXPECT_NE(last, first);
    progress->Add(1, 1);
    device().Fill(buffer->data(), 4, 64);
    EXPECT_NE(device().Frontier(), last);
  });
  EXPECT_TRUE(device().Frontier().empty());
  recording->Replay();
  device().Synchronize();
  EXPECT_EQ(progress->ended(), 1u);
}

// Two streams pass a value to each other. Every replay keeps the recorded order.
TEST_F(Streams, AReplayKeepsTheOrderOfEvents) {
  constexpr int kBytes = 1 << 16;
  BufferPtr a = device().Allocate(kBytes), b = device().Allocate(kBytes), host = device().AllocateStaging(2);
  device().Fill(a->data(), 0, kBytes);
  auto beside = device().NewStream();
  auto made = device().NewEvent(), moved = device().NewEvent();
  auto step = [&](uint8_t byte) {
    device().Fill(a->data(), byte, kBytes);
    made->Record();
    {
      StreamScope scope(device(), beside.get());
      device().Wait(*made);
      device().Copy(b->data(), a->data(), kBytes);
      moved->Record();
    }
    device().Wait(*moved);
  };
  auto recording = device().Record([&] {
    step(1);
    device().Copy(host->data(), static_cast<char*>(b->data()) + kBytes - 1, 1);
    step(2);
    device().Copy(static_cast<char*>(host->data()) + 1, static_cast<char*>(b->data()) + kBytes - 1, 1);
  });
  for (int i = 0; i < 20; i++) {
    recording->Replay();
    device().Synchronize();
    EXPECT_EQ(static_cast<char*>(host->data())[0], 1);
    EXPECT_EQ(static_cast<char*>(host->data())[1], 2);
    device().Fill(b->data(), 7, kBytes);
  }
}

// No address space has 2^50 bytes.
TEST_F(Streams, StagingThatTheHostDoesNotLockIsNone) {
  if (auto* twin = dynamic_cast<test::DeviceDouble*>(&device())) twin->set_most_staging(size_t(1) << 40);
  EXPECT_EQ(device().TryAllocateStaging(size_t(1) << 50), nullptr);
  std::string text = test::ErrorOf([&] { device().AllocateStaging(size_t(1) << 50); });
  EXPECT_TRUE(text.starts_with("out of memory on the CPU of host ")) << text;
  BufferPtr host = device().AllocateStaging(2), there = device().Allocate(2);  // works after the failure
  device().Fill(there->data(), 3, 2);
  device().Copy(host->data(), there->data(), 2);
  device().Synchronize();
  EXPECT_EQ(static_cast<char*>(host->data())[1], 3);
}

TEST_F(Streams, WhatIsAskedForBeforeAReplayComesFirstAndMayPreventIt) {
  auto progress = device().NewProgress();
  int asked = 0;
  uint64_t recorded = 0;
  auto recording = device().Record([&] {
    recorded = device().recording();
    device().BeforeReplay([&] {
      if (++asked == 3) throw Error("no more");
    });
    progress->Add(1, 1);
  });
  EXPECT_GT(recorded, 0u);
  EXPECT_EQ(asked, 0);
  recording->Replay();
  recording->Replay();
  EXPECT_EQ(test::ErrorOf([&] { recording->Replay(); }), "no more");
  device().Synchronize();
  EXPECT_EQ(progress->ended(), 2u);
  EXPECT_NE(test::ErrorOf([&] { device().BeforeReplay([] {}); }), "");
}

TEST_F(Streams, AFailureIsThrownByWhoeverWaits) {
  auto event = device().NewEvent();
  event->Record();
  device().Synchronize();
  EXPECT_TRUE(event->Done());
  auto recording = device().Record([] {});
  device().SetFailure(std::make_exception_ptr(Error("the first")));
  device().SetFailure(std::make_exception_ptr(Error("a second")));
  EXPECT_EQ(test::ErrorOf([&] { device().Synchronize(); }), "the first");
  EXPECT_EQ(test::ErrorOf([&] { event->Done(); }), "the first");
  EXPECT_EQ(test::ErrorOf([&] { recording->Replay(); }), "the first");
}

}  // namespace
}  // namespace weft
