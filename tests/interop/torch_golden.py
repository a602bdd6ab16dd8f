"""Makes golden cases of ops and functions with PyTorch: python3 torch_golden.py > tests/golden/.torch/ops.jsonl

Needs torch and numpy; the tests need neither. One case is one line of JSON:

  {"op": "gather", "attrs": {"dim": 0},
   "in": [{"dtype": "f32", "shape": [5, 3], "values": [...]}, ...],
                           or, instead of "values", "draw": a seed, whose values drawn() makes
   "out": [...],           like "in"
   "grad": [[...], null],  of each operand, for the loss sum over outputs o and elements k of sin(1 + k + o) y_o[k];
                           null: the operand has none. An empty list: there are no gradients
   "tolerance": 1e-5}      of |got - want| / max(1, largest |want|)

Numbers have 9 digits, which is exact for f32 and for narrower types; operands of f64 are drawn as f32. Numbers that are
not finite are the strings "nan", "inf" and "-inf". tests/core/torch_golden_test.cc replays the cases.
"""
import json
import math
import sys
import warnings

import torch
import torch.nn.functional as F

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16",
         torch.int64: "i64", torch.int32: "i32", torch.bool: "bool"}
# Sums run in other orders, and a composition in a narrow type rounds more often than one kernel.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 4e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}
FLOATS = (torch.float64, torch.float32, torch.bfloat16)


def number(value):
    if isinstance(value, (bool, int)):
        return int(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = "%.9g" % value
    return float(text) if "." in text or "e" in text else int(text)


def values(tensor):
    tensor = tensor.detach()
    return [number(v) for v in (tensor.double() if tensor.is_floating_point() else tensor).flatten().tolist()]


def drawn(shape, dtype, seed):
    """Values in [-1, 1] that are exact in every dtype, and that a test makes again: a hash of the seed and of the
    element's index, modulo 257, minus 128, divided by 128."""
    def element(k):
        h = (seed * 0x9E3779B1 + k * 0x85EBCA77) & 0xFFFFFFFF
        h = ((h ^ (h >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
        h = ((h ^ (h >> 15)) * 0x846CA68B) & 0xFFFFFFFF
        return ((h ^ (h >> 16)) % 257 - 128) / 128

    tensor = torch.tensor([element(k) for k in range(math.prod(shape))], dtype=dtype).reshape(shape)
    tensor.seed = seed
    return tensor


def encode(tensor):
    content = {"draw": tensor.seed} if hasattr(tensor, "seed") else {"values": values(tensor)}
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), **content}


def cotangent(output, o):
    wave = torch.sin(1.0 + o + torch.arange(output.numel(), dtype=torch.float64))
    return wave.reshape(output.shape).to(output.dtype)


class Golden:
    """Writes cases. Operands are made by draw(), so that every run of this file writes the same lines."""

    def __init__(self, file, seed=1):
        self.file, self.generator, self.count = file, torch.Generator().manual_seed(seed), 0

    def draw(self, shape, dtype=torch.float32, low=None, high=None):
        if dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=self.generator).bool()
        if not dtype.is_floating_point:
            return torch.randint(-9 if low is None else low, 10 if high is None else high, shape,
                                 generator=self.generator).to(dtype)
        if low is None:
            drawn = torch.randn(shape, generator=self.generator)
        else:
            drawn = low + (high - low) * torch.rand(shape, generator=self.generator)
        # Few digits keep the file small, and are exact in every dtype but for rounding to it.
        return (torch.round(drawn * 128) / 128).to(dtype)

    def case(self, op, fn, operands, attrs=None, gradients=True, tolerance=None):
        """fn(*operands, **attrs) returns one tensor or several."""
        attrs = attrs or {}
        floating = [x.is_floating_point() for x in operands]
        leaves = [x.clone().requires_grad_(True) if f and gradients else x for x, f in zip(operands, floating)]
        results = fn(*leaves, **attrs)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        grads = []
        if gradients and any(floating) and any(r.requires_grad for r in results):
            sum((cotangent(r, o) * r).sum() for o, r in enumerate(results) if r.is_floating_point()).backward()
            grads = [values(x.grad) if f and x.grad is not None else None for x, f in zip(leaves, floating)]
        if tolerance is None:
            tolerance = max(TOLERANCES.get(x.dtype, 0) for x in list(operands) + results)
        line = {"op": op, "attrs": attrs, "in": [encode(x) for x in operands], "out": [encode(r) for r in results],
                "grad": grads, "tolerance": tolerance}
        self.file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
        self.count += 1


def replaced(shape, dim, extent):
    shape = list(shape)
    shape[dim] = extent
    return shape


def window(x, start, dim, length):
    """The windows of DynamicSlice, for one start per row of x's first dims."""
    if start.dim() == 0:
        at = min(max(int(start), 0), x.shape[dim] - length)
        return x.narrow(dim, at, length)
    return torch.stack([window(x[i], start[i], dim - 1, length) for i in range(x.shape[0])])


def update(x, part, start, dim):
    if start.dim() == 0:
        at = min(max(int(start), 0), x.shape[dim] - part.shape[dim])
        return torch.cat([x.narrow(dim, 0, at), part,
                          x.narrow(dim, at + part.shape[dim], x.shape[dim] - at - part.shape[dim])], dim)
    return torch.stack([update(x[i], part[i], start[i], dim - 1) for i in range(x.shape[0])])


def indexing(g):
    shapes = [((5, 3), 0, 4), ((5, 3), 1, 2), ((2, 4, 3), 1, 6), ((7,), 0, 3)]
    for dtype in FLOATS + (torch.float16, torch.int64):
        for shape, dim, ids in shapes:
            x, picked = g.draw(shape, dtype), replaced(shape, dim, ids)
            index = g.draw(picked, torch.int64, 0, shape[dim])
            g.case("gather", lambda x, i, dim: torch.gather(x, dim, i), [x, index], {"dim": dim})
            src = g.draw(picked, dtype)
            g.case("scatter_add", lambda x, i, s, dim: torch.scatter_add(x, dim, i, s), [x, index, src], {"dim": dim})
            # PyTorch's gradient of a scatter is defined for distinct ids only.
            g.case("scatter", lambda x, i, s, dim: torch.scatter(x, dim, i, s), [x, index, src], {"dim": dim},
                   gradients=False)
            distinct = torch.argsort(torch.rand(shape, generator=g.generator), dim).narrow(dim, 0, min(ids, shape[dim]))
            g.case("scatter", lambda x, i, s, dim: torch.scatter(x, dim, i, s),
                   [x, distinct, g.draw(distinct.shape, dtype)], {"dim": dim})
        for shape, dim, starts, length in [((7, 2), 0, (), 3), ((3, 5), 1, (3,), 2), ((2, 3, 6), 2, (2, 3), 4),
                                           ((2, 5, 2), 1, (2,), 1), ((4, 3), 1, (), 3)]:
            x, start = g.draw(shape, dtype), g.draw(starts, torch.int64, -2, shape[dim] + 2)
            g.case("dynamic_slice", window, [x, start], {"dim": dim, "length": length})
            g.case("dynamic_update", update, [x, g.draw(replaced(shape, dim, length), dtype), start], {"dim": dim})
        for shape, dim, start, length, step in [((9,), 0, 1, 4, 2), ((3, 8), 1, 0, 3, 3), ((7, 2), 0, 2, 5, 1),
                                                ((4, 10), 1, 1, 2, 4)]:
            g.case("slice", lambda x, dim, start, length, step:
                   x.index_select(dim, torch.arange(length) * step + start), [g.draw(shape, dtype)],
                   {"dim": dim, "start": start, "length": length, "step": step})
        for shape, dim in [((5, 2), 0), ((3, 4), 1), ((6,), 0)]:
            g.case("reverse", lambda x, dim: torch.flip(x, [dim]), [g.draw(shape, dtype)], {"dim": dim})


def ordering(g):
    def sort(x, dim, descending):
        return torch.sort(x, dim=dim, descending=descending, stable=True)

    def top_k(x, k, dim):  # torch.topk leaves the order of equal elements open; a stable sort does not
        return [v.narrow(dim, 0, k) for v in sort(x, dim, True)]

    for dtype in FLOATS + (torch.float16, torch.int64, torch.int32):
        for shape, dim in [((6,), 0), ((4, 5), 1), ((5, 3), 0), ((2, 7, 2), 1)]:
            x = g.draw(shape, dtype)
            for descending in (False, True):
                g.case("sort", sort, [x], {"dim": dim, "descending": descending})
            g.case("top_k", top_k, [x], {"k": 3, "dim": dim})
            g.case("cum_max", lambda x, dim: torch.cummax(x, dim), [x], {"dim": dim})
    odd = torch.tensor([[0.5, math.nan, -0.0, 0.0, math.inf], [math.nan, 1, 1, -math.inf, 2]])
    for descending in (False, True):
        g.case("sort", sort, [odd], {"dim": 1, "descending": descending}, gradients=False)
    g.case("cum_max", lambda x, dim: torch.cummax(x, dim), [odd], {"dim": 1}, gradients=False)


def elementwise(g):
    for name, fn in [("floor", torch.floor), ("ceil", torch.ceil), ("round", torch.round), ("trunc", torch.trunc)]:
        for dtype in FLOATS + (torch.int64, torch.int32):
            g.case(name, fn, [g.draw((4, 5), dtype, -3, 3)])
        g.case(name, fn, [torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, math.inf, math.nan, -0.0])], gradients=False)
    for dtype in FLOATS:
        g.case("expm1", torch.expm1, [g.draw((3, 4), dtype)])
        g.case("log1p", torch.log1p, [g.draw((3, 4), dtype, 0, 4)])
    g.case("expm1", torch.expm1, [torch.tensor([1e-7, -1e-7, 3.0, 0.0])])
    g.case("log1p", torch.log1p, [torch.tensor([1e-7, -1e-7, 3.0, 0.0])])
    for dtype in FLOATS + (torch.int64, torch.int32):
        a, b = g.draw((4, 6), dtype, -7, 8), g.draw((4, 6), dtype, 1, 5)
        b = torch.where(g.draw((4, 6), torch.bool), b, -b)
        g.case("remainder", torch.remainder, [a, b])
        g.case("floor_divide", torch.floor_divide, [a, b], gradients=False)
        x = g.draw((5, 5), dtype, -4, 5)
        for low, high in [(-1, 2), (None, 1), (0, None), (2, -2)]:
            g.case("clamp", lambda x, low, high: torch.clamp(x, low, high), [x], {"low": low, "high": high})
    bounds = torch.tensor([-1.0, 2.0, 0.0, -1.5, 2.5])
    g.case("clamp", lambda x, low, high: torch.clamp(x, low, high), [bounds], {"low": -1, "high": 2})
    pairs = [((2, 1, 3), (2, 4, 3)), ((5, 1), (1, 3)), ((3, 1), (2, 1, 4)), ((1,), (4,)), ((), (2, 2)),
             ((1, 3), (2, 3))]
    for a, b in pairs:
        for name, fn in [("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("maximum", torch.maximum)]:
            for dtype in (torch.float32, torch.int64):
                g.case(name, fn, [g.draw(a, dtype), g.draw(b, dtype) + (1 / 256 if dtype == torch.float32 else 0)])
        g.case("div", torch.div, [g.draw(a), g.draw(b, torch.float32, 0.5, 2)])
        g.case("less", torch.lt, [g.draw(a, torch.int64), g.draw(b, torch.int64)])
        g.case("where", torch.where, [g.draw(a, torch.bool), g.draw(b), g.draw((1,) * max(len(a), len(b)))])


def functions(g):
    shapes = [((4, 5), 1), ((3, 6), 0), ((2, 3, 4), 1), ((7,), 0)]
    for dtype in FLOATS:
        for shape, dim in shapes:
            x = g.draw(shape, dtype)
            g.case("softmax", lambda x, dim: torch.softmax(x, dim), [x], {"dim": dim})
            g.case("log_softmax", lambda x, dim: torch.log_softmax(x, dim), [x], {"dim": dim})
            g.case("logsumexp", lambda x, dim: torch.logsumexp(x, dim), [x], {"dim": dim})
            g.case("mean", lambda x, dim: torch.mean(x, dim), [x], {"dim": dim})
            for correction in (0, 1):
                g.case("var", lambda x, dim, correction: torch.var(x, dim, correction=correction), [x],
                       {"dim": dim, "correction": correction})
            g.case("mean_all", torch.mean, [x])
            g.case("cosine_similarity", lambda a, b, dim, eps: F.cosine_similarity(a, b, dim, eps),
                   [x, g.draw(shape, dtype)], {"dim": dim, "eps": 1e-8})
        for diagonal in (-2, 0, 1):
            for shape in ((4, 6), (2, 5, 3)):
                for name, fn in (("tril", torch.tril), ("triu", torch.triu)):
                    g.case(name, fn, [g.draw(shape, dtype)], {"diagonal": diagonal})
        for dim in (0, 1, -1):
            xs = [g.draw((3, 2), dtype) for _ in range(3)]
            g.case("stack", lambda *xs, dim: torch.stack(xs, dim), xs, {"dim": dim})
        for shape, chunks, dim in [((7, 2), 3, 0), ((2, 6), 4, 1), ((5,), 8, 0)]:
            g.case("chunk", lambda x, chunks, dim: torch.chunk(x, chunks, dim), [g.draw(shape, dtype)],
                   {"chunks": chunks, "dim": dim})
        for shape, mask in [((4, 5), (4, 5)), ((2, 3, 4), (3, 1)), ((3, 4), (1, 4))]:
            g.case("masked_fill", lambda x, m, value: x.masked_fill(m, value),
                   [g.draw(shape, dtype), g.draw(mask, torch.bool)], {"value": -2.5})
        for shape, dim in [((3, 1, 2), 1), ((1, 4), 0), ((5, 1), -1), ((1,), 0)]:
            g.case("squeeze", lambda x, dim: torch.squeeze(x, dim), [g.draw(shape, dtype)], {"dim": dim})
            g.case("unsqueeze", lambda x, dim: torch.unsqueeze(x, dim), [g.draw(shape, dtype)], {"dim": dim})
    rows = torch.tensor([[1.0, -math.inf], [math.inf, 1.0], [1e4, 1e4], [-math.inf, -math.inf]])
    g.case("logsumexp", torch.logsumexp, [rows[:1]], {"dim": 1})
    g.case("logsumexp", torch.logsumexp, [rows], {"dim": 1}, gradients=False)
    g.case("cosine_similarity", lambda a, b, dim, eps: F.cosine_similarity(a, b, dim, eps),
           [g.draw((2, 1, 4)), g.draw((3, 4))], {"dim": -1, "eps": 1e-8})
    for dtype in (torch.int64,):
        for shape in ((4,), (2, 3), ()):
            g.case("one_hot", lambda x, classes: F.one_hot(x, classes), [g.draw(shape, dtype, 0, 5)], {"classes": 5})
        g.case("tril", lambda x, diagonal: torch.tril(x, diagonal), [g.draw((3, 3), dtype)], {"diagonal": 0})


def bce(x, t, w=None, reduction="mean"):
    # PyTorch takes weights as constants.
    return F.binary_cross_entropy_with_logits(x, t, pos_weight=w if w is None else w.detach(), reduction=reduction)


def nll(x, t, w=None, reduction="mean", ignore_index=-100):
    return F.nll_loss(x, t, weight=w if w is None else w.detach(), reduction=reduction, ignore_index=ignore_index)


def kl_div(x, t, reduction, log_target):
    return F.kl_div(x, t, reduction=reduction, log_target=log_target)


def rounded(x, dtype):
    return x.mul(64).round().div(64).to(dtype)


def losses(g):
    for dtype in FLOATS:
        for reduction in ("none", "mean", "sum"):
            how = {"reduction": reduction}
            a, b = g.draw((4, 3), dtype), g.draw((4, 3), dtype)
            a[0, 0] = b[0, 0]
            for name, fn in (("mse_loss", F.mse_loss), ("l1_loss", F.l1_loss)):
                g.case(name, lambda a, b, reduction, fn=fn: fn(a, b, reduction=reduction), [a, b], how)
            for beta in (0.5, 1.0, 0.0):
                g.case("smooth_l1_loss", lambda a, b, reduction, beta:
                       F.smooth_l1_loss(a, b, reduction=reduction, beta=beta), [a, b], {**how, "beta": beta})
            for delta in (0.5, 1.0):
                g.case("huber_loss", lambda a, b, reduction, delta:
                       F.huber_loss(a, b, reduction=reduction, delta=delta), [a, b], {**how, "delta": delta})
            logits, p = g.draw((3, 4), dtype), g.draw((3, 4), dtype, 0, 1)
            logits[0, 0], logits[1, 1], logits[2, 2] = 0, 20, -20
            g.case("bce_with_logits", bce, [logits, p], how)
            g.case("bce_with_logits", bce, [logits, p, g.draw((4,), dtype, 0.5, 2)], how)
            log_p = rounded(torch.log_softmax(g.draw((3, 4)), 1), dtype)
            target = rounded(torch.softmax(g.draw((3, 4)), 1), dtype).clamp_min(1 / 64)
            g.case("kl_div", kl_div, [log_p, target], {**how, "log_target": False})
            g.case("kl_div", kl_div, [log_p, log_p.flip(0)], {**how, "log_target": True})
            some_zeros = target * (target > 0.25)  # PyTorch's gradient of such a target is NaN
            g.case("kl_div", lambda x, t, **how: kl_div(x, t.detach(), **how), [log_p, some_zeros],
                   {**how, "log_target": False})
            for shape, ignore in [((5, 4), -100), ((5, 4), 1), ((2, 4, 3), -100), ((4,), -100)]:
                x, dim = g.draw(shape, dtype), 0 if len(shape) == 1 else 1
                t = g.draw(shape[:dim] + shape[dim + 1:], torch.int64, 0, 4)
                if t.dim():
                    t.view(-1)[0] = ignore
                g.case("nll_loss", nll, [x, t], {**how, "ignore_index": ignore})
                g.case("nll_loss", nll, [x, t, g.draw((4,), dtype, 0.5, 2)], {**how, "ignore_index": ignore})


def main():
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "reduction: 'mean'")
    g = Golden(sys.stdout)
    for family in (indexing, ordering, elementwise, functions, losses):
        family(g)
    print(f"{g.count} cases with PyTorch {torch.__version__}", file=sys.stderr)


if __name__ == "__main__":
    main()
