"""Makes weights of PyTorch's modules and compares with what Weft's modules make of them, and write of them.

  compare_torch_state.py make FILE                      saves the weights
  compare_torch_state.py compare FILE WRITTEN PRINTED   the tensors are equal bit by bit, a module takes them with strict
                                                        names, and the outputs agree
"""
import sys
import warnings

import torch
from safetensors.torch import load_file, save_file
from torch import nn

WIDTH, WIDE, SOURCES, TARGETS, BATCH = 8, 6, 5, 4, 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(WIDTH, 2, 2, 1, 12, batch_first=True, norm_first=True)
        self.wide = nn.MultiheadAttention(WIDTH, 2, kdim=WIDE, vdim=WIDE, batch_first=True)

    def forward(self, src, tgt, memory):
        later = torch.ones(TARGETS, TARGETS, dtype=torch.bool).triu(1)
        y = self.transformer(src, tgt, tgt_mask=later, tgt_is_causal=True)
        return self.wide(y, memory, memory, need_weights=False)[0]


def waves(*shape):
    return torch.sin(torch.arange(torch.Size(shape).numel(), dtype=torch.float64)).float().reshape(shape)


def make(path):
    torch.manual_seed(1)
    model = Model()
    with torch.no_grad():  # no bias is zero and no weight of a norm one
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    save_file(model.state_dict(), path)


def compare(path, written, printed):
    ours, theirs = load_file(written), load_file(path)
    assert ours.keys() == theirs.keys(), sorted(ours.keys() ^ theirs.keys())
    for name, tensor in theirs.items():
        assert torch.equal(tensor, ours[name]), name
    model = Model().eval()
    model.load_state_dict(ours, strict=True)
    want = model(waves(BATCH, SOURCES, WIDTH), waves(BATCH, TARGETS, WIDTH), waves(BATCH, SOURCES, WIDE)).flatten()
    got = torch.tensor([float(line) for line in open(printed)])
    difference = float((got - want.detach()).abs().max())
    assert difference < 2e-6, difference  # f32, with sums in other orders
    print(f"{len(ours)} tensors are equal, {len(got)} outputs differ by at most {difference:.1e}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "enable_nested_tensor is True")
    {"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
