"""Compares Weft's logits with transformers', both ways.

  compare_logits.py compare (FOLDER LOGITS TITLE)...   FOLDER: what weft export wrote; LOGITS: what the program logits
                                                       wrote for it
  compare_logits.py make (FAMILY FOLDER KEYS)...       a small model with random weights, saved by transformers; KEYS:
                                                       of its config, as JSON, and "shard", the greatest size of a file
  compare_logits.py neutral (FAMILY FILE SLACK)...     FILE: keys of config.json, one a line; none changes the logits of a
                                                       small model by more than SLACK of the largest
"""
import json
import os
import sys

import numpy as np
import torch
import transformers as hf


# The configuration of a small model of each family, and the class that computes its logits.
LLAMA = dict(vocab_size=256, max_position_embeddings=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=192, initializer_range=0.1, rms_norm_eps=1e-5,
             tie_word_embeddings=False)
FAMILIES = dict(
    gpt2=(hf.GPT2Config, hf.AutoModelForCausalLM,
          dict(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, initializer_range=0.1)),
    llama=(hf.LlamaConfig, hf.AutoModelForCausalLM, LLAMA),
    mistral=(hf.MistralConfig, hf.AutoModelForCausalLM, LLAMA | dict(sliding_window=16)),
    gemma2=(hf.Gemma2Config, hf.AutoModelForCausalLM,
            LLAMA | dict(num_hidden_layers=3, head_dim=32, query_pre_attn_scalar=20, sliding_window=16,
                         attn_logit_softcapping=2.0, final_logit_softcapping=4.0, tie_word_embeddings=True,
                         attn_implementation="eager")),  # the only one with the soft cap
    neox=(hf.GPTNeoXConfig, hf.AutoModelForCausalLM,
          dict(vocab_size=256, max_position_embeddings=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
               intermediate_size=256, initializer_range=0.1)),
    marian=(hf.MarianConfig, hf.AutoModelForSeq2SeqLM,
            dict(vocab_size=258, max_position_embeddings=64, d_model=64, encoder_layers=2, decoder_layers=2,
                 encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256,
                 init_std=0.1, activation_function="swish", scale_embedding=True, pad_token_id=257, eos_token_id=256,
                 decoder_start_token_id=257, forced_eos_token_id=None)),
    bert=(hf.BertConfig, hf.AutoModelForMaskedLM,
          dict(vocab_size=257, max_position_embeddings=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
               intermediate_size=256, initializer_range=0.1, layer_norm_eps=1e-5)))


def config_of(family, keys):
    kind, _, small = FAMILIES[family]
    return kind(**(small | keys))


def random_model(family, config):
    """A model whose norms and biases are random too, not ones and zeros."""
    model = FAMILIES[family][1].from_config(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn_like(p))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model


def make(family, folder, keys):
    keys = json.loads(keys)
    shard = keys.pop("shard", "1GB")
    random_model(family, config_of(family, keys)).save_pretrained(folder, max_shard_size=shard)
    files = [name for name in os.listdir(folder) if name.endswith(".safetensors")]
    assert (len(files) > 1) == (shard != "1GB"), files


def logits_of(model):
    c = model.eval().config
    t = np.arange(c.max_position_embeddings)
    tokens = torch.tensor(np.stack([(7919 * b + 104729 * t + 13) % c.vocab_size for b in range(2)]))
    with torch.no_grad():
        if c.is_encoder_decoder:  # the first half of a row is the source
            half = tokens.shape[1] // 2
            source, target = tokens[:, :half], tokens[:, half:]
            mask = source.ne(target[:, :1]).long()  # the token that begins the target is padding in a source
            return model(source, attention_mask=mask, decoder_input_ids=target).logits
        return model(tokens).logits


# Values for keys whose default does not show which others there may be.
OTHERS = dict(architectures=["Other"], id2label={"0": "a", "1": "b", "2": "c"}, label2id={"a": 0, "b": 1, "c": 2},
              num_labels=3, problem_type="regression", dtype="bfloat16", torch_dtype="bfloat16", summary_type="mean",
              summary_activation="tanh", attn_implementation="eager", experts_implementation="eager",
              bad_words_ids=[[1]], suppress_tokens=[1], begin_suppress_tokens=[1], task_specific_params={"a": {}},
              exponential_decay_length_penalty=[1, 1.5], reorder_and_upcast_attn=True, pretraining_tp=2, top_p=0.5,
              classifier_dropout=0.25, cache_implementation="hybrid", initializer_range=0.3)


def other_value(config, key):
    """A value that is not the default."""
    default = getattr(config, key, None)
    if key in OTHERS:
        return OTHERS[key]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 1
    if isinstance(default, float):
        return default + 0.25
    if key.endswith("_id"):
        return 1
    return "other" if isinstance(default, str) or default is None else default


def neutral(family, keys, slack):
    """Whether each of the keys may have another value and the logits stay."""
    torch.manual_seed(1)
    plain = config_of(family, {})
    model = random_model(family, plain)
    want, apart = logits_of(model), {}
    for key in open(keys).read().split():
        if key == "return_dict":  # without it the model returns a tuple
            continue
        config = config_of(family, {key: other_value(plain, key)} |
                           ({"attn_implementation": "eager"} if key == "reorder_and_upcast_attn" else {}))
        other = FAMILIES[family][1].from_config(config).float()
        other.load_state_dict(model.state_dict())
        apart[key] = float((logits_of(other) - want).abs().max() / want.abs().max())
    worst = max(apart, key=apart.get)
    print(f"{family}: {len(apart)} neutral keys: logits apart by at most {apart[worst]:.2e} of the largest ({worst})")
    return apart[worst] <= float(slack)


def compare(folder, logits, title):
    """Whether the logits agree within 1e-5, and within 1e-5 of the largest: both sum in f32, in orders of their own."""
    kind = hf.AutoConfig.from_pretrained(folder)
    model, small = next((model, small) for config, model, small in FAMILIES.values() if type(kind) is config)
    attention = small.get("attn_implementation")
    want = logits_of(model.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention)).numpy()
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
    sys.exit(not all([dict(compare=compare, neutral=neutral)[mode](*triple) for triple in triples]))
