"""Compares Weft's logits with transformers', both ways.

  compare_logits.py compare (FOLDER LOGITS TITLE)...   FOLDER: what weft export wrote; LOGITS: what the program logits
                                                       wrote for it
  compare_logits.py make (FAMILY FOLDER KEYS)...       a small model with random weights, saved by transformers; KEYS:
                                                       of its config, as JSON, and "shard", the greatest size of a file
"""
import json
import os
import sys

import numpy as np
import torch
import transformers as hf


def make(family, folder, keys):
    keys = json.loads(keys)
    shard = keys.pop("shard", "1GB")
    gpt2 = dict(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, initializer_range=0.1)
    llama = dict(vocab_size=256, max_position_embeddings=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, intermediate_size=192, initializer_range=0.1, rms_norm_eps=1e-5,
                 tie_word_embeddings=False)
    config = hf.GPT2Config(**(gpt2 | keys)) if family == "gpt2" else hf.LlamaConfig(**(llama | keys))
    hf.AutoModelForCausalLM.from_config(config).save_pretrained(folder, max_shard_size=shard)
    files = [name for name in os.listdir(folder) if name.endswith(".safetensors")]
    assert (len(files) > 1) == (shard != "1GB"), files


def compare(folder, logits, title):
    """Whether the logits agree within 1e-5, and within 1e-5 of the largest: both sum in f32, in orders of their own."""
    model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    c = model.config
    t = np.arange(c.max_position_embeddings)
    tokens = torch.tensor(np.stack([(7919 * b + 104729 * t + 13) % c.vocab_size for b in range(2)]))
    with torch.no_grad():
        want = model(tokens).logits.numpy()
    got = np.fromfile(logits, dtype=np.float32).reshape(want.shape)
    apart, largest = float(np.abs(got - want).max()), float(np.abs(want).max())
    print(f"{title}: logits apart by {apart:.2e}, {apart / largest:.2e} of the largest")
    return apart <= 1e-5 * min(1.0, largest)


torch.manual_seed(0)
mode, *rest = sys.argv[1:]
triples = [rest[i:i + 3] for i in range(0, len(rest), 3)]
assert triples and all(len(triple) == 3 for triple in triples), __doc__
if mode == "make":
    for triple in triples:
        make(*triple)
else:
    sys.exit(not all([compare(*triple) for triple in triples]))
