"""gather_modes.py ROW GPUS FOLDER: a line of JSON and a row of a table, from the four runs that gather_modes.sh left in the folder:
kernels, copy, copy, kernels."""

import datetime
import json
import os
import statistics
import sys

import step_times
from multigpu_rows import clocks, gpu_state

TIMED = 12  # steps at the end of a run; the first ones record the step and tune products


def main():
    row, gpus, folder = sys.argv[1:]
    runs = [step_times.of_weft(f"{folder}/{row}.{i}.jsonl", lambda steps: steps[-TIMED:]) for i in (1, 2, 3, 4)]
    ways = {"kernels": [runs[0], runs[3]], "copy": [runs[1], runs[2]]}
    ms = {way: statistics.mean(run["ms"] for run in two) for way, two in ways.items()}
    gib = {way: max(run["gib"] for run in two) for way, two in ways.items()}
    states = [gpu_state(f"{folder}/{row}.{i}.gpus.csv") for i in (1, 2, 3, 4)]
    gpu = {"kernels": [states[0], states[3]], "copy": [states[1], states[2]]}
    used = {way: max(value for state in two for value in state["used_gib"]) for way, two in gpu.items()}
    date, commit = str(datetime.date.today()), os.environ["COMMIT"]
    ratio = ms["kernels"] / ms["copy"]
    print(json.dumps({"bench": "gather_modes", "date": date, "commit": commit, "row": row, "gpus": int(gpus),
                      "ms": {way: round(value, 3) for way, value in ms.items()},
                      "runs_ms": {way: [round(run["ms"], 3) for run in two] for way, two in ways.items()},
                      "tokens_per_s_gpu": round(runs[1]["tokens"] / ms["copy"] * 1e3 / int(gpus), 2),
                      "peak_gib": {way: round(value, 2) for way, value in gib.items()}, "used_gib": used,
                      "gpu": gpu, "ratio": round(ratio, 4)}))
    cells = [date, commit, row, gpus, f"{ms['kernels']:.1f}", f"{ms['copy']:.1f}", f"{ms['kernels'] - ms['copy']:+.1f}",
             f"{ratio:.3f}"]
    for way in ways:
        cells += [f"{gib[way]:.1f}", f"{used[way]:.1f}", clocks(gpu[way])]
    print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
