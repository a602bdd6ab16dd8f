// Decoder: unpacks gzip and Zstandard in blocks of any size. A file may hold several streams, one after the other.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

class Decoder {
 public:
  struct Progress {
    size_t taken = 0, given = 0;  // bytes of `packed` and `out`
  };
  virtual ~Decoder() = default;
  // Unpacks until either span is used up. Makes no progress where it needs more packed bytes. The error of a damaged
  // stream is what the library says.
  virtual absl::StatusOr<Progress> Unpack(std::span<const char> packed, std::span<char> out) = 0;
  // Whether the bytes that were taken so far end with a stream.
  virtual bool whole() const = 0;
  virtual const char* name() const = 0;  // "gzip"
};

// The decoder of a file with these first bytes, at least 4 unless the file has fewer. Null: it is not packed.
std::unique_ptr<Decoder> DecoderOf(std::string_view beginning);

}  // namespace weft
