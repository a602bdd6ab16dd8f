// Packs texts as gzip, Zstandard and JSONL.
#pragma once
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::testing_ {

inline std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = uInt(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.erase(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// With a checksum, as the program zstd writes it.
inline std::string Zstd(const std::string& text) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  size_t size = ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size());
  EXPECT_FALSE(ZSTD_isError(size));
  packed.erase(size);
  ZSTD_freeCCtx(context);
  return packed;
}

inline std::string JsonLines(const std::vector<std::string>& texts, const std::string& field = "text") {
  std::string lines;
  for (const std::string& text : texts) lines += nlohmann::json{{"id", lines.size()}, {field, text}}.dump() + "\n";
  return lines;
}

}  // namespace weft::testing_
