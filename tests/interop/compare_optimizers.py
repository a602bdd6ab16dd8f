"""Trains a GPT-2 with PyTorch in f64 as Weft did, and compares the losses.

  compare_optimizers.py FOLDER TEXT (NAME LOG KEYS)...   FOLDER: first weights, as weft export wrote them; TEXT: its bytes
                                                         are the tokens; NAME: of the optimizer and what follows "_";
                                                         LOG: of Weft's run; KEYS: of the optimizer, as JSON
"""
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
import transformers as hf

BATCH = 4


class Gpt2(torch.nn.Module):
    """With q, k and v as matrices of their own, which Muon tells apart."""

    def __init__(self, folder):
        super().__init__()
        source = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.c, self.names = source.config, {}
        for name, value in source.transformer.state_dict().items():
            value = value.double()
            width = self.c.n_embd
            parts = {f".{which}": value[..., i * width:(i + 1) * width] for i, which in enumerate("qkv")} \
                if "c_attn" in name else {"": value}
            for part, tensor in parts.items():
                self.names[name + part] = (name + part).replace(".", "_")
                self.register_parameter(self.names[name + part], torch.nn.Parameter(tensor.contiguous().clone()))

    def p(self, name):
        return getattr(self, self.names[name])

    def norm(self, x, name):
        return F.layer_norm(x, (self.c.n_embd,), self.p(name + ".weight"), self.p(name + ".bias"), self.c.layer_norm_epsilon)

    def product(self, x, name, part=""):
        return x @ self.p(name + ".weight" + part) + self.p(name + ".bias" + part)

    def forward(self, tokens):
        b, t = tokens.shape
        x = self.p("wte.weight")[tokens] + self.p("wpe.weight")[:t]
        for i in range(self.c.n_layer):
            block = f"h.{i}."
            y = self.norm(x, block + "ln_1")
            q, k, v = (self.product(y, block + "attn.c_attn", f".{which}").view(b, t, self.c.n_head, -1).transpose(1, 2)
                       for which in "qkv")
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, -1)
            x = x + self.product(y, block + "attn.c_proj")
            y = F.gelu(self.product(self.norm(x, block + "ln_2"), block + "mlp.c_fc"), approximate="tanh")
            x = x + self.product(y, block + "mlp.c_proj")
        return self.norm(x, "ln_f") @ self.p("wte.weight").T


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, groups, lr, betas=(0.9, 0.99)):
        super().__init__(groups, dict(lr=lr, betas=betas, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(b1 * m + (1 - b1) * p.grad)
                p -= group["lr"] * (update + group["weight_decay"] * p)
                m.copy_(b2 * m + (1 - b2) * p.grad)


class Muon(torch.optim.Optimizer):
    """Its formula in the precision of the parameters."""

    def __init__(self, params, lr, weight_decay, momentum=0.95):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            mu = group["momentum"]
            for p in group["params"]:
                b = self.state[p].setdefault("b", torch.zeros_like(p))
                b.copy_(mu * b + p.grad)
                x = p.grad + mu * b
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
                scale = 0.2 * math.sqrt(max(p.shape))
                p -= group["lr"] * (scale * x + group["weight_decay"] * p)


def groups_of(parameters, decay):
    """Product weights and embeddings decay, the others do not."""
    return [dict(params=[p for p in parameters if p.ndim > 1], weight_decay=decay),
            dict(params=[p for p in parameters if p.ndim == 1], weight_decay=0.0)]


def by_groups(model, lr, adamw):
    """The groups of optimizers_test.sh, as PyTorch's parameter groups."""
    parts = {part: [] for part in ("norms", "embedding", "mlp", "mlp bias", "positions", "matrices", "biases")}
    for name in model.names:
        part = "norms" if "h." in name and ".ln_" in name else "embedding" if name == "wte.weight" else \
            "positions" if name == "wpe.weight" else "mlp bias" if ".mlp." in name and "bias" in name else \
            "mlp" if ".mlp." in name else "matrices" if model.p(name).ndim > 1 else "biases"
        parts[part].append(model.p(name))
    assert all(parts.values())
    group = lambda part, **own: dict(params=parts[part], **own)
    return [torch.optim.AdamW([group("norms", weight_decay=0.2), group("mlp bias", weight_decay=0.0, lr=0.5 * lr),
                               group("positions", weight_decay=0.1, lr=0.0), group("matrices", weight_decay=0.1),
                               group("biases", weight_decay=0.0)], **adamw),
            torch.optim.SGD([group("embedding", weight_decay=0.0)], lr=30 * lr),
            Lion([group("mlp", weight_decay=0.3)], 0.1 * lr)]


def optimizers(model, name, keys):
    everything, lr = list(model.parameters()), keys["lr"]
    adamw = dict(lr=lr, betas=(0.9, 0.95), eps=1e-8)
    if name == "groups":
        return by_groups(model, lr, adamw)
    if name == "adamw":
        return [torch.optim.AdamW(groups_of(everything, 0.1), **adamw)]
    if name.startswith("sgd"):
        decay = keys.pop("weight_decay", 0.0)
        return [torch.optim.SGD(groups_of(everything, decay), **keys)]
    if name == "lion":
        return [Lion(groups_of(everything, 0.1), lr)]
    matrices = [model.p(n) for n in model.names if n.startswith("h.") and model.p(n).ndim == 2]
    rest = [p for p in everything if all(p is not m for m in matrices)]
    muon = Muon(matrices, lr, 0.1) if name == "muon" else \
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(groups_of(rest, 0.1), **adamw)]


def losses(folder, tokens, name, keys, steps):
    model = Gpt2(folder)
    t = model.c.n_positions
    made = optimizers(model, name, keys)
    for step in range(steps):
        rows = np.stack([tokens[i * t:i * t + t + 1] for i in range(step * BATCH, (step + 1) * BATCH)])
        rows = torch.from_numpy(rows.astype(np.int64))
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        yield loss.item()
        for p in model.parameters():
            p.grad = None
        loss.backward()
        for optimizer in made:
            optimizer.step()


# f64 rounds by 1e-16 and twenty steps pass it on by some thousands; a sign that flips because of it (Lion's) moves one
# weight by 2 lr. What PyTorch's Muon iterates in bf16 differs in the third digit of a step.
TOLERANCE = dict(lion=1e-6, groups=1e-6, muon=1e-9, muon_torch=1e-2)

folder, text, *rest = sys.argv[1:]
tokens, passed = np.frombuffer(open(text, "rb").read(), dtype=np.uint8), True
for name, log, keys in zip(rest[::3], rest[1::3], rest[2::3]):
    got = [e["loss"] for e in map(json.loads, open(log)) if e["event"] == "step"]
    want = list(losses(folder, tokens, name, json.loads(keys), len(got)))
    apart, fell = max(abs(a - b) / b for a, b in zip(got, want)), want[0] - want[-1]
    print(f"{name}: {len(got)} losses from {got[0]:.4f} to {got[-1]:.4f}, apart from Python's by at most {apart:.2e}")
    passed &= apart <= TOLERANCE.get(name, 1e-12) and len(got) >= 20 and got[0] != got[-1] and fell > 0
sys.exit(not passed)
