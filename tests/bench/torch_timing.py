"""Times of calls on a GPU, for the scripts that measure PyTorch."""
import statistics

import torch


def median_ms(call, repeats=20):
    times = []
    for i in range(repeats + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)
