"""multigpu_rows.py ROW GPUS FOLDER KEYS SETTINGS: a line of JSON and a row of results.md, from two runs of Weft and two of
PyTorch that multigpu_rows.sh left in the folder."""

import csv
import datetime
import json
import os
import statistics
import sys

import step_times

STATE = ("mhz", "watts", "celsius", "used_gib")  # of a GPU, as multigpu_rows.sh asks nvidia-smi for it


def gpu_state(path):
    """Medians of each GPU while it works: of samples with at least 0.8 of its greatest power, so without start and end."""
    samples = {}
    for index, *values in csv.reader(open(path), skipinitialspace=True):
        if len(values) < len(STATE):
            continue  # the last line, cut off
        samples.setdefault(int(index), []).append([float(value) for value in values])
    if not samples:
        sys.exit(f"{path}: expected samples of the GPUs; does nvidia-smi run here?")
    state = {name: [] for name in STATE}
    for _, rows in sorted(samples.items()):
        working = [row for row in rows if row[1] >= 0.8 * max(row[1] for row in rows)]
        for name, column in zip(state, zip(*working)):
            state[name].append(round(max(column) / 1024, 1) if name == "used_gib" else statistics.median(column))
    return state


def side(runs, states, gpus):
    """What two runs of one program come to: the mean of their medians; memory and GPUs by the worst of both."""
    ms = statistics.mean(run["ms"] for run in runs)
    return {"ms": round(ms, 3), "runs_ms": [round(run["ms"], 3) for run in runs], "tokens_per_step": runs[0]["tokens"],
            "tokens_per_s_gpu": round(runs[0]["tokens"] / ms * 1e3 / gpus, 2),
            "peak_gib": round(max(run["gib"] for run in runs), 2), "gpus": states}


def clocks(states):
    """The slowest GPU's MHz and the mean watts."""
    mhz = min(value for state in states for value in state["mhz"])
    watts = statistics.mean(value for state in states for value in state["watts"])
    return f"{mhz:.0f} MHz, {watts:.0f} W"


def main():
    row, gpus, folder, keys, settings = sys.argv[1:]
    gpus = int(gpus)
    states = {name: gpu_state(f"{folder}/{name}.gpus.csv") for name in ("weft.1", "weft.2", "peer.1", "peer.2")}
    weft = side([step_times.of_weft(f"{folder}/weft.{i}.jsonl", lambda steps: steps[-20:]) for i in (1, 2)],
                [states["weft.1"], states["weft.2"]], gpus)
    peer = side([step_times.of_peer(f"{folder}/peer.{i}.peer.log") for i in (1, 2)],
                [states["peer.1"], states["peer.2"]], gpus)
    if weft["tokens_per_step"] != peer["tokens_per_step"]:
        sys.exit(f"{row}: expected as many tokens per step, got {weft['tokens_per_step']} and {peer['tokens_per_step']}")
    ratio, memory = weft["tokens_per_s_gpu"] / peer["tokens_per_s_gpu"], weft["peak_gib"] / peer["peak_gib"]
    spread = max(max(state["mhz"]) / min(state["mhz"]) - 1 for state in states.values())
    if spread > 0.03:
        print(f"note: clocks differ by {spread:.1%} between GPUs, and the slowest decides; run again", file=sys.stderr)
    date, commit = str(datetime.date.today()), os.environ["COMMIT"]
    print(json.dumps({"bench": "multigpu_rows", "date": date, "commit": commit, "row": row, "gpus": gpus, "keys": keys,
                      "settings": settings, "ratio": round(ratio, 4), "memory_ratio": round(memory, 4),
                      "mhz_spread": round(spread, 4), "weft": weft, "peer": peer}))
    cells = [date, commit, row, gpus]
    for one in (weft, peer):
        cells += [f"{one['ms']:.1f}", f"{one['tokens_per_s_gpu']:,.0f}", f"{one['peak_gib']:.1f}", clocks(one["gpus"])]
    print("| " + " | ".join(map(str, [*cells, f"{ratio:.3f}", f"{memory:.3f}"])) + " |")


if __name__ == "__main__":
    main()
