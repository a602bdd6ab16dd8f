#!/usr/bin/env python3
"""What Weft is compared with: PyTorch at its best. Trains GPT-2 and Llama decoders (torch_peer_model.py) on one GPU, or on
several by DDP, FSDP2 and tensor parallelism (torch_peer_parallel.py), compiled, with fused AdamW, on random tokens or on
token shards. Prints tokens/s, the median step, peak memory and MFU, and a line "RESULT {json}". Made for PyTorch 2.11.

  one GPU   python3 tests/bench/torch_peer.py --model gpt2-124M --batch 64 --compile-mode reduce-overhead
  several   torchrun --standalone --nproc_per_node=4 tests/bench/torch_peer.py --model llama-8B --seq 8192 --tp 2
            mpirun -np 4 python3 tests/bench/torch_peer.py ...
  CPU       python3 tests/bench/torch_peer.py --device cpu --model gpt2-tiny --batch 2 --seq 64 --steps 5

MFU is tokens/s * (6 N + 12 layers heads D S) / (ranks * peak), with N the parameters that products use, no discount for
the causal mask and no credit for recomputation; the peak is that of bf16 whatever the precision, so that numbers compare.
"""

import time

BEGIN = time.perf_counter()
import argparse
import contextlib
import glob
import json
import math
import os
import statistics
import sys
from datetime import timedelta
from functools import partial

import torch_peer_parallel as parallel

os.environ |= parallel.NO_MULTICAST
os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
import torch
import torch.distributed as dist
import torch.nn.functional as F
import torch_peer_model as models

IMPORT_SECONDS = time.perf_counter() - BEGIN


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = p.add_argument
    add("--model", default="gpt2-124M", choices=sorted(models.CONFIGS))
    add("--device", default="auto", choices=["auto", "cuda", "cpu"])
    add("--batch", type=int, default=8, help="sequences per data-parallel rank and micro-step")
    add("--seq", type=int, default=1024)
    add("--accum", type=int, default=1, help="micro-steps of a step")
    add("--tp", type=int, default=1, help="ranks of tensor parallelism, with sequence parallelism")
    add("--dp", default="auto", choices=["auto", "fsdp", "ddp"])
    add("--precision", default="mixed", choices=["mixed", "bf16", "fp32"],
        help="mixed: f32 weights, bf16 compute; bf16: all of it; fp32: products in TF32")
    add("--no-tf32", dest="tf32", action="store_false", help="f32 products keep all bits of their operands")
    add("--reduce-dtype", default="fp32", choices=["fp32", "bf16"])
    add("--float8", action="store_true", help="products of the blocks in fp8")
    add("--sdpa", default="auto", choices=["auto", "cudnn", "flash", "efficient", "math"])
    add("--compile", default="auto", choices=["auto", "none", "block", "full"])
    add("--compile-mode", default="default",
        choices=["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
    add("--coord-descent", action="store_true", help="Inductor's coordinate descent tuning")
    add("--async-tp", action="store_true", help="tensor parallelism over symmetric memory")
    add("--ac", default="none", choices=["none", "full", "alternate", "op"], help="activation checkpoints")
    add("--loss-chunks", type=int, default=1)
    add("--no-reshard", dest="reshard", action="store_false", help="FSDP keeps gathered weights after the forward pass")
    add("--prefetch", type=int, default=0, help="blocks that FSDP gathers ahead; 0: as it thinks best")
    add("--optim", default="fused", choices=["fused", "foreach"])
    add("--clip", type=float, default=1.0)
    add("--lr", type=float, default=3e-4)
    add("--steps", type=int, default=30)
    add("--warmup", type=int, default=10)
    add("--data", default="", help="glob of llm.c's token shards; without: random tokens")
    add("--batches", type=int, default=4, help="distinct batches to cycle through")
    add("--peak-tflops", type=float, default=989.5, help="dense bf16 of an H100 or H200")
    add("--profile", default="", help="write a Chrome trace of 3 steps here")
    add("--save-init", default="", help="write the first weights as safetensors and continue")
    add("--ckpt", default="", help="time a save by torch.distributed.checkpoint into this folder")
    add("--print-loss", action="store_true")
    add("--seed", type=int, default=0)
    return p.parse_args()


class Layout:
    """Who does what: ranks, device, kinds of parallelism and of compilation that follow from the arguments."""

    def __init__(self, args):
        self.rank, self.world, self.local = parallel.find_ranks()
        self.cuda = args.device == "cuda" or (args.device == "auto" and torch.cuda.is_available())
        self.device = torch.device("cuda", self.local) if self.cuda else torch.device("cpu")
        self.tp, c = args.tp, models.CONFIGS[args.model]
        if any(n % self.tp for n in (self.world, c.heads, c.kv_heads, args.seq, c.vocab)):
            sys.exit(f"torch_peer: --tp {self.tp} must divide {self.world} ranks, the heads, --seq and the vocabulary")
        self.dp = self.world // self.tp
        self.mode = self.dp_mode(args.dp, c)
        self.compile = args.compile
        if args.compile == "auto":
            self.compile = "none" if not self.cuda else "full" if self.mode in ("single", "ddp") else "block"
        self.graphs = args.compile_mode in ("reduce-overhead", "max-autotune") and self.compile != "none"
        self.mixed = args.precision == "mixed"
        self.autocast = self.mixed and self.mode in ("single", "ddp")
        self.check(args)

    def dp_mode(self, wanted, c):
        if self.tp > 1:  # fully_shard carries mixed precision; on a CPU with dp = 1, tensor parallelism in f32
            return "fsdp" if self.cuda or self.dp > 1 else "tp"
        if wanted != "auto":
            return wanted
        return "single" if self.world == 1 else "fsdp" if c.dim >= 1536 else "ddp"

    def check(self, args):
        if self.compile == "full" and self.mode == "fsdp":
            sys.exit("torch_peer: --compile full does not go with fully_shard; use block")
        if self.graphs and (self.mode != "single" or args.accum > 1):
            sys.exit("torch_peer: CUDA graphs want one GPU and --accum 1; use max-autotune-no-cudagraphs")
        if args.float8 and (self.tp > 1 or not self.cuda):
            sys.exit("torch_peer: --float8 wants a GPU and --tp 1")

    def start(self, tf32):
        if self.cuda:
            torch.cuda.set_device(self.device)
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
        options = {"device_id": self.device} if self.cuda else {}
        dist.init_process_group("nccl" if self.cuda else "gloo", rank=self.rank, world_size=self.world,
                                timeout=timedelta(seconds=300), **options)
        from torch.distributed.device_mesh import init_device_mesh
        self.mesh = init_device_mesh(self.device.type, (self.dp, self.tp), mesh_dim_names=("dp", "tp"))

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()


def choose_attention(backend):
    if backend == "auto":
        return
    switches = torch.backends.cuda
    for name, enable in (("flash", switches.enable_flash_sdp), ("efficient", switches.enable_mem_efficient_sdp),
                         ("math", switches.enable_math_sdp), ("cudnn", switches.enable_cudnn_sdp)):
        enable(backend == name)


def takes_groups(c, layout):
    """Whether attention takes grouped keys and values as they are; else they have to be repeated."""
    if not layout.cuda or c.heads == c.kv_heads:
        return True
    heads = [n // layout.tp for n in (c.heads, max(c.kv_heads, layout.tp), max(c.kv_heads, layout.tp))]
    q, k, v = (torch.randn(1, n, 256, c.head_dim, device=layout.device, dtype=torch.bfloat16, requires_grad=True)
               for n in heads)
    try:
        F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).sum().backward()
        return True
    except RuntimeError:
        return False


def make_model(args, layout):
    """The model on its device, with its weights, before anything is sharded or compiled."""
    c = models.CONFIGS[args.model]
    choose_attention(args.sdpa)
    native_groups = takes_groups(c, layout)
    torch.manual_seed(args.seed)  # the same weights on every rank
    with layout.device:
        model = models.Transformer(c, args.seq, fused=layout.tp == 1, chunks=args.loss_chunks,
                                   dtype=torch.bfloat16 if layout.autocast else None)
        model.init_weights()
    if args.precision == "bf16":
        model.to(torch.bfloat16)
    model.add_rope_tables(args.seq, layout.device)
    for block in model.layers:
        block.attn.native_groups = native_groups
    if args.save_init and layout.rank == 0:
        from safetensors.torch import save_file
        save_file(models.published_weights(model), args.save_init, metadata={"format": "pt", "model": args.model})
    return model


def spread(model, args, layout):
    """Shards and compiles: returns what to call in the model's place."""
    if args.float8:
        parallel.use_float8(model)
    if layout.tp > 1:
        parallel.apply_tensor_parallel(model, layout.mesh["tp"])
    if args.async_tp:
        from torch.distributed._symmetric_memory import enable_symm_mem_for_group
        enable_symm_mem_for_group(layout.mesh["tp"].get_group().group_name)
        torch._inductor.config._micro_pipeline_tp = True
    parallel.apply_checkpoints(model, args.ac)
    compiled = compiler(args)
    if layout.compile == "block":
        for i, block in enumerate(model.layers):
            model.layers[i] = compiled(block, fullgraph=True)
        if layout.tp == 1:
            model.head = compiled(model.head)
    reduce_dtype = torch.bfloat16 if args.reduce_dtype == "bf16" else torch.float32
    if layout.mode == "fsdp":
        parallel.apply_fsdp(model, layout.mesh["dp"], layout.mixed, reduce_dtype, args.reshard, args.prefetch)
        return model
    run = compiled(model) if layout.compile == "full" else model
    return with_ddp(run, args, layout) if layout.mode == "ddp" and layout.world > 1 else run


def compiler(args):
    import torch._inductor.config
    torch._inductor.config.coordinate_descent_tuning = args.coord_descent
    return partial(torch.compile, mode=None if args.compile_mode == "default" else args.compile_mode, dynamic=False)


def with_ddp(run, args, layout):
    from torch.nn.parallel import DistributedDataParallel
    run = DistributedDataParallel(run, device_ids=[layout.local] if layout.cuda else None, gradient_as_bucket_view=True,
                                  broadcast_buffers=False)
    if args.reduce_dtype == "bf16":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
        run.register_comm_hook(None, bf16_compress_hook)
    return run


def make_batches(args, layout):
    """Inputs and targets of `args.batches` steps, [micro-steps, B, S] each, on the device."""
    c, shape = models.CONFIGS[args.model], (args.accum, args.batch, args.seq)
    rank = layout.mesh["dp"].get_local_rank()
    if args.data:
        return batches_of_shard(sorted(glob.glob(args.data))[0], args.batches, shape, rank, layout)
    generator, batches = torch.Generator().manual_seed(1234 + rank), []
    for _ in range(args.batches):
        tokens = torch.randint(0, c.real_vocab, (*shape[:2], args.seq + 1), generator=generator)
        batches.append(tuple(t.contiguous().to(layout.device) for t in (tokens[..., :-1], tokens[..., 1:])))
    return batches


def batches_of_shard(path, count, shape, rank, layout):
    import numpy as np
    head = np.fromfile(path, dtype=np.int32, count=256)
    dtype = {20240520: np.uint16, 20240801: np.uint32}.get(int(head[0]))
    if dtype is None:
        sys.exit(f"torch_peer: {path}: no token shard of llm.c (its first number is {int(head[0])})")
    tokens = np.memmap(path, dtype=dtype, mode="r", offset=1024, shape=(int(head[2]),))
    need, batches = math.prod(shape), []
    for i in range(count):
        first = ((i * layout.dp + rank) * need) % max(1, len(tokens) - need - 1)
        part = torch.from_numpy(tokens[first : first + need + 1].astype("int64"))
        batches.append(tuple(t.reshape(shape).to(layout.device) for t in (part[:-1], part[1:])))
    return batches


class Steps:
    """Steps of training: Steps(...)(i) runs step i and returns its loss, on the device."""

    def __init__(self, model, run, args, layout):
        self.model, self.run, self.args, self.layout = model, run, args, layout
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), eps=1e-8, **{args.optim: True})
        self.batches = make_batches(args, layout)

    def __call__(self, i):
        inputs, targets = self.batches[i % len(self.batches)]
        if self.layout.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        losses = [self.micro_step(inputs[m], targets[m], m == self.args.accum - 1) for m in range(self.args.accum)]
        if self.args.clip > 0:
            self.clip()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return sum(losses[1:], losses[0])

    def micro_step(self, inputs, targets, last):
        layout, sync = self.layout, contextlib.nullcontext()
        if layout.mode == "fsdp" and self.args.accum > 1:
            self.model.set_requires_gradient_sync(last)
        if layout.mode == "ddp" and layout.world > 1 and not last:
            sync = self.run.no_sync()
        with sync, self.sharded_loss():
            with torch.autocast(layout.device.type, dtype=torch.bfloat16, enabled=layout.autocast):
                loss = self.loss_of(inputs, targets) / self.args.accum
            loss.backward()
        loss = loss.detach()
        return loss.full_tensor() if hasattr(loss, "full_tensor") else loss.clone()  # a graph reuses its memory

    def sharded_loss(self):
        if self.layout.tp == 1:
            return contextlib.nullcontext()
        from torch.distributed.tensor.parallel import loss_parallel
        return loss_parallel()

    def loss_of(self, inputs, targets):
        if self.layout.tp == 1:
            return self.run(inputs, targets)
        return F.cross_entropy(self.run(inputs).flatten(0, 1).float(), targets.flatten())

    def clip(self):
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None], 2.0, foreach=True)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        torch.nn.utils.clip_grads_with_norm_(self.parameters, self.args.clip, norm, foreach=True)


def timed(step, args, layout):
    """Losses and milliseconds of `args.steps` steps, without a wait of the host between them."""
    losses = []
    if not layout.cuda:
        times = [time.perf_counter()]
        for i in range(args.steps):
            losses.append(step(i))
            times.append(time.perf_counter())
        return losses, [(b - a) * 1e3 for a, b in zip(times, times[1:])]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
    events[0].record()
    for i in range(args.steps):
        losses.append(step(i))
        events[i + 1].record()
    torch.cuda.synchronize()
    return losses, [a.elapsed_time(b) for a, b in zip(events, events[1:])]


def slowest_rank(values, layout):
    reduced = torch.tensor(values, dtype=torch.float64, device=layout.device)
    dist.all_reduce(reduced, op=dist.ReduceOp.MAX)
    return reduced.tolist()


def write_profile(step, path, layout):
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if layout.cuda else [])
    with torch.profiler.profile(activities=kinds) as profile:
        for i in range(3):
            step(i)
        layout.synchronize()
    if layout.rank == 0:
        profile.export_chrome_trace(path)


def time_checkpoint(step, folder, layout):
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict
    weights, moments = get_state_dict(step.model, step.optimizer)
    tensors = [t for t in torch.utils._pytree.tree_leaves((weights, moments)) if isinstance(t, torch.Tensor)]
    local = sum((t.to_local() if hasattr(t, "to_local") else t).nbytes for t in tensors)
    total = torch.tensor(float(local), dtype=torch.float64, device=layout.device)
    dist.all_reduce(total)
    dist.barrier()
    begin = time.perf_counter()
    checkpoint.save({"model": weights, "optim": moments}, checkpoint_id=folder)
    dist.barrier()
    return {"save_s": time.perf_counter() - begin, "GB": total.item() / 1e9}


def flops_per_token(model, length):
    c, (all_parameters, look_up) = model.c, model.parameter_counts()
    return 6 * (all_parameters - look_up) + 12 * c.layers * c.heads * c.head_dim * length


def main():
    args = parse()
    layout = Layout(args)
    layout.start(args.tf32)
    model = make_model(args, layout)
    flops, parameters = flops_per_token(model, args.seq), model.parameter_counts()[0]
    step = Steps(model, spread(model, args, layout), args, layout)
    tokens = args.batch * args.seq * args.accum * layout.dp
    layout.say(f"{args.model}: {parameters / 1e6:.1f}M parameters, {layout.world} ranks = dp {layout.dp} ({layout.mode}) x "
               f"tp {layout.tp}, {tokens} tokens per step, compile {layout.compile}:{args.compile_mode}, {vars(args)}")
    setup_seconds = time.perf_counter() - BEGIN
    step(0)
    layout.synchronize()
    first_seconds = time.perf_counter() - BEGIN - setup_seconds
    for i in range(1, args.warmup):
        loss = step(i)
        if args.print_loss:
            layout.say(f"step {i} loss {float(loss):.6f}")
    layout.synchronize()
    if layout.cuda:
        torch.cuda.reset_peak_memory_stats()
    dist.barrier()
    losses, times = timed(step, args, layout)
    for i, loss in enumerate(losses if args.print_loss else []):
        layout.say(f"step {args.warmup + i} loss {float(loss):.6f}")
    peak = torch.cuda.max_memory_allocated() / 2**30 if layout.cuda else 0.0
    median, peak = slowest_rank([statistics.median(times), peak], layout)
    per_second, times = tokens / median * 1e3, sorted(times)
    result = {name: getattr(args, name) for name in ("model", "tp", "batch", "seq", "accum", "precision", "tf32", "float8",
                                                     "compile_mode", "sdpa", "ac")}
    result |= {"world": layout.world, "dp": layout.dp, "dp_mode": layout.mode, "compile": layout.compile,
               "tokens_per_s": round(per_second, 1), "tokens_per_s_gpu": round(per_second / layout.world, 1),
               "ms_median": round(median, 3), "ms_p10": round(times[len(times) // 10], 3),
               "ms_p90": round(times[9 * len(times) // 10], 3), "peak_gib": round(peak, 3),
               "mfu": round(per_second * flops / (layout.world * args.peak_tflops * 1e12), 5), "flops_per_token": flops,
               "params": parameters, "loss": round(float(losses[-1]), 5), "import_s": round(IMPORT_SECONDS, 3),
               "setup_s": round(setup_seconds, 3), "first_step_s": round(first_seconds, 3), "torch": torch.__version__,
               "cuda": torch.version.cuda, "device": torch.cuda.get_device_name() if layout.cuda else "cpu"}
    if args.ckpt:
        result["ckpt"] = time_checkpoint(step, args.ckpt, layout)
    if args.profile:
        write_profile(step, args.profile, layout)
    layout.say(f"{per_second:,.0f} tokens/s, {median:.2f} ms per step, {peak:.2f} GiB, MFU {100 * result['mfu']:.2f} %")
    dist.destroy_process_group()
    if not math.isfinite(result["loss"]):
        sys.exit("torch_peer: the loss is not finite, so the run does not count")
    layout.say("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
