// TileOrder: the tiles of cuBLASLt, which of them are promising for a product, and which are of nearly the same size.
//   TileOrder order(m, n, multiprocessors);   for (uint32_t tile : order.Sort(ids)) ...
#pragma once
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace weft::cuda {

struct TileSize {
  int m = 0, n = 0;
};
using TileSizes = std::array<TileSize, CUBLASLT_MATMUL_TILE_END>;

// Returns the sizes by id. The header has them only as names. After the first 36 they follow two rules: multiples of 8
// x multiples of 64 with at most 49,152 elements, then multiples of 64 x multiples of 8 with at most 65,536.
constexpr TileSizes MakeTileSizes() {
  TileSizes sizes = {{{0, 0},     {8, 8},    {8, 16},   {16, 8},   {8, 32},    {16, 16},   {32, 8},    {8, 64},
                      {16, 32},   {32, 16},  {64, 8},   {32, 32},  {32, 64},   {64, 32},   {32, 128},  {64, 64},
                      {128, 32},  {64, 128}, {128, 64}, {64, 256}, {128, 128}, {256, 64},  {64, 512},  {128, 256},
                      {256, 128}, {512, 64}, {64, 96},  {96, 64},  {96, 128},  {128, 160}, {160, 128}, {192, 128},
                      {128, 192}, {128, 96}, {32, 256}, {256, 32}}};
  constexpr size_t kNamed = 36;
  size_t next = kNamed;
  const auto add = [&](int m, int n) {
    for (size_t i = 0; i < kNamed; ++i)
      if (sizes[i].m == m && sizes[i].n == n) return;
    if (next < sizes.size()) sizes[next++] = {m, n};
  };
  const auto is_narrow = [](int m, int n) { return n % 64 == 0 && m * n <= 49152; };
  for (int m = 8; m <= 768; m += 8)
    for (int n = 64; n <= 768; n += 64)
      if (is_narrow(m, n)) add(m, n);
  for (int m = 64; m <= 768; m += 64)
    for (int n = 8; n <= 768 && m * n <= 65536; n += 8)
      if (!is_narrow(m, n)) add(m, n);
  return sizes;
}
constexpr TileSizes kTileSizes = MakeTileSizes();
static_assert(kTileSizes[CUBLASLT_MATMUL_TILE_8x128].n == 128 && kTileSizes[CUBLASLT_MATMUL_TILE_768x64].m == 768);
static_assert(kTileSizes[CUBLASLT_MATMUL_TILE_128x224].n == 224 && kTileSizes[CUBLASLT_MATMUL_TILE_768x80].m == 768);

// Orders the tiles of an [m, n] result by how long it may take with them.
class TileOrder {
 public:
  TileOrder(uint64_t m, uint64_t n, int multiprocessors)
      : m_(double(m)), n_(double(n)), multiprocessors_(multiprocessors) {}

  // Returns the tiles that fit, the most promising first. Multiples of 32 come before all others, since sizes that
  // differ by 8 take nearly the same time. Returns 0, "undefined", if none fits.
  std::vector<uint32_t> Sort(std::vector<uint32_t> tiles) const {
    std::erase_if(tiles, [&](uint32_t tile) { return !Fits(SizeOf(tile)); });
    std::stable_sort(tiles.begin(), tiles.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(!IsCoarse(a), Cost(SizeOf(a))) < std::pair(!IsCoarse(b), Cost(SizeOf(b)));
    });
    return tiles.empty() ? std::vector<uint32_t>{CUBLASLT_MATMUL_TILE_UNDEFINED} : tiles;
  }
  // Returns the tiles whose sizes differ from the given one by at most 16.
  static std::vector<uint32_t> Near(uint32_t tile, std::vector<uint32_t> tiles) {
    const TileSize to = SizeOf(tile);
    std::erase_if(tiles, [&](uint32_t other) {
      const TileSize t = SizeOf(other);
      return !Fits(t) || std::abs(t.m - to.m) > 16 || std::abs(t.n - to.n) > 16;
    });
    return tiles;
  }

 private:
  static TileSize SizeOf(uint32_t tile) { return tile < kTileSizes.size() ? kTileSizes[tile] : TileSize{}; }
  static bool IsCoarse(uint32_t tile) { return SizeOf(tile).m % 32 == 0 && SizeOf(tile).n % 32 == 0; }
  static bool Fits(const TileSize& t) {
    constexpr int kMostSums = 256 * 192;  // what the registers of a Hopper multiprocessor hold
    return t.m > 0 && t.m * t.n <= kMostSums;
  }
  // Larger tiles read less. A last wave that does not fill the multiprocessors costs half of their time, because idle
  // ones leave power to the others.
  double Cost(const TileSize& t) const {
    const double waves = std::ceil(m_ / t.m) * std::ceil(n_ / t.n) / multiprocessors_;
    return (waves + std::ceil(waves)) / 2 * t.m * t.n * (1 + 32. / t.m + 32. / t.n);
  }
  double m_, n_;
  int multiprocessors_;
};

}  // namespace weft::cuda
