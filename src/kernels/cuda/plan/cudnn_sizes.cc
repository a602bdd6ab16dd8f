#include "weft/kernels/cuda/plan/cudnn_sizes.h"

#include <fmt/format.h>

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {
namespace {

// A part may write as many scores as all heads have for so many keys, and no more bytes.
constexpr int64_t kMostKeys = 1024, kMostScoreBytes = int64_t(8) << 30;

// Returns the bytes of scores that the deterministic gradient writes. It writes all scores, including masked ones.
int64_t ScoreBytes(const KernelCall& call, const SdpaSizes& z) {
  constexpr int64_t kTile = 64;
  return int64_t(z.B) * z.H * RoundUp(z.T, kTile) * RoundUp(z.S, kTile) * int64_t(SizeOf(call.in[0].dtype));
}

// Returns how many KV heads, with their query heads, one part may have. Their scores then take memory that is linear in
// the length, although those of a single head grow with its square.
int64_t MostKvHeads(const KernelCall& call, const SdpaSizes& z) {
  int64_t heads = int64_t(z.B) * z.G, of_length = heads * kMostKeys / std::max(z.S, 1);
  int64_t of_bytes = kMostScoreBytes / std::max<int64_t>(ScoreBytes(call, z) / std::max<int64_t>(heads, 1), 1);
  return std::min({heads, of_length, of_bytes});
}

// Returns elements [first, first + n) of a dim of the view.
TensorView PartOf(TensorView view, int dim, int64_t first, int64_t n) {
  DimView& d = view.dims[size_t(dim)];
  if (view.data) view.data = view.as<char>() + first * d.stride * int64_t(SizeOf(view.dtype));
  d.offset += first;
  d.extent = n;
  return view;
}

// Returns whether the heads match those of cuDNN, which gives query head h the KV head h / (H / G).
bool HeadsMatch(const SdpaSizes& z) {
  if (z.H % z.G) return false;
  for (int h = 0; h < z.H; h++)
    if (z.KvHead(h) != h / (z.H / z.G)) return false;
  return true;
}

std::string RefusesOptions(const KernelCall& call, const SdpaSizes& z) {
  struct Flag {
    AttrName<int64_t> name;
    const char* operands;
  };
  static constexpr Flag kFlags[] = {
      {"mask", "masks"}, {"bias", "biases"}, {"sinks", "sinks"}, {"offsets", "offsets"}, {"segments", "segments"}};
  const Attrs& attrs = *call.attrs;
  for (const Flag& flag : kFlags)
    if (attrs.IntOr(flag.name, 0)) return fmt::format("it does not take {}", flag.operands);
  if (attrs.Has("softcap")) return "it does not take soft caps";
  if (attrs.Has("p")) return "it does not drop probabilities";
  if (z.E != z.D) return fmt::format("values of size {} differ from keys of size {}", z.E, z.D);
  // With lengths, cuDNN aligns a causal mask and a window to the last key of each sequence.
  if (attrs.IntOr("lengths", 0) && MaskOf(z) == SdpaMask::kCausal && z.T != z.S)
    return fmt::format("it takes lengths with a causal mask only for as many queries as keys, got {} and {}", z.T, z.S);
  bool windows = attrs.IntOr("left", -1) >= 0 || attrs.IntOr("right", -1) >= 0;
  if (windows && !attrs.Int("causal")) return "it takes windows only with a causal mask";
  // Otherwise some keys have no query, or the window ends before the first key.
  if (windows && (z.T != z.S || z.shift != 0))
    return fmt::format("a window with causal offset {}, {} queries and {} keys, expected offset 0 and as many keys",
                       z.shift, z.T, z.S);
  return {};
}

std::string RefusesSizes(const KernelCall& call, const SdpaSizes& z) {
  if (!IsHalf(call.in[0].dtype)) return fmt::format("{} is neither bf16 nor f16", Name(call.in[0].dtype));
  if (z.D % 8 || z.D > 256) return fmt::format("head size {} is not a multiple of 8 up to 256", z.D);
  if (z.B == 0 || z.T == 0 || z.S == 0 || z.H == 0 || z.G == 0) return "an operand is empty on this rank";
  if (!HeadsMatch(z)) return "the query heads of this rank are not whole groups of its KV heads";
  if (MaskOf(z) == SdpaMask::kOther)
    return fmt::format("causal with offset {}, expected {} keys less {} queries", z.shift, z.S, z.T);
  if (!HasAlignedRows(call)) return "an operand's rows are not aligned to 16 bytes";
  return {};
}

// Returns the bytes that cuDNN itself needs, for use without a GPU to ask. They are those of its kernels for sm_90. The
// backward pass keeps a sum per query. It adds up dQ in f32 or, if it is deterministic, stores the gradient of scores.
// With grouped heads it also stores dK and dV of every query head before it adds up those of a KV head.
int64_t ExpectedScratch(const KernelCall& call, const SdpaSizes& z) {
  if (!IsSdpaGrad(call)) return 0;
  int64_t rows = int64_t(z.B) * z.H * z.T, heads = z.H == z.G ? 0 : 2 * int64_t(z.B) * z.H * z.S * z.D;
  int64_t dq = IsDeterministic(call) ? ScoreBytes(call, z) : rows * z.D * int64_t(sizeof(float));
  return dq + rows * int64_t(sizeof(float)) + heads * int64_t(SizeOf(call.in[0].dtype));
}

}  // namespace

SdpaMask MaskOf(const SdpaSizes& z) {
  if (z.Visible(0) == z.S) return SdpaMask::kNone;
  return z.shift >= 0 && z.shift == z.S - z.T ? SdpaMask::kCausal : SdpaMask::kOther;
}

int64_t CudnnLeftBound(const KernelCall& call, const SdpaSizes& z) {
  int64_t left = call.attrs->IntOr("left", -1);
  return left < 0 || left >= z.S - 1 || MaskOf(z) != SdpaMask::kCausal ? 0 : left + 1;
}

bool IsDeterministic(const KernelCall& call) { return call.context->numerics().deterministic; }

std::string CudnnRefusesShape(const KernelCall& call) {
  SdpaSizes z(call);
  if (std::string reason = RefusesOptions(call, z); !reason.empty()) return reason;
  if (std::string reason = RefusesSizes(call, z); !reason.empty()) return reason;
  if (!HasCudnnAttention())
    return "built without cudnn-frontend; run launcher/setup.sh, then configure and build again";
  if (!IsSdpaGrad(call) || !IsDeterministic(call) || MostKvHeads(call, z) > 0) return {};
  return fmt::format(
      "its deterministic gradient stores the scores of at least one of {} KV heads, more memory than {} keys take for "
      "all of them; kernels.deterministic=false goes without them",
      int64_t(z.B) * z.G, kMostKeys);
}

CudnnParts::CudnnParts(const KernelCall& call) : call_(call) {
  SdpaSizes z(call);
  B_ = sequences_ = z.B, G_ = kv_heads_ = z.G, group_ = z.G ? z.H / z.G : 0;
  if (!IsSdpaGrad(call) || !IsDeterministic(call)) return;
  int64_t most = std::max<int64_t>(MostKvHeads(call, z), 1);
  // Parts of nearly the same size, so that they share a plan if they can.
  auto even = [](int64_t n, int64_t at_most) { return CeilDiv(n, CeilDiv(n, at_most)); };
  sequences_ = most < z.G ? 1 : even(z.B, most / z.G);
  kv_heads_ = most < z.G ? even(z.G, most) : z.G;
}
int64_t CudnnParts::count() const { return CeilDiv(B_, sequences_) * CeilDiv(G_, kv_heads_); }

CudnnParts::Part CudnnParts::operator[](int64_t i) const {
  int64_t columns = CeilDiv(G_, kv_heads_), b = i / columns * sequences_, g = i % columns * kv_heads_;
  int64_t sequences = std::min(sequences_, B_ - b), heads = std::min(kv_heads_, G_ - g);
  Part part;
  auto cut = [&](const TensorView& view, bool of_keys) {
    if (view.rank == 1) return PartOf(view, 0, b, sequences);  // lengths
    int64_t per = of_keys ? 1 : group_;
    return PartOf(PartOf(view, 0, b, sequences), 2, g * per, heads * per);
  };
  // In: q, k, v, and of a gradient out, lse and dout. Out: out and lse, or dq, dk and dv.
  for (size_t k = 0; k < call_.in.size(); k++) part.in_.push_back(cut(call_.in[k], k == 1 || k == 2));
  for (size_t k = 0; k < call_.out.size(); k++)
    part.out_.push_back(cut(call_.out[k], IsSdpaGrad(call_) && (k == 1 || k == 2)));
  part.call_ = call_;
  return part;
}

bool HasLengths(const KernelCall& call) { return call.attrs->IntOr("lengths", 0) != 0; }

size_t CudnnLengthBytes(const KernelCall& call, const SdpaSizes& z) {
  return HasLengths(call) ? size_t(RoundUp(2 * int64_t(z.B) * int64_t(sizeof(int32_t)), kCudnnAlign)) : 0;
}

size_t CudnnLseBytes(const KernelCall& call, const SdpaSizes& z) {
  return IsSdpaGrad(call) ? size_t(RoundUp(int64_t(z.B) * z.H * z.T * int64_t(sizeof(float)), kCudnnAlign)) : 0;
}

size_t CudnnScratchBytes(const KernelCall& call, const SdpaSizes& z, int64_t own) {
  return CudnnLseBytes(call, z) + CudnnLengthBytes(call, z) + size_t(own + kCudnnAlign);
}

size_t CudnnExpectedWorkspace(const KernelCall& call) {
  CudnnParts::Part part = CudnnParts(call)[0];  // none is larger
  SdpaSizes z(part.call());
  return CudnnScratchBytes(part.call(), z, ExpectedScratch(part.call(), z));
}

}  // namespace weft::cuda
