"""The peer of attention_masks.sh: PyTorch's attention under a mask, by every backend of scaled_dot_product_attention that takes it
and by compiled flex_attention. Prints one JSON line per shape, mask, pass and way. Usage: torch_attention_masks.py CASE..., where
a case is name:batch:heads:seq:head_dim:window:documents:padding (bench sdpa has the same words) and a name of causal or full."""
import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

from torch_timing import median_ms

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def mask_of(causal, seq, window, documents, padding):
    """Returns a function of indices like flex_attention's mask_mod."""
    length = seq - int(padding * seq)

    def sees(b, h, i, j):
        seen = j < length
        if causal:
            seen = seen & (j <= i)
        if window:
            seen = seen & (i - j < window)
        if documents > 1:
            seen = seen & (i * documents // seq == j * documents // seq)
        return seen

    return sees


def report(case, way, run, inputs, grad):
    """Times both passes of run(*inputs). A way that refuses the case prints why."""
    try:
        forward = median_ms(lambda: run(*inputs))
        out = run(*inputs)
        backward = median_ms(lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True))
        print(json.dumps({"case": case, "way": way, "forward": forward, "backward": backward}), flush=True)
    except Exception as error:  # a backend that does not take the mask, or has not enough memory
        print(json.dumps({"case": case, "way": way, "refused": str(error).splitlines()[0][:120]}), flush=True)


def measure(case):
    kind, *numbers = case.split(":")
    batch, heads, seq, size, window, documents = map(int, numbers[:6])
    padding, causal = float(numbers[6]), kind == "causal"
    inputs = [torch.randn(batch, seq, heads, size, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_() for _ in range(3)]
    grad = torch.randn(batch, seq, heads, size, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    sees = mask_of(causal, seq, window, documents, padding)
    plain = not window and documents == 1 and padding == 0
    only_causal = causal and plain
    mask = None
    if not plain:
        index = torch.arange(seq, device="cuda")
        mask = sees(0, 0, index[:, None], index[None, :]).expand(seq, seq)[None, None].contiguous()
    for name, backend in BACKENDS.items():
        with sdpa_kernel(backend):
            report(case, name, lambda q, k, v: sdpa(q, k, v, attn_mask=mask, is_causal=only_causal), inputs, grad)
    if plain:
        return
    # Without a causal mask and documents, padding at the end of all sequences is a slice of the keys, but a batch has sequences
    # of several lengths. So the mask is used here too.
    block_mask = create_block_mask(sees, None, None, seq, seq, device="cuda", _compile=True)
    compiled = torch.compile(flex_attention)
    report(case, "flex", lambda q, k, v: compiled(q, k, v, block_mask=block_mask), inputs, grad)


print(json.dumps({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name()}), flush=True)
for each in sys.argv[1:]:
    torch._dynamo.reset()
    measure(each)
