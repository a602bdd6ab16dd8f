// Decoder: decompresses gzip and Zstandard in blocks of any size. A file may hold several streams, one after another.
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
    size_t taken = 0, given = 0;  // bytes consumed from `packed` and written to `out`
  };
  virtual ~Decoder() = default;
  // Decompresses until either span is used up. Returns zero progress if it needs more packed bytes. On a damaged
  // stream, returns an error whose message comes from the decompression library.
  virtual absl::StatusOr<Progress> Unpack(std::span<const char> packed, std::span<char> out) = 0;
  // Whether the bytes taken so far end at the end of a stream.
  virtual bool whole() const = 0;
  virtual const char* name() const = 0;  // "gzip"
};

// Returns the decoder for a file that begins with `beginning`, or null if the file is not compressed. Requires at least
// 4 bytes unless the file is shorter.
std::unique_ptr<Decoder> DecoderOf(std::string_view beginning);

}  // namespace weft
