// Problems for the acceptance test of attention, drawn from the cross product of all axes.
//
// With a causal mask, query i sees the keys j <= i + offset. Offset 0 aligns the mask to the top left, S - T to the
// bottom right. Queries before -offset see no key, and keys from T + offset on are seen by no query.
#pragma once
#include <fmt/format.h>

#include "harness.h"

namespace weft::test {

// The type of the operands, and whether products of f32 may round their factors to TF32, which has 11 significant bits.
struct ProblemType {
  DType dtype;
  bool tf32 = false;
};
inline const char* Name(const ProblemType& type) { return type.tf32 ? "tf32" : weft::Name(type.dtype); }

struct Problem {
  int64_t B, T, S, G, group, D;
  bool causal;
  int64_t offset;
  double scale;  // 0 for 1 / sqrt(D)
  ProblemType type;
  uint64_t seed;  // seed of the operands

  int64_t H() const { return G * group; }
  int64_t hidden_queries() const { return causal ? std::clamp<int64_t>(-offset, 0, T) : 0; }
  int64_t hidden_keys() const { return causal ? std::clamp<int64_t>(S - T - offset, 0, S) : 0; }
  double factor() const { return scale != 0 ? scale : 1 / std::sqrt(double(D)); }
  Attrs attrs() const { return {{"causal", causal}, {"causal_offset", offset}, {"scale", scale}}; }
  Shape query_shape() const { return {B, T, H(), D}; }
  Shape key_shape() const { return {B, S, G, D}; }
  Shape row_shape() const { return {B, T, H()}; }
};

inline std::string ToString(const Problem& p) {
  return fmt::format("{} B={} T={} S={} H={} G={} D={} {} scale={} seed={}", Name(p.type), p.B, p.T, p.S, p.H(), p.G,
                     p.D, p.causal ? fmt::format("causal offset={}", p.offset) : "full", p.scale, p.seed);
}

// 80 is not a power of two times the tile size of tensor cores. 192 is the query and key size of latent attention;
// values here have the size of the keys. 256 is the largest size that the tensor cores are used for.
inline const std::vector<int64_t> kHeadSizes{64, 80, 96, 128, 192, 256};
inline const std::vector<ProblemType> kProblemTypes{{DType::kBF16}, {DType::kF16}, {DType::kF32}, {DType::kF32, true}};

// Draws the other axes: lengths of queries and keys, heads per KV head, mask, scale and batch. The longer of the two
// lengths is `longest`; with 0, both are any of `lengths`.
inline Problem DrawProblem(Rng& rng, ProblemType type, int64_t D, const std::vector<int64_t>& lengths,
                           int64_t longest = 0) {
  Problem p{.D = D, .type = type, .seed = rng()};
  do p.T = PickOf(rng, lengths), p.S = PickOf(rng, lengths);
  while (longest && std::max(p.T, p.S) != longest);
  p.group = PickOf<int64_t>(rng, {1, 4, 8});
  p.G = p.group == 1 ? 2 : 1;
  p.B = longest ? 1 : 2;
  enum Mask : int64_t { kFull, kTopLeft, kBottomRight, kShifted };
  int64_t mask = Pick(rng, kFull, kShifted);
  p.causal = mask != kFull;
  // kShifted ranges from "no query sees a key" to "every query sees all keys".
  p.offset = mask == kBottomRight ? p.S - p.T : mask == kShifted ? Pick(rng, -p.T, p.S) : 0;
  p.scale = Pick(rng, 0, 1) ? 0 : 1.5 / std::sqrt(double(D));
  return p;
}

}  // namespace weft::test
