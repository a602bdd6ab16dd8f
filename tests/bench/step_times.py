"""Steps of training as the runs of beside_torch.sh leave them: Weft's in log.jsonl, PyTorch's in what torch_peer.py prints."""

import json
import statistics
import sys


def of_weft(path, timed):
    """`timed` picks the steps that count from the list of all. Times are rank 0's: a step has collectives of all ranks, so that the medians of ranks agree."""
    events = [json.loads(line) for line in open(path)]
    steps = [event for event in events if event["event"] == "step"]
    ms = statistics.median(step["ms"] for step in timed(steps))
    tokens = events[0]["tokens_per_step"]
    return {"ms": ms, "tokens": tokens, "tokens_per_s": tokens / ms * 1e3, "gib": steps[-1]["peak_bytes"] / 2**30}


def of_peer(path):
    """Ends the script where the peer has printed no result."""
    lines = open(path, errors="replace").readlines()
    results = [json.loads(line.split("RESULT", 1)[1]) for line in lines if line.startswith("RESULT")]
    if not results:
        sys.exit("".join([f"{path}: the peer gave no result:\n", *lines[-5:]]))
    result = results[-1]
    tokens = result["batch"] * result["seq"] * result["accum"] * result["dp"]
    return {"ms": result["ms_median"], "tokens": tokens, "tokens_per_s": result["tokens_per_s"],
            "gib": result["peak_gib"]}
