#include "weft/train/io/decoder.h"

#include <zlib.h>
#include <zstd.h>

#include "fmt/format.h"
#include "weft/core/base/error.h"

namespace weft {
namespace {

constexpr std::string_view kGzip = "\x1F\x8B", kZstd = "\x28\xB5\x2F\xFD";

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    constexpr int kWindow = 15, kGzipOnly = 16;
    if (inflateInit2(&stream_, kWindow + kGzipOnly) != Z_OK) Fail("zlib cannot be set up: it lacks memory");
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  absl::StatusOr<Progress> Unpack(std::span<const char> packed, std::span<char> out) override {
    if (packed.empty() && whole_) return Progress();
    if (whole_) inflateReset(&stream_);
    whole_ = false;
    // zlib only reads the input, so the const_cast is safe.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream_.avail_in = uInt(packed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = uInt(out.size());
    int code = inflate(&stream_, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_BUF_ERROR && code != Z_STREAM_END)
      return absl::DataLossError(stream_.msg ? stream_.msg : fmt::format("zlib's error {}", code));
    whole_ = code == Z_STREAM_END;
    return Progress{packed.size() - stream_.avail_in, out.size() - stream_.avail_out};
  }
  bool whole() const override { return whole_; }
  const char* name() const override { return "gzip"; }

 private:
  z_stream stream_{};
  bool whole_ = false;
};

class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (!context_) Fail("Zstandard cannot be set up: it lacks memory");
  }

  absl::StatusOr<Progress> Unpack(std::span<const char> packed, std::span<char> out) override {
    if (packed.empty() && whole_) return Progress();
    ZSTD_inBuffer from{packed.data(), packed.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    size_t left = ZSTD_decompressStream(context_.get(), &to, &from);
    if (ZSTD_isError(left)) return absl::DataLossError(ZSTD_getErrorName(left));
    whole_ = left == 0;
    return Progress{from.pos, to.pos};
  }
  bool whole() const override { return whole_; }
  const char* name() const override { return "Zstandard"; }

 private:
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context_;
  bool whole_ = false;
};

}  // namespace

std::unique_ptr<Decoder> DecoderOf(std::string_view beginning) {
  if (beginning.starts_with(kGzip)) return std::make_unique<GzipDecoder>();
  if (beginning.starts_with(kZstd)) return std::make_unique<ZstdDecoder>();
  return nullptr;
}

}  // namespace weft
