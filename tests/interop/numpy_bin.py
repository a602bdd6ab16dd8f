"""Reads token shards as llm.c's scripts do: a header of 256 int32, then uint16 or uint32.

numpy_bin.py TEXT SHARD...: the shards hold the bytes of TEXT, end to end.
"""
import sys

import numpy as np

FORMATS = {20240520: (1, np.uint16), 20240801: (7, np.uint32)}


def read(path):
    header = np.fromfile(path, dtype="<i4", count=256)
    version, dtype = FORMATS[int(header[0])]
    assert header[1] == version, f"{path}: expected version {version}, got {header[1]}"
    assert not header[3:].any(), f"{path}: expected zeros after the third number of the header"
    tokens = np.fromfile(path, dtype=np.dtype(dtype).newbyteorder("<"), offset=1024)
    assert len(tokens) == header[2], f"{path}: expected {header[2]} tokens, got {len(tokens)}"
    return tokens


text = np.fromfile(sys.argv[1], dtype=np.uint8)
tokens = np.concatenate([read(path) for path in sys.argv[2:]])
assert np.array_equal(tokens, text), "the tokens are not the bytes of the text"
print(f"numpy: {len(tokens)} tokens of {len(sys.argv) - 2} shards")
