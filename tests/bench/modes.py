"""modes.py FOLDER KEY VALUE...: a line of JSON and a row of a table per value, from the runs that modes.sh left in the folder."""

import datetime
import glob
import json
import os
import statistics
import sys

import step_times
from multigpu_rows import clocks, gpu_state


def numbers(folder, value):
    """Runs in their order; those of a value are numbered among those of all values."""
    found = (path[len(f"{folder}/{value}."):-len(".jsonl")] for path in glob.glob(f"{folder}/{value}.*.jsonl"))
    return sorted(int(text) for text in found if text.isdigit())


def line(folder, key, value):
    paths = [f"{folder}/{value}.{i}" for i in numbers(folder, value)]
    runs = [step_times.of_weft(f"{path}.jsonl", lambda steps: steps[len(steps) // 3:]) for path in paths]
    losses = []
    for path in paths:
        events = [json.loads(text) for text in open(f"{path}.jsonl")]
        losses.append([event["loss"] for event in events if event["event"] == "step"][-1])
    ms = statistics.mean(run["ms"] for run in runs)
    made = {"bench": "modes", "date": str(datetime.date.today()), "commit": os.environ["COMMIT"], "key": key, "value": value,
            "ms": round(ms, 3), "runs_ms": [round(run["ms"], 3) for run in runs],
            "tokens_per_s": round(runs[0]["tokens"] / ms * 1e3, 1), "peak_gib": round(max(run["gib"] for run in runs), 2),
            "losses": losses}
    if os.path.exists(f"{paths[0]}.gpus.csv"):
        made["gpus"] = [gpu_state(f"{path}.gpus.csv") for path in paths]
    return made


def main():
    folder, key, *values = sys.argv[1:]
    lines = [line(folder, key, value) for value in values]
    for made in lines:
        print(json.dumps(made))
    on_gpus = "gpus" in lines[0]
    heads = [key, "ms", "tokens/s", "of the first", "GiB", "last losses"] + (["clocks", "used GiB"] if on_gpus else [])
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for made in lines:
        cells = [made["value"], f"{made['ms']:.2f}", f"{made['tokens_per_s']:,.0f}", f"{lines[0]['ms'] / made['ms']:.3f}",
                 f"{made['peak_gib']:.2f}", ", ".join(f"{loss:.6g}" for loss in made["losses"])]
        if on_gpus:
            used = max(gib for state in made["gpus"] for gib in state["used_gib"])
            cells += [clocks(made["gpus"]), f"{used:.1f}"]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
