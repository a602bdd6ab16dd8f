"""Times PyTorch's collectives through NCCL, beside `weft bench collective device=cuda`: one JSON line per case.

  torchrun --standalone --nproc_per_node=N tests/bench/torch_collectives.py [BYTES...]     BYTES: by default 64 and 256 MiB

A case issues a collective 20 times after 5 of warm-up, on random f32 data. Its time is the median of the slowest rank by
CUDA events, and its bytes and bus bandwidth are those that nccl-tests define. With 64 KiB or less it is captured alone in a
graph of 100 calls, so that the host's launches do not count.
"""
import json
import os
import statistics
import sys

import torch
import torch.distributed as dist

WARM_UP, REPEATS, CALLS = 5, 20, 100


def call(op, whole, share):
    if op == "all_reduce":
        dist.all_reduce(whole)
    elif op == "all_gather":
        dist.all_gather_into_tensor(whole, share)
    else:
        dist.reduce_scatter_tensor(share, whole)


def timed(issue):
    times = []
    for i in range(WARM_UP + REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        issue()
        end.record()
        torch.cuda.synchronize()
        if i >= WARM_UP:
            times.append(begin.elapsed_time(end) * 1e3)
    return times


def case(op, size, ranks):
    whole = torch.rand(size // 4, device="cuda") / ranks
    share = torch.rand(size // 4 // ranks, device="cuda")
    small = size <= 64 << 10
    issue = lambda: call(op, whole, share)
    if small:
        issue()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                issue()
        issue = graph.replay
    times = torch.tensor(timed(issue), device="cuda") / (CALLS if small else 1)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    us = statistics.median(times.tolist())
    factor = (2 if op == "all_reduce" else 1) * (ranks - 1) / ranks
    return {"bench": "torch_collective", "op": op, "bytes": size, "ranks": ranks, "how": "graph" if small else "eager",
            "us": round(us, 2), "bus_gb_s": round(size / us / 1e3 * factor, 2)}


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    for size in [int(a) for a in sys.argv[1:]] or [64 << 20, 256 << 20]:
        for op in ("all_reduce", "all_gather", "reduce_scatter"):
            line = case(op, size, dist.get_world_size())
            if rank == 0:
                print(json.dumps(line), flush=True)
    dist.destroy_process_group()


main()
