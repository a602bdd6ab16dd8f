"""The peer of generate_torch.sh: greedy texts of a GPT-2 that `weft export` wrote, by transformers or, where it is missing, by a
GPT-2 of PyTorch's ops in this file. Prints one JSON line: the peer's name, its tokens per second in each repetition, and how far
Weft's text is the same.

  torch_generate.py FOLDER PROMPTS --tokens N [--device cpu] [--dtype f32] [--mode default] [--peer auto] [--repeats 1]
                    [--expect FILE]

PROMPTS is a JSON list of prompts of one length, lists of ids. FILE holds Weft's ids in the same form, without the prompts. A token
of Weft's may be another one than the peer's if the peer's logits of both are nearly equal: within 2^-16 of the largest absolute
logit in f32, and within 2^-5 in bf16, which has 16 bits less. The rest of that text is not compared. Fails if another token differs.

Modes: default, and static, which has a cache of fixed size and a step compiled with CUDA graphs (reduce-overhead).
Legend: B texts, T new tokens, S capacity of the cache, C width, H heads, D head size, V vocabulary."""
import argparse
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

DTYPES = {"f32": (torch.float32, 2.0**-16), "bf16": (torch.bfloat16, 2.0**-5)}


class TransformersPeer:
    def __init__(self, args, dtype):
        import transformers

        self.name = f"transformers {transformers.__version__}"
        self.model = transformers.AutoModelForCausalLM.from_pretrained(args.folder, dtype=dtype).to(args.device).eval()
        config = self.model.generation_config
        config.eos_token_id, config.pad_token_id = None, 0  # all texts have the same length
        config.do_sample, config.num_beams, config.max_new_tokens, config.max_length = False, 1, args.tokens, None
        if args.mode == "static":
            config.cache_implementation = "static"
            config.compile_config = transformers.CompileConfig(mode="reduce-overhead")

    def generate(self, prompts):
        made = self.model.generate(prompts, attention_mask=torch.ones_like(prompts))  # [B, T]
        return made[:, prompts.shape[1]:]

    def logits(self, tokens):
        return self.model(tokens).logits[:, -1]  # [B, V]


def read_safetensors(path, device, dtype):
    data = bytearray(pathlib.Path(path).read_bytes())
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, info in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        if info["dtype"] != "F32":
            sys.exit(f"{path}: {name}: expected F32, got {info['dtype']}; export with dtype=f32")
        begin, end = (8 + size + at for at in info["data_offsets"])
        tensors[name] = torch.frombuffer(data[begin:end], dtype=torch.float32).reshape(info["shape"]).to(device, dtype)
    return tensors


class TorchPeer:
    """GPT-2 with a static cache of keys and values. `static` replays its steps by torch.compile."""

    def __init__(self, args, dtype):
        self.name, self.tokens, self.static = "GPT-2 of PyTorch's ops, without transformers", args.tokens, args.mode == "static"
        config = json.loads((pathlib.Path(args.folder) / "config.json").read_text())
        self.layers, self.heads, self.eps = config["n_layer"], config["n_head"], config["layer_norm_epsilon"]
        weights = read_safetensors(pathlib.Path(args.folder) / "model.safetensors", args.device, dtype)
        self.w = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
        self.step = torch.compile(self._step, mode="reduce-overhead", fullgraph=True) if self.static else self._step

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], self.eps)

    def linear(self, x, name):
        return F.linear(x, self.w[name + ".weight"].t(), self.w[name + ".bias"])

    def attend(self, x, layer, at, cache, mask):
        B, T, C = x.shape
        name, (keys, values) = f"h.{layer}.attn", cache[layer]
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.linear(x, name + ".c_attn").chunk(3, -1))
        keys.index_copy_(2, at, k)  # [B, H, S, D]
        values.index_copy_(2, at, v)  # [B, H, S, D]
        out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)  # [B, H, T, D]
        return self.linear(out.transpose(1, 2).reshape(B, T, C), name + ".c_proj")

    def forward(self, tokens, at, cache):
        """tokens [B, T] at the positions [T] -> logits of the last one [B, V]."""
        x = F.embedding(tokens, self.w["wte.weight"]) + self.w["wpe.weight"][at]  # [B, T, C]
        slots = torch.arange(cache[0][0].shape[2], device=tokens.device)  # [S]
        mask = slots[None, :] <= at[:, None]  # [T, S]
        for i in range(self.layers):
            x = x + self.attend(self.norm(x, f"h.{i}.ln_1"), i, at, cache, mask)  # [B, T, C]
            hidden = F.gelu(self.linear(self.norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
            x = x + self.linear(hidden, f"h.{i}.mlp.c_proj")  # [B, T, C]
        return F.linear(self.norm(x[:, -1], "ln_f"), self.w["wte.weight"])  # [B, V]

    def _step(self, token, at, cache):
        return self.forward(token, at, cache).argmax(-1, keepdim=True), at + 1  # [B, 1], [1]

    def new_cache(self, prompts, capacity):
        weight = self.w["wte.weight"]
        shape = (prompts.shape[0], self.heads, capacity, weight.shape[1] // self.heads)
        return [tuple(torch.zeros(shape, dtype=weight.dtype, device=weight.device) for _ in range(2)) for _ in range(self.layers)]

    def generate(self, prompts):
        length = prompts.shape[1]
        if not self.static or not hasattr(self, "cache"):  # the recorded steps read and write one cache
            self.cache = self.new_cache(prompts, length + self.tokens)
        at = torch.arange(length, device=prompts.device)
        token = self.forward(prompts, at, self.cache).argmax(-1, keepdim=True)  # [B, 1]
        made, at = [token], at[-1:] + 1
        while len(made) < self.tokens:
            token, at = (t.clone() for t in self.step(token, at, self.cache))
            made.append(token)
        return torch.cat(made, 1)  # [B, T]

    def logits(self, tokens):
        at = torch.arange(tokens.shape[1], device=tokens.device)
        return self.forward(tokens, at, self.new_cache(tokens, tokens.shape[1]))


def peer_of(args, dtype):
    if args.peer == "torch":
        return TorchPeer(args, dtype)
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        if args.peer == "transformers":
            sys.exit(f"torch_generate: transformers is missing ({error}); install it, or give --peer torch")
        print(f"torch_generate: transformers is missing ({error}); the peer is a GPT-2 of PyTorch's ops", file=sys.stderr)
        return TorchPeer(args, dtype)
    return TransformersPeer(args, dtype)


def compare(peer, prompts, made, expected, bound):
    """Returns how many tokens of Weft's were compared, and the fault, or ""."""
    same = 0
    for row, (ours, theirs) in enumerate(zip(expected, made.tolist(), strict=True)):
        if len(ours) != len(theirs):
            return same, f"text {row}: expected {len(theirs)} tokens, Weft wrote {len(ours)}"
        first = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), len(ours))
        same += first
        if first == len(ours):
            continue
        text = torch.cat([prompts[row:row + 1], made[row:row + 1, :first]], 1)  # [1, T]
        logits = peer.logits(text).double()[0]  # [V]
        gap, largest = float(logits.max() - logits[ours[first]]), float(logits.abs().max())
        if gap > bound * largest:
            return same, (f"text {row}, token {first}: Weft wrote {ours[first]} and the peer {theirs[first]}, whose logit is larger "
                          f"by {gap / largest:.2e} of the largest one; expected at most {bound:.2e}")
    return same, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("prompts")
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--mode", choices=("default", "static"), default="default")
    parser.add_argument("--peer", choices=("auto", "transformers", "torch"), default="auto")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--expect")
    args = parser.parse_args()
    dtype, bound = DTYPES[args.dtype]
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    with torch.inference_mode():
        peer = peer_of(args, dtype)
        prompts = torch.tensor(json.loads(pathlib.Path(args.prompts).read_text()), device=args.device)  # [B, T]
        # Compilation, recordings and the caches of libraries; a static step is recorded in its second and third run.
        for _ in range(3 if args.mode == "static" else 1):
            peer.generate(prompts)
        speeds = []
        for _ in range(args.repeats):
            wait()
            begin = time.perf_counter()
            made = peer.generate(prompts)  # [B, T]
            wait()
            speeds.append(made.numel() / (time.perf_counter() - begin))
        result = {"peer": f"{peer.name}, {args.mode}", "torch": torch.__version__, "threads": torch.get_num_threads(),
                  "tokens_per_s": speeds, "tokens": made.numel()}
        fault = ""
        if args.expect:
            expected = json.loads(pathlib.Path(args.expect).read_text())
            result["same"], fault = compare(peer, prompts, made, expected, bound)
    print(json.dumps(result))
    sys.exit(fault or 0)


if __name__ == "__main__":
    main()
