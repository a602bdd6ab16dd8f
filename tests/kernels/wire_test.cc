// The arithmetic of sums whose terms are sent between ranks as bf16 (core/runtime/wire_math.h) agrees with rounding and
// sums computed from their definition. The tests run on a device double, which uses the host's arithmetic, and on a GPU
// if ctest selects one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "double/device_double.h"
#include "weft/core/runtime/context.h"
#include "weft/kernels/common/cuda_library.h"

namespace weft {
namespace {

// Rounds to the nearest number of 8 significant bits, ties to even. Below 2^-126 these numbers lie 2^-133 apart.
float Rounded(float x) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = std::max(std::ilogb(x) - 7, -133);
  double y = std::ldexp(std::nearbyint(std::ldexp(double(x), -exponent)), exponent);
  return std::abs(y) >= 0x1p128 ? std::copysign(std::numeric_limits<float>::infinity(), x) : float(y);
}

float Valued(BF16 x) { return float(x); }
float Valued(float x) { return x; }

template <class T>
void ExpectSame(const T* got, const std::vector<float>& want, const std::string& what) {
  for (size_t i = 0; i < want.size(); i++) {
    float value = Valued(got[i]);
    bool same =
        std::isnan(want[i]) ? std::isnan(value) : std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(want[i]);
    if (same) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << value << ", expected " << want[i];
    return;
  }
}

class Wire : public testing::Test {
 protected:
  void SetUp() override {
    const char* name = std::getenv("WEFT_TEST_DEVICE");
    if (!name || std::string_view(name) != "cuda") {
      context_.AddDevice(std::make_unique<test::DeviceDouble>(20));
    } else if (absl::Status s = OpenCuda(context_, 0); !s.ok()) {
      FAIL() << s;
    }
    device_ = StreamsOf(context_.device(DeviceKind::kCuda));
    ASSERT_TRUE(device_);
  }

  // Draws values of all sizes, ties between neighbours in bf16, both zeros, subnormals, infinities and NaN.
  std::vector<float> Draw(int64_t count) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float special[] = {0,
                             -0.0f,
                             kInfinity,
                             -kInfinity,
                             std::numeric_limits<float>::quiet_NaN(),
                             1e-40f,
                             -1e-45f,
                             std::numeric_limits<float>::max(),
                             0x1.fep127f,
                             0x1.ff7ffep127f,
                             -0x1.ffp127f};
    std::vector<float> values;
    for (int64_t i = 0; i < count; i++) {
      uint64_t bits = random_();
      if (bits % 32 == 0) {
        values.push_back(special[bits / 32 % std::size(special)]);
      } else if (bits % 4 == 0) {
        values.push_back(std::bit_cast<float>((uint32_t(bits >> 32) & 0xbf8f0000u) | 0x3f008000u));  // a tie
      } else {
        values.push_back(float(std::ldexp(double(int64_t(bits)), int(bits % 40) - 83)));
      }
    }
    return values;
  }
  template <class T>
  std::vector<T> DrawAs(int64_t count) {
    std::vector<T> values;
    for (float x : Draw(count)) values.push_back(T(x));
    return values;
  }

  // Copies `from` to the device at from_at elements after the start of an allocation, and calls fn with that address
  // and with room for `results` elements, to_at elements after the start of another one. Returns the results. The bytes
  // around them must not change.
  template <class To, class From, class Fn>
  std::vector<To> Run(const std::vector<From>& from, int64_t from_at, int64_t results, int64_t to_at, Fn fn) {
    constexpr int64_t kGuard = 8;
    BufferPtr in = device_->Allocate((size_t(from_at) + from.size()) * sizeof(From));
    std::vector<unsigned char> bytes(size_t(to_at + results + kGuard) * sizeof(To), 0xa5);
    BufferPtr out = device_->Allocate(bytes.size());
    auto* source = static_cast<From*>(in->data()) + from_at;
    device_->Copy(source, from.data(), from.size() * sizeof(From));
    device_->Copy(out->data(), bytes.data(), bytes.size());
    fn(static_cast<To*>(out->data()) + to_at, source);
    device_->Copy(bytes.data(), out->data(), bytes.size());
    device_->Synchronize();
    size_t begin = size_t(to_at) * sizeof(To), end = size_t(to_at + results) * sizeof(To);
    for (size_t i = 0; i < bytes.size(); i++)
      if ((i < begin || i >= end) && bytes[i] != 0xa5) ADD_FAILURE() << "byte " << i << " was written";
    std::vector<To> got(static_cast<size_t>(results));
    std::memcpy(static_cast<void*>(got.data()), bytes.data() + begin, end - begin);
    return got;
  }
  StreamedDevice& device() { return *device_; }

 private:
  Context context_{0, 1};
  StreamedDevice* device_ = nullptr;
  std::mt19937_64 random_{5};
};

// Counts below one vector, vectors with and without a remainder, and several blocks. Offsets that are and are not a
// multiple of 16 bytes.
constexpr int64_t kCounts[] = {0, 1, 2, 7, 8, 9, 16, 31, 1000, 2048, 2049, 4096, 100'003};
constexpr int64_t kPlaces[] = {0, 1, 3, 4, 8};

TEST_F(Wire, NarrowsToNearestEvenAndWidens) {
  for (int64_t count : kCounts)
    for (int64_t from_at : kPlaces)
      for (int64_t to_at : kPlaces) {
        std::string what = fmt::format("{} elements from place {} to {}", count, from_at, to_at);
        std::vector<float> values = Draw(count), want;
        for (float x : values) want.push_back(Rounded(x));
        auto narrow = Run<BF16>(values, from_at, count, to_at,
                                [&](BF16* to, const float* from) { device().Narrow(to, from, count); });
        ExpectSame(narrow.data(), want, "narrow " + what);
        auto wide = Run<float>(narrow, from_at, count, to_at,
                               [&](float* to, const BF16* from) { device().Widen(to, from, count); });
        ExpectSame(wide.data(), want, "widen " + what);
      }
}

TEST_F(Wire, AddsChunksInOrder) {
  for (int64_t chunks : {1, 2, 3, 4, 5, 8, 9, 17})
    for (int64_t count : kCounts)
      for (int64_t at : kPlaces) {
        if (count > 10'000 && (chunks > 5 || at > 1)) continue;  // a large case runs for few chunks and places
        std::string what = fmt::format("{} chunks of {} from place {}", chunks, count, at);
        std::vector<BF16> terms = DrawAs<BF16>(chunks * count);
        std::vector<float> want, rounded;
        for (int64_t i = 0; i < count; i++) {
          float sum = float(terms[size_t(i)]);
          for (int64_t c = 1; c < chunks; c++) sum += float(terms[size_t(c * count + i)]);
          want.push_back(sum);
          rounded.push_back(Rounded(sum));
        }
        auto sums = Run<float>(terms, at, count, at, [&](float* to, const BF16* from) {
          device().SumChunks(to, DType::kF32, from, chunks, count);
        });
        ExpectSame(sums.data(), want, "sum of " + what);
        auto narrow = Run<BF16>(terms, at, count, at, [&](BF16* to, const BF16* from) {
          device().SumChunks(to, DType::kBF16, from, chunks, count);
        });
        ExpectSame(narrow.data(), rounded, "rounded sum of " + what);
      }
}

// A recording can contain these operations, as it can contain kernels.
TEST_F(Wire, IsReplayed) {
  constexpr int64_t kCount = 5000;
  std::vector<float> values = Draw(kCount), want;
  for (float x : values) want.push_back(Rounded(x) + Rounded(x));
  BufferPtr in = device().Allocate(kCount * 4), narrow = device().Allocate(kCount * 4),
            out = device().Allocate(kCount * 4);
  auto* bf16 = static_cast<BF16*>(narrow->data());
  auto step = [&] {
    device().Narrow(bf16, static_cast<const float*>(in->data()), kCount);
    device().Narrow(bf16 + kCount, static_cast<const float*>(in->data()), kCount);
    device().SumChunks(out->data(), DType::kF32, bf16, 2, kCount);
  };
  step();  // the first call loads the kernels
  device().Synchronize();
  auto recording = device().Record(step);
  device().Copy(in->data(), values.data(), kCount * 4);
  device().Fill(out->data(), 0, kCount * 4);
  recording->Replay();
  std::vector<float> got(kCount);
  device().Copy(got.data(), out->data(), kCount * 4);
  device().Synchronize();
  ExpectSame(got.data(), want, "replayed sum");
}

}  // namespace
}  // namespace weft
