"""Makes golden cases of torch.nn's transformer layers: python3 torch_transformer.py > tests/golden/.torch/transformer.jsonl

torch_golden.py has the format. The operands of a case are its inputs, then its masks, then the parameters of the module
in the order of its state_dict. Attributes:

  "operands"  names of the operands: "query", "src.attn_mask", "self_attn.in_proj_weight", ...
  "causal"    which of "src", "tgt" and "memory" are causal, without a mask in Weft and with both in PyTorch
  "eval"      the module has dropout 0.1 and is not trained; otherwise it is trained with dropout 0

Gradients are asked for, so that PyTorch does not take its fast path of inference, whose outputs of padding are 0. Each
query sees the first key, because PyTorch gives NaN for a query that sees none.
tests/nn/torch_transformer_test.cc replays the cases.
"""
import itertools
import sys
import warnings

import torch
from torch import nn

from torch_golden import Golden, drawn

WIDTH, HEADS, HIDDEN, BATCH, TARGETS, SOURCES = 4, 2, 6, 2, 3, 4
# Sums of up to four layers run in other orders; the numbers of a case have 9 digits.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 2e-5}
DTYPES = (torch.float64, torch.float32)


class Case:
    """The operands of one case, by name, and what is causal."""

    def __init__(self, maker, dtype):
        self.maker, self.dtype, self.operands, self.causal = maker, dtype, {}, []

    def add(self, name, *shape):
        self.operands[name] = self.maker.draw_floats(shape, self.dtype)

    def mask(self, of, queries, keys, kinds):
        for kind in kinds:
            if kind == "causal":
                self.causal.append(of)
            elif kind in ("bool", "bool3"):
                shape = (queries, keys) if kind == "bool" else (BATCH * HEADS, queries, keys)
                self.operands[of + ".attn_mask"] = self.maker.ignored(shape)
            elif kind in ("float", "float3"):
                self.add(of + ".attn_bias", *((queries, keys) if kind == "float" else (BATCH * HEADS, queries, keys)))
            elif kind == "pad":
                self.operands[of + ".key_padding_mask"] = self.maker.ignored((BATCH, keys))
            else:
                self.add(of + ".key_padding_bias", BATCH, keys)


def masks_of(values, causal, of, queries, keys):
    """Returns PyTorch's attn_mask, key_padding_mask and is_causal."""
    mask = values.get(of + ".attn_mask", values.get(of + ".attn_bias"))
    if of in causal:
        mask = torch.ones(queries, keys, dtype=torch.bool).triu(1)
    return mask, values.get(of + ".key_padding_mask", values.get(of + ".key_padding_bias")), of in causal


class Maker:
    def __init__(self, file):
        self.golden, self.count, self.seeds = Golden(file, seed=3), 0, itertools.count(1)

    def draw_floats(self, shape, dtype):
        return drawn(shape, dtype, next(self.seeds))

    def ignored(self, shape):
        mask = self.golden.draw(shape, torch.bool)
        mask[..., 0] = False
        return mask

    def make(self, op, make_module, call, case, attrs):
        """call(module function, values of inputs and masks, causal) returns the output."""
        evaluates = self.count // 2 % 2 == 1
        self.count += 1
        module = make_module(0.1 if evaluates else 0.0).to(case.dtype).train(not evaluates)
        inputs = list(case.operands)
        for name, value in module.state_dict().items():
            case.add(name, *value.shape)

        def run(*operands, **_):
            values = dict(zip(case.operands, operands))
            parameters = {name: value for name, value in values.items() if name not in inputs}
            return call(lambda *args, **how: torch.func.functional_call(module, parameters, args, how),
                        values, case.causal)

        self.golden.case(op, run, list(case.operands.values()),
                         {**attrs, "operands": list(case.operands), "causal": case.causal, "eval": evaluates},
                         tolerance=TOLERANCES[case.dtype])


def attention(maker):
    kinds = [(), ("bool",), ("bool3",), ("float",), ("float3",), ("pad",), ("pad_float",), ("bool", "pad"),
             ("float", "pad_float"), ("causal",), ("causal", "pad")]
    for bias, widths, kind, dtype in itertools.product((True, False), ("self", "cross", "kdim"), kinds, DTYPES):
        kdim, vdim = (6, 5) if widths == "kdim" else (WIDTH, WIDTH)
        keys = TARGETS if widths == "self" else SOURCES
        case = Case(maker, dtype)
        case.add("query", BATCH, TARGETS, WIDTH)
        if widths != "self":
            case.add("key", BATCH, keys, kdim)
            case.add("value", BATCH, keys, vdim)
        case.mask("src", TARGETS, keys, kind)

        def call(module, values, causal):
            mask, padding, is_causal = masks_of(values, causal, "src", TARGETS, keys)
            query = values["query"]
            return module(query, values.get("key", query), values.get("value", query), need_weights=False,
                          attn_mask=mask, key_padding_mask=padding, is_causal=is_causal)[0]

        maker.make("attention", lambda dropout: nn.MultiheadAttention(
            WIDTH, HEADS, dropout, bias=bias, kdim=kdim, vdim=vdim, batch_first=True), call, case,
            {"bias": bias, "kdim": kdim, "vdim": vdim})


def options(dropout, activation, norm_first, bias):
    return {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": HIDDEN, "dropout": dropout, "activation": activation,
            "batch_first": True, "norm_first": norm_first, "bias": bias}


def how(activation, norm_first, bias, **more):
    return {"activation": activation, "norm_first": norm_first, "bias": bias, **more}


def src_call(module, values, causal):
    mask, padding, is_causal = masks_of(values, causal, "src", SOURCES, SOURCES)
    return module(values["src"], mask, src_key_padding_mask=padding, is_causal=is_causal)


def stack_call(module, values, causal):  # a stack names its first mask otherwise
    mask, padding, is_causal = masks_of(values, causal, "src", SOURCES, SOURCES)
    return module(values["src"], mask=mask, src_key_padding_mask=padding, is_causal=is_causal)


def tgt_call(module, values, causal):
    mask, padding, is_causal = masks_of(values, causal, "tgt", TARGETS, TARGETS)
    memory_mask, memory_padding, memory_is_causal = masks_of(values, causal, "memory", TARGETS, SOURCES)
    return module(values["tgt"], values["memory"], tgt_mask=mask, memory_mask=memory_mask,
                  tgt_key_padding_mask=padding, memory_key_padding_mask=memory_padding, tgt_is_causal=is_causal,
                  memory_is_causal=memory_is_causal)


def both_call(module, values, causal):
    mask, padding, is_causal = masks_of(values, causal, "tgt", TARGETS, TARGETS)
    memory_mask, memory_padding, memory_is_causal = masks_of(values, causal, "memory", TARGETS, SOURCES)
    src_mask, src_padding, src_is_causal = masks_of(values, causal, "src", SOURCES, SOURCES)
    return module(values["src"], values["tgt"], src_mask, mask, memory_mask, src_padding, padding, memory_padding,
                  src_is_causal, is_causal, memory_is_causal)


def src_case(maker, dtype, kinds):
    case = Case(maker, dtype)
    case.add("src", BATCH, SOURCES, WIDTH)
    case.mask("src", SOURCES, SOURCES, kinds)
    return case


def tgt_case(maker, dtype, kinds, memory_kinds):
    case = Case(maker, dtype)
    case.add("tgt", BATCH, TARGETS, WIDTH)
    case.add("memory", BATCH, SOURCES, WIDTH)
    case.mask("tgt", TARGETS, TARGETS, kinds)
    case.mask("memory", TARGETS, SOURCES, memory_kinds)
    return case


def both_case(maker, dtype, src_kinds, kinds, memory_kinds):
    case = Case(maker, dtype)
    case.add("src", BATCH, SOURCES, WIDTH)
    case.add("tgt", BATCH, TARGETS, WIDTH)
    case.mask("src", SOURCES, SOURCES, src_kinds)
    case.mask("tgt", TARGETS, TARGETS, kinds)
    case.mask("memory", TARGETS, SOURCES, memory_kinds)
    return case


VARIANTS = tuple(itertools.product(("relu", "gelu"), (False, True), (True, False)))


def layers(maker):
    src_kinds = [(), ("bool",), ("float",), ("pad",), ("causal",), ("bool", "pad"), ("causal", "pad")]
    for variant, kinds, dtype in itertools.product(VARIANTS, src_kinds, DTYPES):
        maker.make("encoder_layer", lambda dropout: nn.TransformerEncoderLayer(**options(dropout, *variant)), src_call,
                   src_case(maker, dtype, kinds), how(*variant))
    tgt_kinds = [((), ()), (("causal",), ()), (("bool",), ("pad",)), (("causal", "pad"), ("pad",)), ((), ("bool",)),
                 (("float",), ("float3",)), (("causal",), ("causal", "pad_float"))]
    for variant, (kinds, memory_kinds), dtype in itertools.product(VARIANTS, tgt_kinds, DTYPES):
        maker.make("decoder_layer", lambda dropout: nn.TransformerDecoderLayer(**options(dropout, *variant)), tgt_call,
                   tgt_case(maker, dtype, kinds, memory_kinds), how(*variant))


def norm_of(variant, wanted):
    return nn.LayerNorm(WIDTH, bias=variant[2]) if wanted else None


def stacks(maker):
    wanted = tuple(itertools.product((v for v in VARIANTS if v[2]), (True, False)))
    for (variant, norm), kinds, dtype in itertools.product(wanted, ((), ("causal",), ("pad",)), DTYPES):
        maker.make("encoder", lambda dropout: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**options(dropout, *variant)), 2, norm_of(variant, norm),
            enable_nested_tensor=False), stack_call, src_case(maker, dtype, kinds),
            how(*variant, layers=2, norm=norm))
    for (variant, norm), memory_kinds, dtype in itertools.product(wanted, ((), ("pad",)), DTYPES):
        maker.make("decoder", lambda dropout: nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**options(dropout, *variant)), 2, norm_of(variant, norm)), tgt_call,
            tgt_case(maker, dtype, ("causal",), memory_kinds), how(*variant, layers=2, norm=norm))


def transformers(maker):
    kinds = [((), (), ()), ((), ("causal",), ()), (("pad",), ("causal", "pad"), ("pad",)),
             (("float",), ("bool",), ("bool",))]
    for variant, (src, tgt, memory), dtype in itertools.product(VARIANTS, kinds, DTYPES):
        maker.make("transformer", lambda dropout: nn.Transformer(
            num_encoder_layers=1, num_decoder_layers=1, **options(dropout, *variant)), both_call,
            both_case(maker, dtype, src, tgt, memory), how(*variant, layers=1, decoder_layers=1))
    for variant, dtype in itertools.product((v for v in VARIANTS if v[2]), DTYPES):
        maker.make("transformer", lambda dropout: nn.Transformer(
            num_encoder_layers=2, num_decoder_layers=2, **options(dropout, *variant)), both_call,
            both_case(maker, dtype, ("pad",), ("causal",), ("pad",)), how(*variant, layers=2, decoder_layers=2))


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    maker = Maker(sys.stdout)
    for family in (attention, layers, stacks, transformers):
        family(maker)
    print(f"{maker.count} cases with PyTorch {torch.__version__}", file=sys.stderr)


if __name__ == "__main__":
    main()
