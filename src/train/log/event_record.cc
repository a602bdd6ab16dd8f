#include "weft/train/log/event_record.h"

#include <bit>
#include <cstring>

#include "weft/train/io/crc32c.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <class T>
std::string Raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Builds a message in protobuf's wire format. Each field is a key, made of number and wire type, and a value.
class ProtoMessage {
 public:
  ProtoMessage& Double(int field, double value) { return Key(field, kFixed64, Raw(value)); }
  ProtoMessage& Float(int field, float value) { return Key(field, kFixed32, Raw(value)); }
  ProtoMessage& Int(int field, int64_t value) { return Key(field, kVarint, Varint(uint64_t(value))); }
  ProtoMessage& Bytes(int field, std::string_view value) { return Key(field, kLength, Varint(value.size()) += value); }
  const std::string& bytes() const { return bytes_; }

 private:
  enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

  ProtoMessage& Key(int field, WireType type, const std::string& value) {
    bytes_ += Varint(uint64_t(field) << 3 | type) + value;
    return *this;
  }
  // Seven bits per byte, lowest first. The top bit is set if more bytes follow.
  static std::string Varint(uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes += char(value | 0x80);
    return bytes + char(value);
  }
  std::string bytes_;
};

// Field numbers of tensorboard/compat/proto/event.proto and summary.proto.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2;
constexpr int kSessionStatus = 1, kSessionStart = 1;

// TFRecord masks its checksums, because the CRC of data that contains CRCs would be weak.
uint32_t MaskedCrc(std::string_view bytes) { return std::rotr(Crc32c(bytes), 15) + 0xA282EAD8; }

}  // namespace

std::string TfRecord(std::string_view data) {
  std::string length = Raw(uint64_t(data.size()));
  std::string record = length + Raw(MaskedCrc(length));
  record += data;
  return record += Raw(MaskedCrc(data));
}

std::string VersionRecord(double wall_time) {
  return TfRecord(ProtoMessage().Double(kWallTime, wall_time).Bytes(kFileVersion, "brain.Event:2").bytes());
}

std::string RestartRecord(double wall_time, int64_t step) {
  std::string session = ProtoMessage().Int(kSessionStatus, kSessionStart).bytes();
  return TfRecord(ProtoMessage().Double(kWallTime, wall_time).Int(kStep, step).Bytes(kSessionLog, session).bytes());
}

std::string ScalarsRecord(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  ProtoMessage summary;
  for (const Scalar& s : scalars)
    summary.Bytes(kSummaryValue, ProtoMessage().Bytes(kValueTag, s.tag).Float(kValueSimple, s.value).bytes());
  return TfRecord(
      ProtoMessage().Double(kWallTime, wall_time).Int(kStep, step).Bytes(kSummary, summary.bytes()).bytes());
}

}  // namespace weft
