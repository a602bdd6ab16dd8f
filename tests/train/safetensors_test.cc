// Safetensors: what was written is what is read; whatever happens to a file, the answer is an error that names it.
#include "weft/train/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "share.h"
#include "support/safetensors_testing.h"
#include "train/temp_folder.h"
#include "weft/core/base/rng.h"

namespace weft {
namespace {

using namespace testing_;

uint64_t Draw(uint64_t i) {
  auto bits = Philox(11, i, 0);
  return uint64_t(bits[0]) << 32 | bits[1];
}

RawTensors RandomTensors(uint64_t seed, size_t count, const std::string& prefix = "") {
  constexpr std::pair<const char*, size_t> kTypes[] = {{"F64", 8}, {"F32", 4}, {"BF16", 2}, {"F16", 2},
                                                       {"I64", 8}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}};
  RawTensors tensors;
  for (size_t i = 0; i < count; i++) {
    auto [type, size] = kTypes[Draw(seed + i) % std::size(kTypes)];
    RawTensor t{type, {}, ""};
    size_t elements = 1;
    for (uint64_t d = 0; d < Draw(seed + 100 + i) % 4; d++) {
      t.shape.push_back(int64_t(Draw(seed + 200 + 10 * i + d) % 5));
      elements *= size_t(t.shape.back());
    }
    for (size_t b = 0; b < elements * size; b++) t.data += char(Draw(seed + 1000 + 97 * i + b));
    tensors[fmt::format("{}t.{}\"é", prefix, i)] = t;
  }
  return tensors;
}

void ExpectSame(const Safetensors& got, const RawTensors& want) {
  ASSERT_EQ(got.tensors().size(), want.size());
  for (const auto& [name, t] : want) {
    const StoredTensor& stored = got.tensors().at(name);
    EXPECT_EQ(stored.type, t.type);
    EXPECT_EQ(stored.shape, Shape(t.shape.begin(), t.shape.end()));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(stored.data.data()), stored.data.size()), t.data);
    EXPECT_EQ(stored.dtype.has_value(), t.type[0] == 'B' ? t.type == "BF16" : t.type[0] == 'F' && t.type[1] != '8');
  }
}

std::string Error(const std::string& path) { return std::string(Safetensors::Open(path).status().message()); }

TEST(Safetensors, GiveBackWhatWasWritten) {
  TempFolder folder;
  for (uint64_t seed = 0; seed < 100; seed++) {
    RawTensors tensors = RandomTensors(seed * 100'000, seed % 9);
    std::string path = folder.Write("model.safetensors", Pack(tensors, seed % 8));
    absl::StatusOr<Safetensors> file = Safetensors::Open(path), in_folder = Safetensors::Open(folder.Path());
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(in_folder.ok()) << in_folder.status();
    ExpectSame(*file, tensors);
    EXPECT_EQ(file->Hash(), in_folder->Hash());
  }
}

std::string IndexOf(const std::map<std::string, std::string>& map) {
  return nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump();
}

TEST(Safetensors, ShardsOfAnIndexAreOneModel) {
  TempFolder folder;
  RawTensors all;
  std::map<std::string, std::string> map;
  for (uint64_t shard = 0; shard < 4; shard++) {
    std::string name = fmt::format("model-{:05}-of-00004.safetensors", shard + 1);
    RawTensors tensors = RandomTensors(shard * 100'000, 5, fmt::format("{}.", shard));
    folder.Write("m/" + name, Pack(tensors));
    for (const auto& [tensor, raw] : tensors) map[tensor] = name;
    all.insert(tensors.begin(), tensors.end());
  }
  folder.Write("m/model.safetensors.index.json", IndexOf(map));
  absl::StatusOr<Safetensors> model = Safetensors::Open(folder.Path("m"));
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectSame(*model, all);
}

// The hash sees a changed name, shape and byte.
TEST(Safetensors, HashesTellCheckpointsApart) {
  TempFolder folder;
  RawTensor t{"F32", {2, 3}, std::string(24, 'x')}, reshaped{"F32", {3, 2}, t.data}, changed = t;
  changed.data[23] = 'y';
  std::set<uint64_t> hashes;
  for (const RawTensors& tensors : {RawTensors{{"a", t}}, {{"b", t}}, {{"a", reshaped}}, {{"a", changed}}, {}})
    hashes.insert(Safetensors::Open(folder.Write("a.safetensors", Pack(tensors)))->Hash());
  EXPECT_EQ(hashes.size(), 5u);
}

TEST(Safetensors, EveryTruncationAndAddedByteIsAnError) {
  TempFolder folder;
  std::string bytes = Pack(RandomTensors(3, 6), 3), path = folder.Write("a.safetensors", bytes);
  ASSERT_TRUE(Safetensors::Open(path).ok());
  for (size_t size = 0; size < bytes.size(); size++) {
    folder.Write("b.safetensors", bytes.substr(0, size));
    EXPECT_EQ(Error(folder.Path("b.safetensors")).find(folder.Path("b.safetensors") + ": expected"), 0u) << size;
  }
  EXPECT_NE(Error(folder.Write("b.safetensors", bytes + 'x')).find("bytes of data, as the header says"),
            std::string::npos);
}

// A damaged header is refused, or still describes data that lie in the file.
// More tensors than any model has: what looks through those before at each would take minutes.
TEST(Safetensors, ManyTensorsAreReadInTheTimeOfTheirText) {
  const int kTensors = test::Share() > 1 ? 20'000 : 200'000;
  std::string header = "{";
  for (int i = 0; i < kTensors; i++)
    header +=
        fmt::format("{}\"{}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{},{}]}}", i ? "," : "", i, i, i + 1);
  TempFolder folder;
  absl::StatusOr<Safetensors> file =
      Safetensors::Open(folder.Write("many.safetensors", Framed(header + "}", std::string(size_t(kTensors), 'x'))));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), size_t(kTensors));
}

TEST(Safetensors, FlippedBitsOfTheHeaderAreAnswered) {
  TempFolder folder;
  std::string bytes = Pack(RandomTensors(7, 6), 3);
  size_t header = 8 + size_t(uint8_t(bytes[0])) + 256 * size_t(uint8_t(bytes[1]));
  int refused = 0, accepted = 0;
  auto answer = [&](const std::string& damaged) {
    std::string path = folder.Write("a.safetensors", damaged);
    absl::StatusOr<Safetensors> file = Safetensors::Open(path);
    if (!file.ok()) {
      refused++;
      EXPECT_EQ(std::string(file.status().message()).find(path + ": "), 0u) << file.status();
      EXPECT_LT(file.status().message().size(), 1000u);
      return;
    }
    accepted++;  // a letter of a name
    size_t data = 0;
    for (const auto& [name, t] : file->tensors()) data += t.data.size();
    EXPECT_LE(8 + data, damaged.size());
  };
  for (size_t bit = 0; bit < header * 8; bit++) {
    std::string damaged = bytes;
    damaged[bit / 8] = char(damaged[bit / 8] ^ (1 << bit % 8));
    answer(damaged);
  }
  for (uint64_t i = 0; i < 3000; i++) {
    std::string damaged = bytes;
    for (uint64_t k = 0; k < 1 + Draw(i) % 4; k++) damaged[Draw(i * 8 + k + 1) % header] = char(Draw(i * 8 + k));
    answer(damaged);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 10);
}

TEST(Safetensors, ErrorsNameFileTensorExpectedAndFound) {
  TempFolder folder;
  auto one = [](const std::string& entry) { return Framed("{\"a\":" + entry + "}", std::string(8, 'x')); };
  std::string nested = Framed("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}", ""),
              vast = std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10),
              good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  struct {
    std::string bytes, text;
  } cases[] = {
      {"", "expected a safetensors file, got a file of 0 bytes"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a pointer of Git LFS to one; fetch it"},
      {vast, "at most 100000000, got 9223372036854775807; is this another kind of file?"},
      {Framed("", ""), "expected a header that begins with {"},
      {Framed("[1]", ""), "expected a header that begins with {"},
      {Framed("{\"a\":1", ""), "expected a JSON object, got something else"},
      {Framed("{\"\xff\":1}", ""), "expected a JSON object, got something else"},
      {nested, "it is nested too deeply"},
      {Framed("{\"a\":" + good + ",\"a\":" + good + "}", std::string(8, 'x')), "the key \"a\" is there twice"},
      {Framed("{\"__metadata__\":{\"x\":1}}", ""), "expected __metadata__ to be an object of strings, got {\"x\":1}"},
      {one("3"), "tensor \"a\": expected an object with dtype and shape, got 3"},
      {one(R"({"shape":[2],"data_offsets":[0,8]})"), "tensor \"a\": expected a dtype such as F32 or BF16, got none"},
      {one(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})"), "F32 or BF16, got \"F31\""},
      {one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "expected a shape of whole numbers"},
      {one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), "expected a shape of whole numbers"},
      {one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"), "a shape of whole numbers"},
      {one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"), "more than 2^63, got 8"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "expected data_offsets [begin, end]"},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), "expected data_offsets [begin, end]"},
      {one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "as its shape and dtype want, 12, got 8"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "expected its data at byte 0, after those"},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
       "expected 4 bytes of data, as the header says, got 8"},
      {Framed("{\"a\":" + good + ",\"b\":" + good + "}", std::string(8, 'x')), "expected its data at byte 8"},
  };
  ASSERT_TRUE(Safetensors::Open(folder.Write("a.safetensors", one(good))).ok());
  for (const auto& bad : cases) {
    std::string path = folder.Write("a.safetensors", bad.bytes), error = Error(path);
    EXPECT_EQ(error.find(path + ": "), 0u) << error;
    EXPECT_NE(error.find(bad.text), error.npos) << "expected " << bad.text << "\ngot      " << error;
  }
  EXPECT_NE(Error("no/such").find("no/such: no such file or folder"), std::string::npos);
}

TEST(Safetensors, AnIndexMustAgreeWithItsFiles) {
  TempFolder folder;
  RawTensor t{"U8", {1}, "x"};
  folder.Write("m/a.safetensors", Pack({{"a", t}, {"b", t}}));
  folder.Write("m/c.safetensors", Pack({{"c", t}}));
  folder.Write("m/again.safetensors", Pack({{"a", t}}));
  EXPECT_NE(
      Error(folder.Path("m")).find("m: expected model.safetensors or model.safetensors.index.json in this folder"),
      std::string::npos);
  struct {
    std::string index, text;
  } cases[] = {
      {IndexOf({{"a", "a.safetensors"}, {"b", "a.safetensors"}, {"c", "c.safetensors"}}), ""},
      {"{", "index.json: expected a JSON object"},
      {"{}", "index.json: expected a weight_map of tensors to files, got none"},
      {IndexOf({{"a", "../a.safetensors"}}), "the name of a file in the same folder, got \"../a.safetensors\""},
      {IndexOf({{"a", ".."}}), "..: expected a file, got a folder; give a file on disk"},
      {IndexOf({{"a", "absent.safetensors"}}), "absent.safetensors: cannot be opened (No such file or directory)"},
      {IndexOf({{"a", "a.safetensors"}}), "a.safetensors: tensor \"b\" is not in "},
      {IndexOf({{"a", "a.safetensors"}, {"b", "c.safetensors"}}), "c.safetensors: expected tensor \"b\", as "},
      {IndexOf({{"a", "a.safetensors"}, {"b", "again.safetensors"}}), "tensor \"a\" is in "},
  };
  for (const auto& bad : cases) {
    folder.Write("m/model.safetensors.index.json", bad.index);
    std::string error = Error(folder.Path("m"));
    EXPECT_EQ(error.empty(), bad.text.empty()) << error;
    EXPECT_NE(error.find(bad.text), error.npos) << "expected " << bad.text << "\ngot      " << error;
  }
}

}  // namespace
}  // namespace weft
