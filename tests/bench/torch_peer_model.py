"""The models that tests/bench/torch_peer.py trains: GPT-2 and Llama 3 decoders in plain PyTorch, with the sizes of Weft's
presets. Legend: B batch, S tokens of a sequence, C model dim, H query heads, G kv heads, D head size, V vocabulary."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint


@dataclass
class Config:
    arch: str  # gpt2 or llama
    dim: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int  # padded, as the product with the head likes it
    real_vocab: int  # ids that synthetic data draws from
    tied: bool
    rope_theta: float = 500000.0

    @property
    def head_dim(self):
        return self.dim // self.heads

    @property
    def qkv_sizes(self):
        return [self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim]


def gpt2(dim, layers, heads, vocab=50304, real_vocab=50257):
    return Config("gpt2", dim, layers, heads, heads, 4 * dim, vocab, real_vocab, True)


def llama(dim, layers, heads, kv_heads, ffn, vocab=128256):
    return Config("llama", dim, layers, heads, kv_heads, ffn, vocab, vocab, False)


CONFIGS = {
    "gpt2-124M": gpt2(768, 12, 12),
    "gpt2-350M": gpt2(1024, 24, 16),
    "gpt2-774M": gpt2(1280, 36, 20),
    "gpt2-1.5B": gpt2(1600, 48, 25),
    "llama-1B": llama(2048, 16, 32, 8, 8192),  # Llama 3.2 1B, but with a head of its own
    "llama-3B": llama(3072, 28, 24, 8, 8192),
    "llama-8B": llama(4096, 32, 32, 8, 14336),
    # For processors: configs/shakespeare.yaml, models of width 768, and the smallest.
    "shakespeare": gpt2(128, 4, 4, 256, 256),
    "gpt2-w768": gpt2(768, 4, 12, 8192, 8192),
    "llama-w768": llama(768, 4, 12, 4, 2048, 8192),
    "gpt2-tiny": gpt2(128, 2, 4, 512, 512),
    "llama-tiny": llama(128, 2, 4, 2, 256, 512),
}


def make_norm(c):
    return nn.LayerNorm(c.dim) if c.arch == "gpt2" else nn.RMSNorm(c.dim, eps=1e-5)


def rope_tables(c, length, device):
    """cos and sin in f32, [S, D / 2] each."""
    frequencies = 1.0 / c.rope_theta ** (torch.arange(0, c.head_dim, 2, device=device).float() / c.head_dim)  # [D / 2]
    angles = torch.outer(torch.arange(length, device=device).float(), frequencies)  # [S, D / 2]
    return angles.cos(), angles.sin()


def apply_rope(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)  # [B, S, H, D / 2] each
    c, s = cos[None, : x.shape[1], None, :], sin[None, : x.shape[1], None, :]  # [1, S, 1, D / 2]
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1).to(x.dtype)  # [B, S, H, D]


class Attention(nn.Module):
    """`fused`: one product for queries, keys and values; tensor parallelism shards three."""

    def __init__(self, c, fused):
        super().__init__()
        self.c, self.fused, self.native_groups = c, fused, True
        bias = c.arch == "gpt2"
        if fused:
            self.wqkv = nn.Linear(c.dim, sum(c.qkv_sizes), bias=bias)
        else:
            self.wq, self.wk, self.wv = (nn.Linear(c.dim, size, bias=bias) for size in c.qkv_sizes)
        self.wo = nn.Linear(c.qkv_sizes[0], c.dim, bias=bias)

    def forward(self, x):
        B, S = x.shape[0], x.shape[1]
        parts = self.wqkv(x).split(self.c.qkv_sizes, dim=-1) if self.fused else (self.wq(x), self.wk(x), self.wv(x))
        q, k, v = (t.view(B, S, -1, self.c.head_dim) for t in parts)  # [B, S, H, D], [B, S, G, D] twice
        if self.c.arch == "llama":
            q, k, v = apply_rope(q, self.cos, self.sin), apply_rope(k, self.cos, self.sin), v.contiguous()
        groups = self.c.heads != self.c.kv_heads
        if groups and not self.native_groups:
            repeats = q.shape[2] // k.shape[2]
            k, v = k.repeat_interleave(repeats, dim=2), v.repeat_interleave(repeats, dim=2)  # [B, S, H, D]
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))  # [B, H, S, D]
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=groups and self.native_groups)
        return self.wo(out.transpose(1, 2).reshape(B, S, -1))  # [B, S, C]


class Mlp(nn.Module):
    def __init__(self, c, fused):
        super().__init__()
        self.gated, self.fused = c.arch == "llama", fused
        bias = c.arch == "gpt2"
        if self.gated and fused:
            self.w13 = nn.Linear(c.dim, 2 * c.ffn, bias=False)
        else:
            self.w1 = nn.Linear(c.dim, c.ffn, bias=bias)
        if self.gated and not fused:
            self.w3 = nn.Linear(c.dim, c.ffn, bias=False)
        self.w2 = nn.Linear(c.ffn, c.dim, bias=bias)

    def forward(self, x):
        if not self.gated:
            return self.w2(F.gelu(self.w1(x), approximate="tanh"))  # [B, S, C]
        gate, up = self.w13(x).chunk(2, dim=-1) if self.fused else (self.w1(x), self.w3(x))
        return self.w2(F.silu(gate) * up)  # [B, S, C]


class Block(nn.Module):
    def __init__(self, c, fused):
        super().__init__()
        self.norm1, self.attn = make_norm(c), Attention(c, fused)
        self.norm2, self.mlp = make_norm(c), Mlp(c, fused)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))  # [B, S, C]
        return x + self.mlp(self.norm2(x))  # [B, S, C]


class Head(nn.Module):
    """Last norm, product with the vocabulary, and loss: one FSDP unit and one compiled region holds them."""

    def __init__(self, c):
        super().__init__()
        self.norm, self.output = make_norm(c), nn.Linear(c.dim, c.vocab, bias=False)

    def sum_of_losses(self, h, targets):
        return F.cross_entropy(F.linear(h, self.output.weight).float(), targets, reduction="sum")

    def forward(self, h, targets=None, chunks=1):
        h = self.norm(h)
        if targets is None:  # under tensor parallelism the logits stay sharded over the vocabulary
            return self.output(h)
        h, targets = h.flatten(0, 1), targets.flatten()  # [B S, C], [B S]
        if chunks <= 1:
            return self.sum_of_losses(h, targets) / targets.numel()
        total = h.new_zeros((), dtype=torch.float32)
        for rows, wanted in zip(h.chunk(chunks), targets.chunk(chunks)):  # never holds all logits
            total = total + torch.utils.checkpoint.checkpoint(self.sum_of_losses, rows, wanted, use_reentrant=False)
        return total / targets.numel()


class Transformer(nn.Module):
    """`dtype`: what activations are cast to after the embedding, or None."""

    def __init__(self, c, length, fused, chunks, dtype):
        super().__init__()
        self.c, self.chunks, self.dtype = c, chunks, dtype
        self.tok_emb = nn.Embedding(c.vocab, c.dim)
        self.positions = nn.Embedding(length, c.dim) if c.arch == "gpt2" else None
        self.layers = nn.ModuleList(Block(c, fused) for _ in range(c.layers))
        self.head = Head(c)
        if self.positions is not None:
            self.register_buffer("places", torch.arange(length), persistent=False)

    def tie(self):
        if self.c.tied:
            self.head.output.weight = self.tok_emb.weight

    def init_weights(self):
        residual = 0.02 / math.sqrt(2 * self.c.layers)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=residual if name.endswith(("wo.weight", "w2.weight")) else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
            else:
                nn.init.ones_(p)
        self.tie()

    def add_rope_tables(self, length, device):
        """f32 and shared by all blocks, out of reach of casts to bf16."""
        if self.c.arch != "llama":
            return
        cos, sin = rope_tables(self.c, length, device)
        for block in self.layers:
            block.attn.register_buffer("cos", cos, persistent=False)
            block.attn.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens, targets=None):
        h = self.tok_emb(tokens)  # [B, S, C]
        if self.positions is not None:
            h = h + self.positions(self.places[: tokens.shape[1]])  # [B, S, C]
        if self.dtype is not None:
            h = h.to(self.dtype)
        for block in self.layers:
            h = block(h)  # [B, S, C]
        return self.head(h, targets, self.chunks)

    def parameter_counts(self):
        """All, and those that only a look-up reads; tied weights count once."""
        look_up = 0 if self.c.tied else self.tok_emb.weight.numel()
        look_up += self.positions.weight.numel() if self.positions else 0
        return sum(p.numel() for p in self.parameters()), look_up


def published_weights(model):
    """The weights under the names and in the layouts of transformers' GPT2LMHeadModel and LlamaForCausalLM, f32, on the
    CPU: {name: tensor}."""
    weights = gpt2_weights(model) if model.c.arch == "gpt2" else llama_weights(model)
    return {name: w.detach().float().cpu().contiguous().clone() for name, w in weights.items()}


def joined(attn, leaf):
    if attn.fused:
        return getattr(attn.wqkv, leaf)
    return torch.cat([getattr(w, leaf) for w in (attn.wq, attn.wk, attn.wv)])


def gpt2_weights(model):
    weights = {"transformer.wte.weight": model.tok_emb.weight, "transformer.wpe.weight": model.positions.weight,
               "transformer.ln_f.weight": model.head.norm.weight, "transformer.ln_f.bias": model.head.norm.bias}
    for i, block in enumerate(model.layers):
        h = f"transformer.h.{i}."
        for name, norm in (("ln_1", block.norm1), ("ln_2", block.norm2)):
            weights[h + name + ".weight"], weights[h + name + ".bias"] = norm.weight, norm.bias
        weights[h + "attn.c_attn.weight"] = joined(block.attn, "weight").t()
        weights[h + "attn.c_attn.bias"] = joined(block.attn, "bias")
        for name, linear in (("attn.c_proj", block.attn.wo), ("mlp.c_fc", block.mlp.w1), ("mlp.c_proj", block.mlp.w2)):
            weights[h + name + ".weight"], weights[h + name + ".bias"] = linear.weight.t(), linear.bias
    return weights


def llama_weights(model):
    weights = {"model.embed_tokens.weight": model.tok_emb.weight, "model.norm.weight": model.head.norm.weight,
               "lm_head.weight": model.head.output.weight}
    for i, block in enumerate(model.layers):
        h, mlp = f"model.layers.{i}.", block.mlp
        for name, part in zip("qkv", joined(block.attn, "weight").split(model.c.qkv_sizes)):
            weights[h + f"self_attn.{name}_proj.weight"] = part
        gate, up = mlp.w13.weight.chunk(2) if mlp.fused else (mlp.w1.weight, mlp.w3.weight)
        weights |= {h + "input_layernorm.weight": block.norm1.weight, h + "self_attn.o_proj.weight": block.attn.wo.weight,
                    h + "post_attention_layernorm.weight": block.norm2.weight, h + "mlp.gate_proj.weight": gate,
                    h + "mlp.up_proj.weight": up, h + "mlp.down_proj.weight": mlp.w2.weight}
    return weights
