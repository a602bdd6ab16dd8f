// Reading a safetensors header takes at most 10 times its size, whatever is wrong with it.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "weft/train/checkpoint/safetensors.h"

namespace weft {
namespace {

constexpr size_t kMaxTimes = 10, kFixed = 64 << 10;  // for a message, buffers and one tensor's tree

std::string Entry(int64_t i, const char* dtype = "U8") {
  return fmt::format("\"t{}\":{{\"dtype\":\"{}\",\"shape\":[],\"data_offsets\":[{},{}]}}", i, dtype, i, i + 1);
}

// Returns a header with `count` members made by make(i), and then `last`.
template <class Make>
std::string Members(int64_t count, Make make, const std::string& last = "") {
  std::string text = "{";
  for (int64_t i = 0; i < count; i++) text += (i ? "," : "") + make(i);
  return text + (last.empty() ? "}" : "," + last + "}");
}

struct Taken {
  bool ok;
  std::string message;
  double times;  // the memory taken, as a multiple of the header's size
};

Taken Read(const std::string& header, int64_t data) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; i++) file[size_t(i)] = char(header.size() >> 8 * i);
  file += header + std::string(size_t(data), 'x');
  std::string path = fuzz::FileOf(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  fuzz::AllocationBound bound(file.size(), {.largest = 1 << 20, .live = 1 << 20});
  absl::StatusOr<Safetensors> read = Safetensors::Open(path);
  double live = double(fuzz::AllocationBound::LivePeak());
  return {read.ok(), std::string(read.status().message()), (live - kFixed) / double(header.size())};
}

TEST(SafetensorsMemory, AHeaderTakesAtMostTenTimesItsSize) {
  constexpr int64_t kCount = 100000;
  auto tensor = [](int64_t i) { return Entry(i); };
  auto text = [](int64_t i) { return fmt::format("\"{}\":\"\"", i); };
  std::string metadata = Members(kCount, text);
  std::string numbers = "1", lists = "[  ]";
  for (int64_t i = 0; i < kCount; i++) numbers += ",100", lists += ",[  ]";
  struct Case {
    const char* what;
    std::string header;
    int64_t data;
    const char* says;  // the expected error; empty if the file is read
  };
  const Case cases[] = {
      {"good", Members(kCount, tensor), kCount, ""},
      {"a wrong dtype at the end", Members(kCount, tensor, Entry(kCount, "U9")), kCount + 1, "expected a dtype"},
      {"a duplicate at the end", Members(kCount, tensor, Entry(0)), kCount, "is there twice"},
      {"an overlap", Members(kCount, tensor, Entry(kCount - 2).replace(1, 1, "x")), kCount, "its data at byte"},
      {"data missing", Members(kCount, tensor), kCount - 1, "bytes of data"},
      {"a syntax error at the end", Members(kCount, tensor, "\"x\":"), kCount, "expected a JSON object"},
      {"metadata", Members(1, tensor, "\"__metadata__\":" + metadata), 1, ""},
      {"wrong metadata at the end", Members(1, tensor, "\"__metadata__\":" + Members(kCount, text, "\"x\":1")), 1,
       "an object of strings, got {\"x\":1}"},
      {"a long shape", "{\"a\":{\"shape\":[" + numbers + "]}}", 0, "more than 256 values"},
      {"a list of lists", "{\"a\":{\"shape\":[" + lists + "]}}", 0, "more than 256 values"},
      {"no objects", Members(kCount, text), 0, "expected an object with dtype"},
  };
  for (const Case& c : cases) {
    Taken taken = Read(c.header, c.data);
    fmt::print("{}: {:.1f} times {} bytes\n", c.what, taken.times, c.header.size());
    EXPECT_LE(taken.times, double(kMaxTimes)) << c.what;
    EXPECT_EQ(taken.ok, c.says[0] == '\0') << c.what << ": " << taken.message;
    EXPECT_NE(taken.message.find(c.says), std::string::npos) << c.what << ": " << taken.message;
  }
}

TEST(SafetensorsMemory, AMillionAndAHalfOfTensorsAreRefused) {
  auto tensor = [](int64_t i) { return Entry(i); };
  constexpr int64_t kCount = 1500000;
  Taken taken = Read(Members(kCount, tensor, Entry(kCount, "U9")), kCount + 1);
  EXPECT_FALSE(taken.ok);
  EXPECT_LE(taken.times, double(kMaxTimes));
}

}  // namespace
}  // namespace weft
