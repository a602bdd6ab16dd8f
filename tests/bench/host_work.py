"""host_work.py NAME FEWER MORE STEPS: from two files of counted calls (ladder/cupti/cupti_counter.cc), of runs that differ by
STEPS steps, what a step costs. Prints one JSON line; fails where that is more than one graph launch."""

import json
import re
import sys

KINDS = [  # the first that fits; names of the driver's calls
    ("graph_launches", r"cuGraphLaunch"),
    ("kernel_launches", r"cuLaunch"),
    ("polls", r"cu(Event|Stream)Query"),
    ("waits", r"cu\w*Synchronize"),
    ("allocations", r"cuMem(Host)?(Alloc|Free|Register|Unregister|Create|Map|Unmap|PoolTrim)|cuMemcpy\w*Array|cuArray"),
    ("blocking_copies", r"cuMemcpy(?!.*Async)"),
    ("copies_to_device", r"cuMemcpyHtoD\w*|cuMemcpyAsync\w*:to_device"),
    ("copies_to_host", r"cuMemcpyDtoH\w*|cuMemcpyAsync\w*:to_host"),
    ("copies_on_device", r"cuMemcpy"),
    ("fills", r"cuMemset"),
]
WANT = {"graph_launches": 1, "kernel_launches": 0, "waits": 0, "allocations": 0, "blocking_copies": 0, "fills": 0,
        "driver_reported_waits": 0}


def read(path):
    counts = {}
    for line in open(path):
        domain, name, count = line.split()
        counts[domain, name] = int(count)
    return counts


def kind_of(domain, name):
    if domain == "synchronize":
        return "driver_reported_waits"
    return next((kind for kind, pattern in KINDS if re.match(pattern, name)), None)


def main(name, fewer, more, steps):
    fewer, more, steps = read(fewer), read(more), int(steps)
    result = {kind: 0 for kind, _ in KINDS} | {"driver_reported_waits": 0}
    other = {}
    for domain, call in sorted(fewer.keys() | more.keys()):
        added = more.get((domain, call), 0) - fewer.get((domain, call), 0)
        per_step = added // steps if added % steps == 0 else added / steps
        kind = kind_of(domain, call) if domain != "runtime" else None
        if kind:
            result[kind] += per_step
        elif domain == "driver" and added:
            other[call] = per_step
    missed = {kind: result[kind] for kind, want in WANT.items() if result[kind] != want}
    print(json.dumps({"bench": "host_work", "config": name, "steps": steps, **result, "other_calls": other, "pass": not missed}))
    if missed:
        print(f"host_work: a step must have {WANT}; it has {missed}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
