"""The peer of cudnn_attention: PyTorch's scaled_dot_product_attention on its cuDNN backend, same shapes."""
import json
import os
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from torch_timing import median_ms  # noqa: E402


def measure(b, h, s, d):
    q, k, v = (torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    grad = torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        call = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        forward = median_ms(call)
        out = call()
        backward = median_ms(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))
    flops = 2.0 * b * h * s * s * d
    print(json.dumps({"probe": "torch_attention", "B": b, "H": h, "S": s, "D": d, "forward_ms": round(forward, 3),
                      "forward_tflops": round(flops / forward * 1e-9), "backward_ms": round(backward, 3),
                      "backward_tflops": round(2.5 * flops / backward * 1e-9)}))


def measure_product(n=8192):
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    ms = median_ms(lambda: a @ b)
    print(json.dumps({"probe": "torch_product", "n": n, "ms": round(ms, 3), "tflops": round(2 * n**3 / ms * 1e-9)}))


print(json.dumps({"probe": "versions", "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}))
measure_product()
for shape in ((64, 12, 1024, 64), (4, 32, 4096, 128), (2, 32, 8192, 128)):
    measure(*shape)
