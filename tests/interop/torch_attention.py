"""Makes golden cases of attention with PyTorch: python3 torch_attention.py > tests/golden/.torch/attention.jsonl

torch_golden.py has the format. scaled_dot_product_attention gives the cases that it can compute; windows, segments and
lengths are masks to it. Soft caps and sinks are composed with softmax. Operands lie as Weft has them: q [B, T, H, D],
k [B, S, G, D], v [B, S, G, E], then the further ones. tests/core/torch_attention_test.cc replays the cases.
"""
import itertools
import sys
import warnings

import torch
import torch.nn.functional as F

from torch_golden import Golden

DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def heads_first(x):
    return x.transpose(1, 2)


def sdpa(q, k, v, mask=None, causal="none", scale=None):
    """PyTorch's own function. Its causal mask is aligned to the top left; "bottom_right" is given as a mask."""
    q, k, v = map(heads_first, (q, k, v))
    T, S = q.shape[2], k.shape[2]
    if causal == "bottom_right":
        mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    grouped = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal == "top_left", scale=scale,
                                         enable_gqa=grouped)
    return heads_first(out)


def positions(T, S, left=-1, right=-1):
    i, j = torch.arange(T).reshape(T, 1), torch.arange(S).reshape(1, S)
    seen = torch.ones(T, S, dtype=torch.bool)
    if left >= 0:
        seen &= j >= i - left
    if right >= 0:
        seen &= j <= i + right
    return seen


def windowed(q, k, v, left, right):
    return sdpa(q, k, v, positions(q.shape[1], k.shape[1], left, right))


def segmented(q, k, v, of_queries, of_keys):
    same = (of_queries[:, :, None] == of_keys[:, None, :]) & (of_keys >= 0)[:, None, :]
    return sdpa(q, k, v, same[:, None])


def with_lengths(q, k, v, lengths):
    return sdpa(q, k, v, (torch.arange(k.shape[1])[None] < lengths[:, None])[:, None, None])


def composed(q, k, v, seen, change):
    """Softmax of change(scores) over the keys that are seen; `change` may add columns without values."""
    q, k, v = map(heads_first, (q, k, v))
    group, wide = q.shape[1] // k.shape[1], torch.float64 if q.dtype == torch.float64 else torch.float32
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q.to(wide) @ k.to(wide).transpose(-1, -2) / q.shape[-1] ** 0.5
    p = torch.softmax(change(s).masked_fill(~F.pad(seen, (0, change(s).shape[-1] - s.shape[-1]), value=True),
                                            float("-inf")), -1)[..., :s.shape[-1]]
    return heads_first((p @ v.to(wide)).to(q.dtype))


def capped(q, k, v, softcap, left, right):
    seen = positions(q.shape[1], k.shape[1], left, right)
    return composed(q, k, v, seen, lambda s: softcap * torch.tanh(s / softcap))


def with_sinks(q, k, v, sinks, causal="none"):
    seen = positions(q.shape[1], k.shape[1], right=0 if causal == "top_left" else -1)
    column = sinks.reshape(1, -1, 1, 1)
    return composed(q, k, v, seen, lambda s: torch.cat([s, column.to(s.dtype).expand(*s.shape[:3], 1)], -1))


def tolerance(dtype):
    # A narrow type rounds the result and the gradients; PyTorch also rounds probabilities to it.
    return {torch.float64: 1e-8, torch.float32: 1e-5, torch.bfloat16: 4e-2}[dtype]


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    golden = Golden(sys.stdout, seed=2)

    def operands(T, S, H, G, D, E, dtype):
        return [golden.draw((2, T, H, D), dtype), golden.draw((2, S, G, D), dtype), golden.draw((2, S, G, E), dtype)]

    sizes = [(4, 4, 2, 2, 4, 4), (3, 5, 4, 2, 4, 4), (5, 3, 2, 1, 4, 6), (1, 6, 4, 1, 8, 8), (4, 5, 3, 3, 3, 3)]
    for size, dtype, causal, scale in itertools.product(sizes, DTYPES, ("none", "top_left", "bottom_right"), (None, 0.3)):
        golden.case("sdpa", sdpa, operands(*size, dtype), {"causal": causal, "scale": scale}, tolerance=tolerance(dtype))
    for size, dtype in itertools.product(sizes, DTYPES):
        T, S, H = size[:3]
        for b, h, t in ((1, 1, T), (2, 1, T), (1, H, T), (2, H, T), (2, 1, 1)):
            golden.case("sdpa_mask", sdpa, operands(*size, dtype) + [golden.draw((b, h, t, S), torch.bool)],
                        tolerance=tolerance(dtype))
            golden.case("sdpa_bias", sdpa, operands(*size, dtype) + [golden.draw((b, h, t, S), dtype)],
                        tolerance=tolerance(dtype))
        for causal in ("none", "top_left"):
            golden.case("sdpa_sinks", with_sinks, operands(*size, dtype) + [golden.draw((H,), dtype)],
                        {"causal": causal}, tolerance=tolerance(dtype))
    for size, dtype, (left, right) in itertools.product(
            sizes[:3], DTYPES, ((-1, 1), (1, 0), (0, 1), (2, -1), (4, 4), (0, 0))):
        window = {"left": left, "right": right}
        golden.case("sdpa_window", windowed, operands(*size, dtype), window, tolerance=tolerance(dtype))
        if size[0] <= size[1]:  # each query sees a key, so that no softmax is of nothing
            golden.case("sdpa_softcap", capped, operands(*size, dtype), {**window, "softcap": 1.5},
                        tolerance=tolerance(dtype))
    for size, dtype in itertools.product(sizes, DTYPES):
        T, S = size[:2]
        segments = [golden.draw((2, T), torch.int64, 0, 2), golden.draw((2, S), torch.int64, -1, 2)]
        golden.case("sdpa_segments", segmented, operands(*size, dtype) + segments, tolerance=tolerance(dtype))
        golden.case("sdpa_lengths", with_lengths, operands(*size, dtype) + [golden.draw((2,), torch.int64, 0, S + 1)],
                    tolerance=tolerance(dtype))
    print(f"{golden.count} cases with PyTorch {torch.__version__}", file=sys.stderr)


if __name__ == "__main__":
    main()
