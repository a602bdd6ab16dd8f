"""How tests/bench/torch_peer.py spreads over ranks, spares activations and computes in 8 bits: DDP, FSDP2, tensor
parallelism with sequence parallelism, activation checkpoints, and fp8 products."""

import os

import torch
import torch.nn as nn

# NVLink multicast can put the GPUs of a shared host out of service, so it is forced off, never inherited.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def find_ranks():
    """Rank, number of ranks and rank on this host, from torchrun, Open MPI, PMI or Slurm; one rank without any."""
    launchers = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
                 ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))
    for rank, size, local in launchers:
        if "RANK" not in os.environ and rank in os.environ:
            os.environ |= {"RANK": os.environ[rank], "WORLD_SIZE": os.environ[size],
                           "LOCAL_RANK": os.environ.get(local, os.environ[rank])}
    defaults = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    return tuple(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))


def apply_tensor_parallel(model, mesh):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                                   parallelize_module)
    plan = {"tok_emb": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "head.norm": SequenceParallel(),
            "head.output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)}
    if model.positions is not None:
        plan["positions"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0))
    parallelize_module(model, mesh, plan)
    model.tie()  # sharding gave both a tensor of their own, with the same placement
    gather = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    scatter = RowwiseParallel(output_layouts=Shard(1))
    for block in model.layers:
        plan = {"norm1": SequenceParallel(), "norm2": SequenceParallel(), "attn": gather, "mlp": gather,
                "attn.wo": scatter, "mlp.w2": scatter}
        columns = ["attn.wq", "attn.wk", "attn.wv", "mlp.w1"] + (["mlp.w3"] if model.c.arch == "llama" else [])
        parallelize_module(block, mesh, plan | {name: ColwiseParallel() for name in columns})


def products_by_turns():
    """Keeps attention and every second product of a block, and computes the rest again in the backward pass."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
    aten, seen = torch.ops.aten, {False: 0, True: 0}  # products, of the forward pass and of the recomputation
    kept = {aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_cudnn_attention.default,
            aten._scaled_dot_product_efficient_attention.default, torch.ops._c10d_functional.reduce_scatter_tensor.default}

    def policy(context, op, *args, **kwargs):
        if op is aten.mm.default:
            seen[context.is_recompute] += 1
            return CheckpointPolicy.MUST_SAVE if seen[context.is_recompute] % 2 else CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def apply_checkpoints(model, mode):
    """none; full: every block; alternate: every second one; op: products_by_turns in every block."""
    if mode == "none":
        return
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    options = {"preserve_rng_state": False} | ({"context_fn": products_by_turns} if mode == "op" else {})
    for i in range(0, len(model.layers), 2 if mode == "alternate" else 1):
        model.layers[i] = checkpoint_wrapper(model.layers[i], **options)


def apply_fsdp(model, mesh, mixed, reduce_dtype, reshard, prefetch):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce_dtype) if mixed else MixedPrecisionPolicy()
    options = {"mesh": mesh, "mp_policy": policy}
    if not model.c.tied:
        fully_shard(model.tok_emb, reshard_after_forward=reshard, **options)
    for block in model.layers:
        fully_shard(block, reshard_after_forward=reshard, **options)
    if not model.c.tied:
        fully_shard(model.head, reshard_after_forward=False, **options)
    fully_shard(model, reshard_after_forward=False, **options)
    set_prefetch(list(model.layers), prefetch)
    if mesh.device_type == "cpu":  # older builds of Gloo lack an average
        for module in model.modules():
            if hasattr(module, "set_force_sum_reduction_for_comms"):
                module.set_force_sum_reduction_for_comms(True)


def set_prefetch(blocks, depth):
    for i, block in enumerate(blocks if depth else []):
        if later := blocks[i + 1 : i + 1 + depth]:
            block.set_modules_to_forward_prefetch(later)
        if earlier := blocks[max(0, i - depth) : i]:
            block.set_modules_to_backward_prefetch(earlier[::-1])


def as_float8(x, dtype):
    """x in 8 bits, and the factor that brings it back."""
    most = torch.finfo(dtype).max
    scale = most / x.abs().amax().float().clamp(min=1e-12)
    return (x.float() * scale).clamp(-most, most).to(dtype), scale.reciprocal()


class Float8Product(torch.autograd.Function):
    """x w^T with one scale per tensor, taken from the values themselves, as torchao's default is."""

    @staticmethod
    def forward(ctx, x, w):
        w = w.to(torch.bfloat16)
        x8, x_scale = as_float8(x.reshape(-1, x.shape[-1]).to(torch.bfloat16), torch.float8_e4m3fn)
        w8, w_scale = as_float8(w, torch.float8_e4m3fn)
        y = torch._scaled_mm(x8, w8.t(), scale_a=x_scale, scale_b=w_scale, out_dtype=torch.bfloat16, use_fast_accum=True)
        ctx.save_for_backward(x8, x_scale, w)
        ctx.shape = x.shape
        return y.reshape(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, dy):
        x8, x_scale, w = ctx.saved_tensors
        dy8, dy_scale = as_float8(dy.reshape(-1, dy.shape[-1]), torch.float8_e5m2)
        w8, w_scale = as_float8(w, torch.float8_e4m3fn)
        dx = torch._scaled_mm(dy8, w8.t().contiguous().t(), scale_a=dy_scale, scale_b=w_scale, out_dtype=torch.bfloat16)
        dw = torch._scaled_mm(dy8.t().contiguous(), x8.t().contiguous().t(), scale_a=dy_scale, scale_b=x_scale,
                              out_dtype=torch.bfloat16)
        return dx.reshape(ctx.shape), dw


class Float8Linear(nn.Linear):
    def forward(self, x):
        y = Float8Product.apply(x, self.weight)
        return y if self.bias is None else y + self.bias.to(y.dtype)


def use_float8(model):
    for block in model.layers:
        for module in block.modules():
            if type(module) is nn.Linear and module.in_features % 16 == 0 and module.out_features % 16 == 0:
                module.__class__ = Float8Linear
