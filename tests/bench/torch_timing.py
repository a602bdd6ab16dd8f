"""Times of calls on a GPU, for the scripts that measure PyTorch."""
import statistics

import torch


def median_ms(call, seconds=0.2):
    """Returns the median of as many calls in a row as take about `seconds`. `weft bench` times that way too: after a few calls with
    pauses between them a GPU still runs faster than its power allows for long."""
    def times(repeats):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
        events[0].record()
        for event in events[1:]:
            call()
            event.record()
        events[-1].synchronize()
        return [begin.elapsed_time(end) for begin, end in zip(events, events[1:])]

    estimate = statistics.median(times(5))
    return statistics.median(times(min(max(int(1000 * seconds / estimate), 20), 2000)))
