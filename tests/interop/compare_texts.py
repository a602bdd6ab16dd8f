"""Compares the greedy texts of Weft's encoder-decoder with transformers', for sources of different lengths in one batch.

  compare_texts.py make DIR PAD                 writes to DIR: `chars`, a tokenizer with PAD - 1 characters, whose next ids are the
                                                   end of text and the padding; `prompts`, sources; and models with random weights,
                                                   plain and other
  compare_texts.py compare DIR (FOLDER TEXTS TITLE)...   FOLDER: a model; TEXTS: what weft generate prompts=DIR/prompts printed

Both programs begin a text with the padding and never write it, and end it at the end of text. A token may be another one if both
have nearly the same logit: within 2^-16 of the largest absolute one. The rest of that text is not compared.
"""
import json
import pathlib
import random
import re
import sys

import torch
import transformers as hf

FIRST = 0x100  # the character of token 0
SOURCE, TARGET = 32, 32  # tokens of a row


def make(path, pad):
    path, pad = pathlib.Path(path), int(pad)
    text = "".join(chr(FIRST + i) for i in range(pad - 1))
    rng = random.Random(1)
    (path / "chars").write_text(text)
    lengths = [1, SOURCE - 1, 7, 20, 3, 12, 30]  # the shortest and the longest source too
    (path / "prompts").write_text("".join("".join(rng.choices(text, k=n)) + "\n" for n in lengths))
    variants = dict(plain=dict(activation_function="swish", scale_embedding=True),
                    other=dict(activation_function="gelu", scale_embedding=False, decoder_layers=1))
    for name, keys in variants.items():
        config = hf.MarianConfig(**(dict(
            vocab_size=pad + 1, max_position_embeddings=64, d_model=64, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, init_std=0.3,
            pad_token_id=pad, eos_token_id=pad - 1, decoder_start_token_id=pad, forced_eos_token_id=None) | keys))
        torch.manual_seed(2)
        model = hf.MarianMTModel(config)
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() == 1:
                    p.add_(0.1 * torch.randn_like(p))
            model.final_logits_bias.normal_()
            model.final_logits_bias[0, pad] = 1000  # it would be every token if it were not left out
            model.final_logits_bias[0, pad - 1] += 6  # some texts end early
        model.generation_config.bad_words_ids = [[pad]]  # as published models have it
        model.generation_config.max_length = TARGET + 1
        model.save_pretrained(path / name)


def texts_of(path, count):
    """The ids that Weft wrote, of each prompt."""
    parts = re.split(r"^--- prompt (\d+) of \d+ ---\n", pathlib.Path(path).read_text(), flags=re.M)[1:]
    assert [int(n) for n in parts[::2]] == list(range(1, count + 1)), parts
    return [[ord(c) - FIRST for c in text.removesuffix("\n")] for text in parts[1::2]]


def fault_of(model, ids, mask, ours, theirs, pad):
    """What is wrong with Weft's text of one source, or ""; and how many tokens were compared."""
    first = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    if first == len(ours) == len(theirs):
        return "", first
    end = model.generation_config.eos_token_id
    mine = ours[first] if first < len(ours) else end
    begun = torch.tensor([[pad] + theirs[:first]])
    logits = model(ids[None], attention_mask=mask[None], decoder_input_ids=begun).logits[0, -1].double()
    gap = (logits[:pad].max() - logits[mine]) / logits[:pad].abs().max()
    return ("" if gap <= 2**-16 else f"token {first} is {mine}, {gap:.1e} below the largest logit; expected {theirs}, got {ours}"), first


def compare(prompts, folder, texts, title):
    model = hf.MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    end, pad = model.generation_config.eos_token_id, model.generation_config.pad_token_id
    assert model.generation_config.decoder_start_token_id == pad
    sources = [torch.tensor([ord(c) - FIRST for c in line] + [end]) for line in prompts]
    ids = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=pad)  # [B, S]
    mask = ids.ne(pad).long()
    with torch.inference_mode():
        made = model.generate(ids, attention_mask=mask, num_beams=1, do_sample=False)[:, 1:].tolist()  # [B, T]
        wanted = [row[:row.index(end)] if end in row else row for row in made]
        faults = [fault_of(model, *row, pad) for row in zip(ids, mask, texts_of(texts, len(prompts)), wanted, strict=True)]
    compared, tokens = sum(n for _, n in faults), sum(map(len, wanted))
    early = sum(end in row for row in made)
    print(f"{title}: {compared} of {tokens} tokens compared, {early} of {len(made)} texts end before their row")
    for i, (fault, _) in enumerate(faults):
        if fault:
            print(f"  prompt {i + 1}: {fault}")
    return early, not any(fault for fault, _ in faults)


mode, path, *rest = sys.argv[1:]
if mode == "make":
    make(path, *rest)
else:
    lines = (pathlib.Path(path) / "prompts").read_text().splitlines()
    results = [compare(lines, *rest[i:i + 3]) for i in range(0, len(rest), 3)]
    early = sum(count for count, _ in results)
    if not 0 < early < len(results) * len(lines):
        sys.exit(f"expected some texts to end early and some not, got {early} of {len(results) * len(lines)}")
    sys.exit(not all(good for _, good in results))
