"""kernel_times.py FILE MARKER [STEPS]: the kernels of a training step, from a file of ladder/cupti/cupti_kernels.cc. A step
ends with the kernels whose names match MARKER, those of the optimizer for example; the medians of the last STEPS (10)
steps count. Prints one line per kind of kernel: ms of a step, launches of a step, microseconds each, its name; then the
time in which no kernel ran, and the whole step as it was recorded."""

import collections
import re
import statistics
import sys

FEW = 10


def read(path):
    for line in open(path):
        begin, end, blocks, name = line.rstrip("\n").split(" ", 3)
        yield int(begin), int(end), int(blocks), name


def steps_of(kernels, marker):
    """Lists of kernels, each of which ends with marked ones. A few others may run between the marked ones of a step."""
    kernels = list(kernels)
    marked = [i for i, kernel in enumerate(kernels) if re.search(marker, kernel[3])]
    ends = [i + 1 for i, following in zip(marked, marked[1:]) if following - i > FEW] + [i + 1 for i in marked[-1:]]
    return [kernels[first:last] for first, last in zip([0] + ends, ends)]


def short(name):
    name = re.sub(r"^_ZN?\d*", "", name)
    return name[:110]


def idle(step):
    """Nanoseconds between the first begin and the last end in which no kernel ran."""
    total, until = 0, step[0][0]
    for begin, end, _, _ in step:
        total += max(0, begin - until)
        until = max(until, end)
    return total


def main(path, marker, count="10"):
    # The last step may be cut off by what the program does at its end.
    steps = steps_of(read(path), marker)[:-1][-int(count):]
    if not steps:
        sys.exit(f"kernel_times: no kernel in {path} matches {marker}")
    times, launches, blocks = collections.defaultdict(int), collections.Counter(), collections.defaultdict(set)
    for step in steps:
        for begin, end, size, name in step:
            times[short(name)] += end - begin
            launches[short(name)] += 1
            blocks[short(name)].add(size)
    for name, time in sorted(times.items(), key=lambda item: -item[1]):
        n = launches[name] / len(steps)
        sizes = sorted(blocks[name])
        shown = ",".join(map(str, sizes[:4])) + (",..." if len(sizes) > 4 else "")
        print(f"{time / len(steps) / 1e6:8.3f} ms {n:7.1f} x {time / launches[name] / 1e3:8.1f} us  {name} [{shown}]")
    whole = [step[-1][1] - before[-1][1] for before, step in zip(steps, steps[1:])]
    busy = sum(times.values()) / len(steps) / 1e6
    print(f"{busy:8.3f} ms in kernels, {statistics.median(map(idle, steps)) / 1e6:.3f} ms between them, "
          f"{sum(launches.values()) / len(steps):.0f} launches, {statistics.median(whole or [0]) / 1e6:.3f} ms per step as recorded")


if __name__ == "__main__":
    main(*sys.argv[1:])
