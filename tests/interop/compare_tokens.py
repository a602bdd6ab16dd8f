"""Compares Weft's tokens with Hugging Face's tokenizers, tiktoken and sentencepiece: compare_tokens.py TOKENS FOLDER COUNT.

TOKENS is the program of tokens.cc. Learns tokenizers of GPT-2's and Llama 3's kind and size, and others, from text and
code of this machine; FOLDER keeps them. Encodes 10 MB of other text and COUNT random strings over the code points of
Unicode 14 (of the others a tenth). Below 100,000 strings all texts are a sixth as long, GPT-2's kind has a quarter of
its ids, and speed is measured once. Prints what differs and the speed on one core; fails if anything differs.
"""
import base64
import json
import os
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import sentencepiece  # noqa: E402
import tiktoken  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

MEGABYTE = 1 << 20
SHORT = int(sys.argv[3]) < 100_000
LLAMA3_IDS = 128_000  # before the special ones; lines of tiktoken are known by the number
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# Another published pattern: letters by case, and possessive repeats.
CASES = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?+[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n/]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")


def files():
    """Text and code that a Debian with a compiler has, in an order that mixes them."""
    folders = ("/usr/include", "/usr/lib/python3", "/usr/share/perl", "/usr/share/i18n/locales", ".")
    kinds = (".h", ".py", ".pl", ".pm", ".cc", ".md", ".sh", ".hpp", "")
    found = [path for folder in folders for path in sorted(Path(folder).rglob("*"))
             if path.suffix in kinds and path.is_file() and "build" not in path.parts]
    random.Random(1).shuffle(found)
    return found


def code_points():
    """Those that Unicode 14 has, as perl knows them whatever its own version."""
    program = r'for (1..0xD7FF, 0xE000..0x10FFFF) { print chr, "" if chr =~ /\p{Present_In: 14.0}/ }'
    return subprocess.run(["perl", "-CS", "-e", program], capture_output=True, check=True).stdout.decode("utf-8")


def words_of(points, count, seed):
    """Text of made-up words, each of letters that stand together in Unicode, so that merges beyond ASCII are learnt."""
    rng = random.Random(seed)
    letters = [c for c in points if c.isalpha() and ord(c) < 0x20000]
    known = []
    for _ in range(20000):
        at = rng.randrange(len(letters) - 40)
        known.append("".join(rng.choice(letters[at:at + 40]) for _ in range(rng.randint(1, 7))))
    return "".join(rng.choice(known) + rng.choice(("  ", " ", " ", " ", "\n", ", ", "\u3000")) for _ in range(count))


def corpus(points, divisor):
    """Text to learn from, 60 MB and made-up words, and 10 MB of other text; or so many times less."""
    learn, other, size, other_size = [], [], 0, 0
    most, other_most = 60 * MEGABYTE // divisor, 9 * MEGABYTE // divisor
    for path in files():
        try:
            text = path.read_bytes()[:200_000].decode("utf-8").replace("\0", "")
        except (OSError, UnicodeDecodeError):
            continue
        full = size >= most
        if other_size < other_most and (full or len(learn) % 4 == 3):
            other.append(text)
            other_size += len(text.encode())
            learn.append("")
        elif not full:
            learn.append(text)
            size += len(text.encode())
        if size >= most and other_size >= other_most:
            break
    learn.append(words_of(points, 1_000_000, 1))
    other.append(words_of(points, 120_000 // divisor, 2))
    return learn, "".join(other)


def learnt(path, pre_tokenizer, vocab, texts, special):
    """Takes minutes: once for a folder."""
    if path.exists():
        return Tokenizer.from_file(str(path))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, min_frequency=2, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated", False),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)])


def save(folder, name, tokenizer, change=None):
    """Writes a tokenizer.json, after `change` of what is in it, and gives the tokenizer that it is then."""
    content = json.loads(tokenizer.to_str())
    if change:
        change(content)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return name, f"huggingface:{path}", Tokenizer.from_file(str(path))


def special_llama3():
    names = [f"<|reserved_special_token_{i}|>" for i in range(251)]
    return ["<|begin_of_text|>", "<|end_of_text|>", *names[:4], "<|start_header_id|>", "<|end_header_id|>", names[4],
            "<|eot_id|>", *names[5:]]


def without_merges(content):
    """Words of the vocabulary that no merges make: ignore_merges finds them."""
    content["model"]["ignore_merges"] = True
    content["model"]["merges"] = content["model"]["merges"][::3]


def as_gpt2(content):
    """Merges as strings and without a type, as the published file of 2020 has it."""
    del content["model"]["type"]
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]


def inverted(content):
    """Matches and what lies between them are all pieces: which of the two are called matches changes nothing."""
    content["pre_tokenizer"]["pretokenizers"][0]["invert"] = True


def with_added(content):
    tokens = [("<mask>", True, False, False, True), ("<cut>", False, True, True, False),
              ("once", False, False, True, False), ("<|end", True, True, False, True),
              ("\u00e9t\u00e9", False, False, True, False), ("<a>", True, True, True, True)]
    vocab = dict(content["model"]["vocab"])
    for text, left, right, normalized, special in tokens:
        content["added_tokens"].append({"id": vocab.setdefault(text, len(vocab)), "content": text, "single_word": False, "lstrip": left,
                                        "rstrip": right, "normalized": normalized, "special": special})


def tokenizers(folder, texts):
    gpt2 = learnt(folder / "learnt-gpt2", pre_tokenizers.ByteLevel(add_prefix_space=False), 50257 // (4 if SHORT else 1),
                  texts, ["<|endoftext|>"])
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    yield save(folder, "gpt2", gpt2, as_gpt2)
    gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    yield save(folder, "gpt2 with added tokens and a space", gpt2, with_added)
    llama3 = learnt(folder / "learnt-llama3", split(LLAMA3), LLAMA3_IDS, texts, [])
    assert llama3.get_vocab_size() == LLAMA3_IDS, llama3.get_vocab_size()
    llama3.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special_llama3()])
    llama3.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", LLAMA3_IDS)])])
    yield save(folder, "llama3", llama3)
    yield save(folder, "llama3 without most merges", llama3, without_merges)
    llama3.pre_tokenizer = split(CASES)
    yield save(folder, "letters by case", llama3, inverted)


class Tiktoken:
    """tiktoken's encoding of Llama 3's tokens, with the two methods that are compared."""

    def __init__(self, ranks):
        named = {name: LLAMA3_IDS + i for i, name in enumerate(special_llama3()) if "reserved" not in name}
        self.encoding = tiktoken.Encoding("llama3", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens=named)

    def ids(self, text):
        return [LLAMA3_IDS, *self.encoding.encode(text, allowed_special="all")]


class SentencePiece:
    """A model as Llama 2 has it: nothing is normalized, a space goes before the text, and <s> before that."""

    def __init__(self, folder, texts):
        self.path = folder / "llama2"
        self.path.mkdir(exist_ok=True)
        model = self.path / "tokenizer.model"
        lines = (line for text in texts[:-1:50] for line in text.split("\n") if line)
        if not model.exists():
            with model.open("wb") as out:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=lines, model_writer=out, model_type="bpe", vocab_size=8000, byte_fallback=True,
                    normalization_rule_name="identity", add_dummy_prefix=True, remove_extra_whitespaces=False,
                    allow_whitespace_only_pieces=True, character_coverage=0.98, minloglevel=2, num_threads=2,
                    input_sentence_size=200_000)
        (self.path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer", "add_bos_token": true}')
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def ids(self, text):
        return [self.processor.bos_id(), *self.processor.encode(text)]


class HuggingFace:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def fastest(self, texts):
        """Without offsets in the text, which Weft does not have either."""
        self.tokenizer.encode_batch_fast(texts)


def tiktoken_of(folder):
    """The same tokens in tiktoken's lines: bytes and rank."""
    content = json.loads((folder / "llama3.json").read_text(encoding="utf-8"))
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(b): b for b in printable}
    letters.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    ranks = {bytes(letters[c] for c in token): rank for token, rank in content["model"]["vocab"].items()}
    path = folder / "tokenizer.model"
    in_order = sorted(ranks.items(), key=lambda item: item[1])
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in in_order))
    return "tiktoken", f"tiktoken:{path}", Tiktoken(ranks)


def random_strings(points, count):
    """Short ones of any code points, of those that patterns tell apart, and of both."""
    rng = random.Random(3)
    near = [*" \t\r\n\u0085\u00a0\u180e\u200b\u2028\u3000'", *"sStTdDmMlLvVrReE\u017f\u212a", *"09\u0660\u00bd\u2167",
            *"aZ\u00e9\u4e2d\u0301_", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<mask>", "<cut>", "once",
            "<|end", "<a>", "  ", "'s", "'RE"]

    def string(kind):
        size = rng.randint(1, 24)
        return "".join(rng.choice(near) if rng.random() < kind / 2 else rng.choice(points) for _ in range(size))

    return [string(rng.randrange(3)) for _ in range(count)]


def ours(program, name, texts, folder):
    packed = folder / "texts"
    with packed.open("wb") as out:
        for text in texts:
            data = text.encode("utf-8")
            out.write(struct.pack("<I", len(data)) + data)
    subprocess.run([program, name, packed, folder / "out"], check=True)
    data, at = (folder / "out").read_bytes(), 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        yield list(struct.unpack_from(f"<{count}I", data, at + 4))
        at += 4 + 4 * count


def differences(program, name, theirs, texts, folder):
    count = seen = 0
    for text, tokens in zip(texts, ours(program, name, texts, folder), strict=True):
        seen += 1
        expected = theirs.ids(text)
        if tokens != expected:
            count += 1
            if count <= 3:
                print(f"differs: {text[:200]!r}\n  expected {expected[:60]}\n  got      {tokens[:60]}")
    return count


def speed(program, name, theirs, path):
    """MB of text per second of one core's time: Weft's of the whole text, the best of six; the other's, of three, or of
    the text in pieces of 5,000 characters, if that is faster."""
    text = path.read_bytes().decode("utf-8")
    pieces = [text[at:at + 5_000] for at in range(0, len(text), 5_000)]
    encode = getattr(theirs, "fastest", lambda texts: [theirs.ids(some) for some in texts])
    best = [float("inf")] * 2
    for texts in ([text], pieces) * (1 if SHORT else 3):
        size, _, seconds = subprocess.run([program, name, path], capture_output=True, check=True, text=True).stdout.split()
        begin = time.process_time()
        encode(texts)
        best = [min(best[0], float(seconds)), min(best[1], time.process_time() - begin)]
    return [int(size) / 1e6 / s for s in best]


def main():
    program, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    points = code_points()
    learn, other = corpus(points, 6 if SHORT else 1)
    text = folder / "text"
    text.write_bytes(other.encode("utf-8"))
    documents = [other[at:at + 50_000] for at in range(0, len(other), 50_000)]
    strings = random_strings(points, count)
    print(f"learnt from {sum(len(t.encode()) for t in learn) / 1e6:.1f} MB; {text.stat().st_size / 1e6:.1f} MB of other "
          f"text, {count} random strings over {len(points)} code points", flush=True)
    made = [(n, w, HuggingFace(t)) for n, w, t in tokenizers(folder, learn)]
    failed = False
    llama2 = SentencePiece(folder, learn)
    for name, word, theirs in [*made, tiktoken_of(folder), ("llama2", f"huggingface:{llama2.path}", llama2)]:
        some = strings if name in ("gpt2", "llama3", "tiktoken") else strings[:len(strings) // 10]
        in_text = differences(program, word, theirs, [other, *documents], folder)
        in_strings = differences(program, word, theirs, some, folder)
        mine, other_speed = speed(program, word, theirs, text)
        print(f"{name}: {in_text} differences in the text, {in_strings} in {len(some)} strings; {mine:.1f} MB/s, "
              f"theirs {other_speed:.1f} MB/s", flush=True)
        failed |= in_text + in_strings > 0
    sys.exit(1 if failed else 0)


main()
