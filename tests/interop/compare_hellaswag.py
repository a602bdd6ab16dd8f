"""Compares the log-likelihoods of weft eval choices=FILE with transformers'.

  compare_hellaswag.py make ITEMS (FAMILY FOLDER)...         500 items from a seed, and small models with random weights
                                                           and a byte-level BPE tokenizer that was learnt from the items
  compare_hellaswag.py compare ITEMS (FOLDER OUT TITLE)...   OUT: what weft eval wrote for the model of FOLDER
"""
import functools
import json
import random
import sys

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CONTEXT, VOCAB, ITEMS, SLACK = 64, 400, 500, 1e-5
WORDS = ("the a man woman dog cat roof ladder water ball sits on stands runs jumps over holds throws takes and then "
         "slowly quickly down up onto into camera again résumé naïve Straße 水 走 🎈 isn't they're 42 1,000 (while) ...").split()


def made_up():
    """Items whose texts a tokenizer cuts in many ways. One in four contexts is longer than the models' own."""
    rng = random.Random(7)
    text = lambda least, most: " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))
    for i in range(ITEMS):
        end = rng.choice(["", "", "", ".", " ", "  \n", ":"])
        yield dict(ind=i, activity_label="Made up", ctx=(text(40, 70) if i % 4 == 0 else text(1, 12)) + end,
                   endings=[text(1, 9) + rng.choice(["", "."]) for _ in range(4)],
                   label=rng.choice([i % 4, str(i % 4)]), split="val")


def learn(items):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [text for item in items for text in [item["ctx"], *item["endings"]]]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def config_of(family):
    sizes = dict(vocab_size=VOCAB, initializer_range=0.1)
    if family == "gpt2":
        return hf.GPT2Config(n_positions=CONTEXT, n_embd=64, n_layer=2, n_head=4, **sizes)
    return hf.LlamaConfig(max_position_embeddings=CONTEXT, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                          num_key_value_heads=2, intermediate_size=192, rms_norm_eps=1e-5, tie_word_embeddings=False,
                          **sizes)


def make(path, rest):
    torch.manual_seed(0)
    items = list(made_up())
    with open(path, "w") as file:
        file.writelines(json.dumps(item) + "\n" for item in items)
    tokenizer = learn(items)
    assert tokenizer.get_vocab_size() == VOCAB, tokenizer.get_vocab_size()
    for family, folder in zip(rest[::2], rest[1::2]):
        hf.AutoModelForCausalLM.from_config(config_of(family)).save_pretrained(folder)
        tokenizer.save(f"{folder}/tokenizer.json")


def pair(tokenizer, context, ending):
    """Tokens of a context and of its ending, as lm-evaluation-harness has them."""
    ending = " " + ending
    spaces = len(context) - len(context.rstrip())
    if spaces:
        context, ending = context[:-spaces], context[-spaces:] + ending
    first, whole = tokenizer.encode(context).ids, tokenizer.encode(context + ending).ids
    return first, whole[len(first):]


def log_likelihood(model, tokenizer, context, ending):
    """One ending at a time, without padding, in f32 up to the log-probabilities of its tokens."""
    before, after = pair(tokenizer, context, ending)
    tokens = (before + after)[-(CONTEXT + 1):]
    with torch.no_grad():
        logits = model(torch.tensor([tokens[:-1]])).logits[0, -len(after):]
    each = torch.log_softmax(logits, dim=-1)[torch.arange(len(after)), torch.tensor(after)]
    return float(each.double().sum()), len(before) + len(after) > CONTEXT + 1


@functools.cache
def all_theirs(path, folder):
    """For each item its endings' log-likelihoods, each with whether the text was cut to the context."""
    model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    return [[log_likelihood(model, tokenizer, item["ctx"], e) for e in item["endings"]] for item in read(path)]


def read(path):
    return [json.loads(line) for line in open(path)]


def compare(path, folder, out, title):
    """Whether all log-likelihoods agree, and the choices too where the best two are not that near to each other."""
    items, got = read(path), read(out)
    assert len(got) == len(items) == ITEMS, len(got)
    apart, largest, cut, near, choices, right, right_norm = 0, 0, 0, 0, 0, 0, 0
    for item, ours, pairs in zip(items, got, all_theirs(path, folder)):
        theirs, long = zip(*pairs)
        apart = max(apart, *(abs(a - b) for a, b in zip(ours["log_likelihoods"], theirs)))
        largest = max(largest, *map(abs, theirs))
        cut += any(long)
        label, count = int(item["label"]), len(item["endings"])
        for name, sizes in [("choice", [1] * count), ("choice_norm", [len(e.encode()) for e in item["endings"]])]:
            scores = [x / size for x, size in zip(theirs, sizes)]
            best = max(range(count), key=lambda i: scores[i])
            if scores[best] - sorted(scores)[-2] <= SLACK:
                near += 1
                continue
            choices += ours[name] != best
        assert ours["label"] == label, item
        right += ours["choice"] == label
        right_norm += ours["choice_norm"] == label
    print(f"{title}: {sum(len(i['endings']) for i in items)} endings: log-likelihoods apart by at most {apart:.2e}, of up "
          f"to {largest:.1f}; {choices} of {2 * ITEMS} choices differ, {near} too near to tell; {cut} items cut to the "
          f"context; acc {right / ITEMS:.4f}, acc_norm {right_norm / ITEMS:.4f}")
    return apart <= SLACK and choices == 0 and cut > ITEMS / 10


mode, path, *arguments = sys.argv[1:]
if mode == "make":
    make(path, arguments)
else:
    results = [compare(path, *arguments[i:i + 3]) for i in range(0, len(arguments), 3)]
    sys.exit(not (results and all(results)))
