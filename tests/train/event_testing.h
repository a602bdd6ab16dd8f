// Event files read back, apart from the code that writes them: frames with their checksums, and the fields of an Event.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft::testing_ {

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  bool restart = false;
  std::map<std::string, float> scalars;
};

template <class T>
T Take(std::string_view& bytes) {
  T value{};
  EXPECT_GE(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), std::min(sizeof value, bytes.size()));
  bytes.remove_prefix(std::min(sizeof value, bytes.size()));
  return value;
}
inline std::string_view TakeBytes(std::string_view& bytes, size_t size) {
  EXPECT_GE(bytes.size(), size);
  std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(taken.size());
  return taken;
}
inline uint64_t TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    auto byte = Take<uint8_t>(bytes);
    value |= uint64_t(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// One field of a message: its number, and its value as bits or bytes.
struct ProtoField {
  uint64_t number, bits = 0;
  std::string_view bytes;
};
inline ProtoField TakeField(std::string_view& message) {
  uint64_t key = TakeVarint(message);
  ProtoField field{.number = key >> 3};
  switch (key & 7) {
    case 0:
      field.bits = TakeVarint(message);
      break;
    case 1:
      field.bits = Take<uint64_t>(message);
      break;
    case 2:
      field.bytes = TakeBytes(message, TakeVarint(message));
      break;
    case 5:
      field.bits = Take<uint32_t>(message);
      break;
    default:
      ADD_FAILURE() << "wire type " << (key & 7);
      message = {};
  }
  return field;
}

inline void ReadSummary(std::string_view summary, Event& event) {
  while (!summary.empty()) {
    std::string_view value = TakeField(summary).bytes;
    ProtoField tag = TakeField(value), number = TakeField(value);
    EXPECT_TRUE(tag.number == 1 && number.number == 2 && value.empty());
    event.scalars[std::string(tag.bytes)] = std::bit_cast<float>(uint32_t(number.bits));
  }
}

inline Event EventOf(std::string_view message) {
  Event event;
  while (!message.empty()) {
    ProtoField field = TakeField(message);
    if (field.number == 1) event.wall_time = std::bit_cast<double>(field.bits);
    if (field.number == 2) event.step = int64_t(field.bits);
    if (field.number == 3) event.version = field.bytes;
    if (field.number == 5) ReadSummary(field.bytes, event);
    if (field.number == 7) event.restart = field.bytes == std::string_view("\x08\x01", 2);
  }
  return event;
}

// TFRecord's checksum, bit by bit.
inline uint32_t SlowMaskedCrc(std::string_view bytes) {
  uint32_t crc = ~uint32_t(0);
  for (char byte : bytes) {
    crc ^= uint8_t(byte);
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
}

inline std::vector<Event> EventsOf(std::string_view file) {
  std::vector<Event> events;
  while (!file.empty()) {
    std::string_view length = TakeBytes(file, 8), rest = length;
    EXPECT_EQ(Take<uint32_t>(file), SlowMaskedCrc(length));
    std::string_view data = TakeBytes(file, Take<uint64_t>(rest));
    EXPECT_EQ(Take<uint32_t>(file), SlowMaskedCrc(data));
    events.push_back(EventOf(data));
  }
  return events;
}

inline std::vector<Event> ReadEventFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return EventsOf(std::string((std::istreambuf_iterator<char>(file)), {}));
}

}  // namespace weft::testing_
