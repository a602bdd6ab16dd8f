#include "weft/parallel/nn/layers/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft::nn {
namespace {

Shape BiasOr(bool bias, Shape shape) { return bias ? shape : Shape{}; }

// The variance of Xavier's uniform values (Glorot and Bengio 2010).
ParameterInit Xavier(int64_t in, int64_t out) { return {ParameterInit::kNormal, std::sqrt(2.0 / double(in + out))}; }

using Options = MultiHeadAttention::Options;

Options Completed(Options o, const std::string& path, const Loc& loc) {
  std::string where = fmt::format("MultiHeadAttention {} at {}", path, ToString(loc));
  WEFT_CHECK(o.embed_dim > 0 && o.num_heads > 0 && o.embed_dim % o.num_heads == 0,
             fmt::format("{}: expected num_heads > 0 that divides embed_dim, got embed_dim {} and num_heads {}; choose "
                         "another number of heads",
                         where, o.embed_dim, o.num_heads));
  WEFT_CHECK(
      o.kdim >= 0 && o.vdim >= 0,
      fmt::format("{}: expected kdim and vdim >= 0, got {} and {}; 0 stands for embed_dim", where, o.kdim, o.vdim));
  WEFT_CHECK(IsDropout(o.dropout),
             fmt::format("{}: expected a dropout in [0, 1 - 2^-17), got {}; 0 is none", where, o.dropout));
  if (o.kdim == 0) o.kdim = o.embed_dim;
  if (o.vdim == 0) o.vdim = o.embed_dim;
  return o;
}

AttentionProducts::Sizes SizesOf(const Options& o) {
  return {.width = o.embed_dim,
          .key_width = o.kdim,
          .value_width = o.vdim,
          .heads = o.num_heads,
          .kv_heads = o.num_heads,
          .head_size = o.embed_dim / o.num_heads,
          .bias = o.bias};
}
// PyTorch draws the packed weights as one matrix of 3 embed_dim rows.
AttentionProducts::Inits InitsOf(const Options& o) {
  int64_t rows = o.kdim == o.embed_dim && o.vdim == o.embed_dim ? 3 * o.embed_dim : o.embed_dim;
  return {Xavier(o.embed_dim, rows), Xavier(o.kdim, rows), Xavier(o.vdim, rows), Xavier(o.embed_dim, o.embed_dim)};
}

// [T, S] or [B H, T, S] -> [1, 1, T, S] or [B, H, T, S].
Var OfScores(const Var& mask, int64_t heads, const Loc& loc) {
  if (mask.rank() == 3) return Split(mask, 0, heads, loc);  // [B, H, T, S]
  return Unsqueeze(Unsqueeze(mask, 0, loc), 0, loc);        // [1, 1, T, S]
}
// [B, S] -> [B, 1, 1, S].
Var OfKeys(const Var& mask, const Loc& loc) {
  return Unsqueeze(Unsqueeze(mask, 1, loc), 1, loc);  // [B, 1, 1, S]
}

Var BiasOf(const AttentionMasks& m, DType dtype, int64_t heads, const Loc& loc) {
  Var of_scores, of_keys;
  if (m.attn_bias.defined()) of_scores = OfScores(Cast({m.attn_bias, loc}, dtype), heads, loc);
  if (m.key_padding_bias.defined()) of_keys = OfKeys(Cast({m.key_padding_bias, loc}, dtype), loc);
  if (!of_scores.defined() || !of_keys.defined()) return of_scores.defined() ? of_scores : of_keys;
  return Add({of_scores, loc}, {of_keys, loc});  // [B, 1 or H, T, S]
}

// Padding becomes segments, because Sdpa takes one mask, and two of them would have to be joined in [B, 1, T, S].
SdpaOptions SdpaOptionsOf(const AttentionMasks& m, const Var& q, const Var& k, double dropout, const Loc& loc) {
  SdpaOptions options{.causal = m.is_causal, .dropout = dropout};
  if (m.attn_mask.defined()) options.mask = AttendMask(OfScores(m.attn_mask.Attend(loc).var(), q.dim(2), loc));
  options.bias = BiasOf(m, q.dtype(), q.dim(2), loc);
  options.query_segments = m.query_segments, options.key_segments = m.key_segments;  // [B, T], [B, S]
  if (!m.key_padding_mask.defined()) return options;
  Shape queries{q.dim(0), q.dim(1)}, keys{k.dim(0), k.dim(1)};
  if (!m.query_segments.defined()) {
    options.query_segments = Full(0, DType::kI64, queries);  // [B, T]
    options.key_segments = Full(0, DType::kI64, keys);       // [B, S]
  }
  options.key_segments =
      Select({m.key_padding_mask.var(), loc}, Full(-1, DType::kI64, keys), {options.key_segments, loc});  // [B, S]
  return options;
}

}  // namespace

AttentionProducts::AttentionProducts(Module* owner, const Sizes& s, const Inits& inits)
    : q(owner, "q", "btc,chd->bthd", {s.width, s.heads, s.head_size}, BiasOr(s.bias, {s.heads, s.head_size}), inits.q),
      k(owner, "k", "btc,chd->bthd", {s.key_width, s.kv_heads, s.head_size}, BiasOr(s.bias, {s.kv_heads, s.head_size}),
        inits.k),
      v(owner, "v", "btc,chd->bthd", {s.value_width, s.kv_heads, s.head_size},
        BiasOr(s.bias, {s.kv_heads, s.head_size}), inits.v),
      proj(owner, "proj", "bthd,hdc->btc", {s.heads, s.head_size, s.width}, BiasOr(s.bias, {s.width}), inits.proj) {}

MultiHeadAttention::MultiHeadAttention(Module* parent, const std::string& name, const Options& options, Loc loc)
    : Module(parent, name),
      options_(Completed(options, path(), loc)),
      products_(this, SizesOf(options_), InitsOf(options_)) {}

void MultiHeadAttention::Check(const Var& query, const Var& key, const Var& value, const AttentionMasks& m,
                               const Loc& loc) const {
  auto refuse = [&](const std::string& what) {
    Fail(fmt::format("MultiHeadAttention {} at {}: {}", path(), ToString(loc), what));
  };
  for (const Var* x : {&query, &key, &value}) CheckAssigned(*x, ("MultiHeadAttention " + path()).c_str(), loc);
  bool fits = query.rank() == 3 && key.rank() == 3 && value.rank() == 3;
  fits = fits && key.dim(0) == query.dim(0) && value.dim(0) == query.dim(0) && value.dim(1) == key.dim(1);
  if (!fits || query.dim(2) != options_.embed_dim || key.dim(2) != options_.kdim || value.dim(2) != options_.vdim)
    refuse(
        fmt::format("expected a query [B, T, {}], a key [B, S, {}] and a value [B, S, {}], got {}, {} and {}; the "
                    "widths are embed_dim, kdim and vdim, and the batch is the first dim",
                    options_.embed_dim, options_.kdim, options_.vdim, ToString(query), ToString(key), ToString(value)));
  Shape scores{query.dim(1), key.dim(1)}, heads{query.dim(0) * options_.num_heads, query.dim(1), key.dim(1)};
  Shape keys{key.dim(0), key.dim(1)};
  auto check = [&](const char* what, const Var& mask, bool boolean, const Shape& one, const Shape& other) {
    if (!mask.defined()) return;
    bool type = boolean ? mask.dtype() == DType::kBool : IsFloating(mask.dtype());
    if (type && (mask.shape() == one || mask.shape() == other)) return;
    refuse(fmt::format("expected {} {} of {}{}, got {}{}", boolean ? "a boolean" : "a floating", what, ToString(one),
                       one == other ? "" : " or " + ToString(other), ToString(mask),
                       type      ? one == other ? "; give one per key" : "; its dims are those of queries and keys"
                       : boolean ? "; a float mask is attn_bias or key_padding_bias"
                                 : "; a boolean mask is attn_mask or key_padding_mask"));
  };
  check("attn_mask", m.attn_mask.var(), true, scores, heads);
  check("attn_bias", m.attn_bias, false, scores, heads);
  check("key_padding_mask", m.key_padding_mask.var(), true, keys, keys);
  check("key_padding_bias", m.key_padding_bias, false, keys, keys);
  if (m.query_segments.defined() != m.key_segments.defined())
    refuse(fmt::format("{} without {}; give both", m.query_segments.defined() ? "query_segments" : "key_segments",
                       m.query_segments.defined() ? "key_segments" : "query_segments"));
}

Var MultiHeadAttention::operator()(Var query, Var key, Var value, const AttentionMasks& masks, Loc loc) {
  Check(query, key, value, masks, loc);
  ModuleScope scope(name());
  auto memory = [&](const Var& x) { return Boundary(x, "memory", loc); };
  Var x = Boundary(query, "input", loc);                              // [B, T, C]
  Var from = key == query ? x : memory(key);                          // [B, S, kdim]
  Var of = value == key ? from : value == query ? x : memory(value);  // [B, S, vdim]
  Var q = products_.q(x, loc), k = products_.k(from, loc),
      v = products_.v(of, loc);  // [B, T, H, D], [B, S, H, D] twice
  Var attended = Sdpa(q, k, v, SdpaOptionsOf(masks, q, k, options_.dropout, loc), loc);  // [B, T, H, D]
  return Boundary(products_.proj(attended, loc), "output", loc);                         // [B, T, C]
}

}  // namespace weft::nn
