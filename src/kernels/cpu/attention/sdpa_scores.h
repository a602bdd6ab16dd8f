// From products of queries and keys to scores: soft cap, bias, and which keys a query sees.
#pragma once
#include <limits>
#include <optional>

#include "weft/core/ops/sdpa.h"
#include "weft/kernels/common/random_view.h"
#include "weft/kernels/cpu/attention/sdpa_tiles.h"
#include "weft/kernels/cpu/loops/random_stream.h"
#include "weft/kernels/cpu/loops/scalar_math.h"

namespace weft::cpu {

// A block of queries of one head against a block of keys. Its score tiles are [keys, width]; column 0 is `query`.
struct ScoreTile {
  int64_t b, h;
  int64_t query, queries;  // the first query, and how many
  int64_t key, keys;
  int64_t width;
};

// A mask, a bias or a bias's gradient: [B, H, T, S], where a dim of extent 1 stands for all indices.
struct ScoreStrides {
  int64_t b = 0, h = 0, t = 0;
  explicit ScoreStrides(const TensorView& x) {
    auto stride = [&](int d) { return x.dim(d).global == 1 ? 0 : x.dim(d).stride; };
    b = stride(0), h = stride(1), t = stride(2);
  }
  int64_t Row(const ScoreTile& tile, int64_t i) const {
    return tile.b * b + tile.h * h + (tile.query + i) * t + tile.key;
  }
};

struct KeyRange {
  int64_t begin, end;
};

template <class C>
class ScoreRules {
 public:
  // `first`: the number of operands before those that the attributes name.
  ScoreRules(const KernelCall& call, const SdpaSizes& z, int first) : z_(z), at_(*call.attrs, first) {
    if (call.attrs->Has("softcap")) softcap_ = C(call.attrs->Float("softcap"));
    if (at_.mask >= 0) mask_ = &call.in[size_t(at_.mask)];
    if (at_.bias >= 0) bias_ = &call.in[size_t(at_.bias)], bias_rows_ = Reader<C>(*bias_);
    if (at_.sinks >= 0) sinks_ = &call.in[size_t(at_.sinks)];
    if (at_.offsets >= 0) offsets_ = &call.in[size_t(at_.offsets)];
    if (at_.lengths >= 0) lengths_ = &call.in[size_t(at_.lengths)], first_key_ = call.in[1].dim(1).offset;
    if (at_.segments >= 0) of_queries_ = &call.in[size_t(at_.segments)], of_keys_ = of_queries_ + 1;
    if (at_.random >= 0) PrepareDropout(call);
  }

  bool has_softcap() const { return softcap_ > 0; }
  bool has_sinks() const { return sinks_ != nullptr; }
  C Sink(int64_t h) const { return Reader<C>(*sinks_).At(h * sinks_->dim(0).stride); }

  // Returns the keys that queries [first, first + n) of sequence b may see by their positions. Keys from the length of
  // the sequence on are never among them.
  KeyRange Keys(int64_t b, int64_t first, int64_t n) const {
    int64_t position = Position(b, first), keys = Length(b);
    KeyRange range{z_.left < 0 ? 0 : std::clamp<int64_t>(position - z_.left, 0, keys),
                   z_.right < 0 ? keys : std::clamp<int64_t>(position + n + z_.right, 0, keys)};
    return {std::min(range.begin, range.end), range.end};
  }
  // Whether no query of the tile sees a key of it, since their segments are disjoint.
  bool Skips(const ScoreTile& tile) const {
    if (!of_queries_) return false;
    KeyRange q = SegmentsOf(*of_queries_, tile.b, tile.query, tile.queries);
    KeyRange k = SegmentsOf(*of_keys_, tile.b, tile.key, tile.keys);
    return q.end < k.begin || k.end < q.begin;
  }

  // Turns products into scores, and hides keys that are not seen by -inf. `slope` gets the derivative of the soft cap,
  // unless it is null.
  void Apply(const ScoreTile& tile, C* s, C* slope = nullptr) const {
    if (has_softcap()) Cap(tile, s, slope);
    if (bias_) AddBias(tile, s);
    HideOutsideWindow(tile, s);
    if (mask_) HideMasked(tile, s);
    if (of_queries_) HideOtherSegments(tile, s);
  }
  // Drops probabilities, or their cotangents, and scales the others.
  void Drop(const ScoreTile& tile, C* p) const {
    if (!dropout_) return;
    alignas(64) uint16_t buffer[RandomStream<uint16_t>::kBuffer];
    for (int64_t i = 0; i < tile.queries; i++) {
      int64_t row = (tile.b * z_.H + tile.h) * z_.T + tile.query + i;
      const uint16_t* bits = dropout_->Bits(row, tile.key, tile.keys, buffer);
      for (int64_t j = 0; j < tile.keys; j++) {
        C& x = p[j * tile.width + i];
        x = bits[j] >= threshold_ ? x * kept_ : C(0);
      }
    }
  }

 private:
  static constexpr C kHidden = -std::numeric_limits<C>::infinity();

  int64_t Position(int64_t b, int64_t query) const {
    constexpr int64_t kFar = int64_t(1) << 40;
    int64_t offset = offsets_ ? offsets_->as<int64_t>()[b * offsets_->dim(0).stride] : 0;
    return query + z_.shift + std::clamp(offset, -kFar, kFar);
  }
  // Returns how many keys of sequence b there are for its queries.
  int64_t Length(int64_t b) const {
    if (!lengths_) return z_.S;
    int64_t length = lengths_->as<int64_t>()[b * lengths_->dim(0).stride];
    return length <= first_key_ ? 0 : std::min(length - first_key_, z_.S);
  }
  static KeyRange SegmentsOf(const TensorView& x, int64_t b, int64_t first, int64_t n) {
    const int64_t* row = x.as<int64_t>() + b * x.dim(0).stride + first;
    KeyRange range{std::numeric_limits<int64_t>::max(), -1};
    for (int64_t i = 0; i < n; i++)
      if (row[i] >= 0) range = {std::min(range.begin, row[i]), std::max(range.end, row[i])};
    return range;
  }

  void Cap(const ScoreTile& tile, C* s, C* slope) const {
    C inverse = 1 / softcap_;
    for (int64_t i = 0; i < tile.keys * tile.width; i++) {
      C t = tanh(s[i] * inverse);
      s[i] = softcap_ * t;
      if (slope) slope[i] = 1 - t * t;
    }
  }
  void AddBias(const ScoreTile& tile, C* s) const {
    ScoreStrides at(*bias_);
    C row_tile[kKeyBlock];
    for (int64_t i = 0; i < tile.queries; i++) {
      const C* row = bias_rows_.Row(at.Row(tile, i), 1, tile.keys, row_tile);
      for (int64_t j = 0; j < tile.keys; j++) s[j * tile.width + i] += row[j];
    }
  }
  void HideOutsideWindow(const ScoreTile& tile, C* s) const {
    if (z_.left < 0 && z_.right < 0) return;
    int64_t position = Position(tile.b, tile.query);  // of column 0
    for (int64_t j = 0; j < tile.keys; j++) {
      C* row = s + j * tile.width;
      int64_t key = tile.key + j - position;  // column i sees it if i - left <= key <= i + right
      if (z_.right >= 0) std::fill(row, row + std::clamp<int64_t>(key - z_.right, 0, tile.width), kHidden);
      if (z_.left >= 0)
        std::fill(row + std::clamp<int64_t>(key + z_.left + 1, 0, tile.width), row + tile.width, kHidden);
    }
  }
  void HideMasked(const ScoreTile& tile, C* s) const {
    ScoreStrides at(*mask_);
    for (int64_t i = 0; i < tile.queries; i++) {
      const uint8_t* row = mask_->as<uint8_t>() + at.Row(tile, i);
      for (int64_t j = 0; j < tile.keys; j++)
        if (!row[j]) s[j * tile.width + i] = kHidden;
    }
  }
  void HideOtherSegments(const ScoreTile& tile, C* s) const {
    const int64_t* of_query = of_queries_->as<int64_t>() + tile.b * of_queries_->dim(0).stride + tile.query;
    const int64_t* of_key = of_keys_->as<int64_t>() + tile.b * of_keys_->dim(0).stride + tile.key;
    for (int64_t j = 0; j < tile.keys; j++)
      for (int64_t i = 0; i < tile.queries; i++)
        if (of_query[i] != of_key[j] || of_key[j] < 0) s[j * tile.width + i] = kHidden;
  }

  void PrepareDropout(const KernelCall& call) {
    const TensorView &q = call.in[0], &k = call.in[1];
    probabilities_.rank = 4;
    probabilities_.dims = {q.dim(0), q.dim(2), q.dim(1), k.dim(1)};
    probabilities_ = InWhole(probabilities_, 2, *call.attrs);
    double p = call.attrs->Float("p");
    threshold_ = DropoutThreshold(p), kept_ = C(DropoutScale(p));
    auto scalar = [&](int i) { return Reader<int64_t>(call.in[size_t(at_.random + i)]).At(0); };
    dropout_.emplace(probabilities_, uint64_t(call.attrs->Int("key")), scalar(0), scalar(1));
  }

  const SdpaSizes& z_;
  SdpaOperands at_;
  C softcap_ = 0;
  const TensorView *mask_ = nullptr, *bias_ = nullptr, *sinks_ = nullptr, *offsets_ = nullptr, *lengths_ = nullptr,
                   *of_queries_ = nullptr, *of_keys_ = nullptr;
  int64_t first_key_ = 0;  // the global index of the first key
  Reader<C> bias_rows_;
  TensorView probabilities_;  // [B, H, T, S], without data
  std::optional<RandomStream<uint16_t>> dropout_;
  uint32_t threshold_ = 0;
  C kept_ = 0;
};

}  // namespace weft::cpu
