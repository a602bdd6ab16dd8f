// Tensors on a device get the values of the host's boxes, whatever the size of the pieces.
#include "weft/core/runtime/filler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "double/device_double.h"

namespace weft {
namespace {

struct Source {
  Box box;
  Tensor values;
  BoxData data() const { return {box, values.dtype(), values.as<std::byte>(), RowMajor(values.shape())}; }
};

// Returns boxes with random values that together form `held`, cut along one dim.
std::vector<Source> Cut(const Box& held, DType dtype, std::mt19937_64& random) {
  std::vector<Source> sources;
  auto add = [&](const Box& box) {
    std::vector<double> values(size_t(Volume(box)));
    for (double& v : values) v = double(random() % 1000) / 8;
    sources.push_back({box, Tensor::FromDoubles(values, dtype, Extents(box))});
  };
  if (held.begin.empty()) add(held);
  if (held.begin.empty()) return sources;
  size_t dim = random() % held.begin.size();
  for (Box box = held; box.begin[dim] < held.end[dim]; box.begin[dim] = box.end[dim]) {
    box.end[dim] = box.begin[dim] + 1 + int64_t(random() % uint64_t(held.end[dim] - box.begin[dim]));
    add(box);
  }
  return sources;
}

// Returns a box somewhere in a global tensor. It has the storage's shape or, if the storage is padded, a smaller one.
Box Held(const Shape& storage, bool padded, std::mt19937_64& random) {
  Box held{storage, storage};
  for (size_t d = 0; d < storage.size(); d++) {
    held.begin[d] = int64_t(random() % 5);
    int64_t extent = storage[d] - (padded && storage[d] > 1 ? int64_t(random() % uint64_t(storage[d])) : 0);
    held.end[d] = held.begin[d] + extent;
  }
  return held;
}

// Returns the expected storage, computed element by element, with zeros as padding.
Tensor Expected(const Shape& storage, DType dtype, const Box& held, const std::vector<Source>& sources) {
  Tensor want = Tensor::Zeros(dtype, storage);
  for (const Source& s : sources) CopyMeeting(s.data(), {held, dtype, want.as<std::byte>(), RowMajor(storage)});
  return want;
}

TEST(Filler, GivesTheDeviceWhatTheBoxesHave) {
  std::mt19937_64 random(3);
  test::DeviceDouble device(20);
  const Shape shapes[] = {{}, {1}, {9}, {1, 7}, {8, 3}, {1, 1, 6}, {3, 4, 5}, {1, 6, 2, 3}};
  int cases = 0;
  for (size_t piece : {size_t(1), size_t(24), size_t(100), Filler::kPiece})
    for (size_t locked : {size_t(0), SIZE_MAX}) {
      device.set_most_staging(locked);
      Filler filler(device, piece);
      for (const Shape& shape : shapes)
        for (DType from : {DType::kF32, DType::kBF16})
          for (DType to : {DType::kF32, DType::kF64, DType::kBF16})
            for (bool padded : {false, true}) {
              Box held = Held(shape, padded, random);
              std::vector<Source> sources = Cut(held, from, random);
              std::vector<BoxData> parts;
              for (const Source& s : sources) parts.push_back(s.data());
              Tensor there = Tensor::Empty(to, shape, device);
              device.Fill(there.data(), 0x55, there.bytes());
              filler.Fill(there, held, parts);
              filler.Finish();
              Tensor got = there.To(CpuRuntime()), want = Expected(shape, to, held, sources);
              ASSERT_EQ(std::memcmp(got.data(), want.data(), want.bytes()), 0)
                  << ToString(shape) << " in pieces of " << piece << ", " << sources.size() << " boxes";
              cases++;
            }
    }
  EXPECT_EQ(cases, 4 * 2 * 8 * 2 * 3 * 2);
}

// The host continues while the device is late. It must not overwrite a piece before the device has copied it.
TEST(Filler, WaitsForAPieceThatIsStillCopied) {
  test::DeviceDouble device(200);
  constexpr int64_t kRows = 200;
  std::vector<double> values(kRows);
  for (int64_t i = 0; i < kRows; i++) values[size_t(i)] = double(i);
  Source source{{{0}, {kRows}}, Tensor::FromDoubles(values, DType::kF64, {kRows})};
  Filler filler(device, sizeof(double));
  Tensor there = Tensor::Zeros(DType::kF64, {kRows}, device);
  filler.Fill(there, source.box, std::vector<BoxData>{source.data()});
  filler.Finish();
  EXPECT_EQ(there.To(CpuRuntime()).ToDoubles(), values);
}

// Without elements there is nothing to copy or allocate.
TEST(Filler, TakesATensorOfNothing) {
  test::DeviceDouble device;
  Tensor there = Tensor::Zeros(DType::kF32, {0, 4}, device);
  FillHeld(there, {{0, 0}, {0, 4}}, {});
}

}  // namespace
}  // namespace weft
