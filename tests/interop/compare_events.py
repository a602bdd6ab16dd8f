"""Compares what tensorboard reads of a folder with the JSON lines of the same run, in f32.

  compare_events.py FOLDER LOG...    the LOGs in the order of the starts; of a step that was run twice, the last counts
"""
import json
import math
import sys

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TAGS = {
    "step": {"loss/train": "loss", "grad_norm": "grad_norm", "learning_rate": "lr", "tokens_per_second": "tokens_per_s",
             "mfu": "mfu", "memory/peak_bytes": "peak_bytes", "loss_scale/scale": "loss_scale",
             "loss_scale/skipped_updates": "skipped"},
    "eval": {"loss/validation": "val_loss", "bits_per_byte/validation": "bits_per_byte"},
}

folder, *logs = sys.argv[1:]
want = {}
for line in (line for log in logs for line in open(log, encoding="utf-8")):
    event = json.loads(line)
    if event["event"] == "start":  # steps from its first one on are forgotten
        want = {key: value for key, value in want.items() if key[1] <= event.get("resumed_step", 0)}
    for tag, key in TAGS.get(event["event"], {}).items():
        if event.get(key) is not None:
            want[tag, event["step"]] = float(np.float32(event[key]))

events = EventAccumulator(folder, size_guidance={"scalars": 0}).Reload()
points = [(tag, s.step, s.value) for tag in events.Tags()["scalars"] for s in events.Scalars(tag)]
got = {(tag, step): value for tag, step, value in points if math.isfinite(value)}  # JSON has null for others
assert len({point[:2] for point in points}) == len(points), "a step has two values"
for key in sorted(want.keys() | got.keys()):
    assert want.get(key) == got.get(key), f"{key}: expected {want.get(key)}, tensorboard reads {got.get(key)}"
print(f"tensorboard: {len(got)} scalars of {len(events.Tags()['scalars'])} tags are those of the JSON lines")
