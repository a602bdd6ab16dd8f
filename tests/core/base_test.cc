// Tests of the small value types: attributes, devices and their scope, shapes, tensors and errors.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "error_of.h"
#include "weft/core/base/attrs.h"
#include "weft/core/base/device.h"
#include "weft/core/base/error.h"
#include "weft/core/base/tensor.h"
#include "weft/core/host/small_file.h"

namespace weft {
namespace {

TEST(DefaultDevice, IsTheInnermostScopesOnThisThread) {
  EXPECT_EQ(DefaultDevice(), Device{});
  DefaultDeviceScope outer({DeviceKind::kCuda, 1});
  EXPECT_EQ(ToString(DefaultDevice()), "cuda:1");
  try {
    DefaultDeviceScope inner({DeviceKind::kCuda, 2});
    EXPECT_EQ(ToString(DefaultDevice()), "cuda:2");
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(ToString(DefaultDevice()), "cuda:1");
  std::thread([] { EXPECT_EQ(ToString(DefaultDevice()), "cpu:0"); }).join();  // it is per thread: ranks may be threads
}

TEST(Attrs, AreFoundByNameAndReplacedInPlace) {
  Attrs attrs{{"dim", 1},      {"eq", "ab,bc->ac"}, {"k", 0.5}, {"perm", Shape{1, 0}}, {"target", Sharding{Shard(0)}},
              {"causal", true}};
  EXPECT_EQ(attrs.Int("dim"), 1);
  EXPECT_EQ(attrs.Int("causal"), 1);
  EXPECT_EQ(attrs.Text("eq"), "ab,bc->ac");
  EXPECT_EQ(attrs.Float("k"), 0.5);
  EXPECT_EQ(attrs.Ints("perm"), (Shape{1, 0}));
  EXPECT_EQ(attrs.Target("target"), Sharding{Shard(0)});
  EXPECT_EQ(attrs.IntOr("wide", 9), 9);
  attrs.Set({"dim", 2});
  attrs.Set({"start", 3});
  EXPECT_EQ(attrs.Int("dim"), 2);
  EXPECT_EQ(ToString(attrs), "dim=2 eq=ab,bc->ac k=0.5 perm=[1, 0] target=(S(0)) causal=1 start=3");
  EXPECT_EQ(attrs.items().size(), 7u);
}

TEST(Attrs, EqualityIsOfNamesAndValues) {
  Attrs a{{"dim", 1}, {"k", 0.5}};
  Attrs b = a;
  std::string name = "dim";  // an equal name at another address
  const_cast<Attrs::Item&>(b.items()[0]).name = name.c_str();
  EXPECT_EQ(a, b);
  EXPECT_NE(a, (Attrs{{"dim", 2}, {"k", 0.5}}));
  EXPECT_NE(a, (Attrs{{"dim", 1}}));
  EXPECT_NE((Attrs{{"low", 1}}), (Attrs{{"low", 1.0}}));
}

TEST(Attrs, AnAbsentOneSaysWhatThereIs) {
  try {
    Attrs{{"dim", 1}}.Text("eq");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "attribute \"eq\" is missing; the node has dim=1");
  }
}

TEST(Shape, NegativeDimsCountFromTheEnd) {
  for (int rank = 1; rank <= 4; rank++)
    for (int d = 0; d < rank; d++) {
      EXPECT_EQ(NormalizeDim(d, rank, "x"), d);
      EXPECT_EQ(NormalizeDim(d - rank, rank, "x"), d);
    }
  EXPECT_THROW(NormalizeDim(2, 2, "x"), Error);
  EXPECT_THROW(NormalizeDim(-3, 2, "x"), Error);
  EXPECT_THROW(NormalizeDim(0, 0, "x"), Error);
  EXPECT_EQ(NumElements({}), 1);
  EXPECT_EQ(NumElements({3, 0, 2}), 0);
}

TEST(Tensor, ConvertsKeepsAndChecks) {
  for (int i = 0; i < kNumDTypes; i++) {
    Tensor t = Tensor::FromDoubles(std::vector<double>{0, 1, 1, 0}, DType(i), {2, 2});
    EXPECT_EQ(t.ToDoubles(), (std::vector<double>{0, 1, 1, 0}));
    EXPECT_EQ(t.bytes(), 4 * SizeOf(DType(i)));
    Tensor copy = t.Clone();
    EXPECT_NE(copy.data(), t.data());
    EXPECT_EQ(copy.ToDoubles(), t.ToDoubles());
  }
  EXPECT_EQ(Tensor::Scalar(2.5, DType::kBF16).Item(), 2.5);
  EXPECT_THROW(Tensor::Zeros(DType::kF32, {2}).Item(), Error);
  EXPECT_THROW(Tensor::FromDoubles(std::vector<double>{1}, DType::kF32, {2}), Error);
  EXPECT_EQ(Tensor::FromDoubles({1, 2, 3, 4}, DType::kI32, {2, 2}).ToDoubles(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(Tensor::FromDoubles({}, DType::kF32, {0}).num_elements(), 0);
  Tensor whole = Tensor::Zeros(DType::kF32, {4});
  EXPECT_THROW(Tensor(whole.buffer(), 8, DType::kF32, {3}), Error);
  EXPECT_EQ(Tensor(whole.buffer(), 8, DType::kF32, {2}).data(), whole.as<float>() + 2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(whole.data()) % 64, 0u);
}

TEST(Tensor, ThatIsEmptySaysSo) {
  const Tensor empty;
  EXPECT_FALSE(empty.defined());
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"device", [&] { empty.device(); }},
      {"data", [&] { empty.data(); }},
      {"as", [&] { empty.as<float>(); }},
      {"buffer", [&] { empty.buffer(); }},
      {"Reshaped", [&] { empty.Reshaped({1}); }},
      {"Clone", [&] { empty.Clone(); }},
      {"To", [&] { empty.To(CpuRuntime()); }},
      {"ToDoubles", [&] { empty.ToDoubles(); }},
      {"Item", [&] { empty.Item(); }},
  };
  for (const auto& [name, call] : calls)
    EXPECT_EQ(
        test::ErrorOf(call),
        "tensor: expected a tensor with storage, got an empty Tensor (one that was never assigned); assign it first")
        << name;
}

// A file that can be opened but not read is empty. /proc/PID/stat of a process that is ending behaves so; the test uses
// a folder, which always does.
TEST(SmallFile, WhatCannotBeReadIsEmpty) {
  std::string path = testing::TempDir() + "small_file_test";
  std::ofstream(path) << "a b\n\nc";
  EXPECT_EQ(SmallFileText(path), "a b\n\nc");
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(SmallFileText(path), "");
  std::remove(path.c_str());
  EXPECT_EQ(SmallFileText(path), "");
  EXPECT_EQ(SmallFileText(testing::TempDir()), "");
}

}  // namespace
}  // namespace weft
