"""
Remedies as lines to add and to take away, for those whose change is the same in most programs.

A remedy is recognised by the code in its text, which no translation changes. What is shown is an example:
names of models, loaders and inputs are the reader's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from perfzero.diagnose.verdict import Remedy

Sign = Literal["+", "-", " "]
Snippet = tuple[tuple[Sign, str], ...]

SNIPPETS: Mapping[str, Snippet] = {
    "torch.channels_last": (
        ("-", 'model = model.to("cuda")'),
        ("+", 'model = model.to("cuda", memory_format=torch.channels_last)'),
        (" ", "for images, labels in loader:"),
        ("-", '    images = images.to("cuda")'),
        ("+", '    images = images.to("cuda", memory_format=torch.channels_last)'),
    ),
    "num_workers": (
        ("-", "loader = DataLoader(dataset, batch_size=B, num_workers=N)"),
        ("+", "loader = DataLoader(dataset, batch_size=B, num_workers=2 * N,"),
        ("+", "                    persistent_workers=True, prefetch_factor=4)"),
    ),
    "torch.set_float32_matmul_precision": (
        (" ", "import torch"),
        ("+", 'torch.set_float32_matmul_precision("high")  # TF32 on the tensor cores'),
    ),
    "torch.backends.cudnn.allow_tf32": (
        (" ", "import torch"),
        ("+", "torch.backends.cudnn.allow_tf32 = True"),
    ),
    "torch.autocast('cuda', torch.float16)": (
        ("+", 'scaler = torch.amp.GradScaler("cuda")'),
        ("-", "loss = criterion(model(images), labels)"),
        ("+", "with torch.autocast('cuda', torch.float16):"),
        ("+", "    loss = criterion(model(images), labels)"),
        ("-", "loss.backward(); optimizer.step()"),
        ("+", "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"),
    ),
    "torch.autocast": (
        ("-", "loss = criterion(model(images), labels)"),
        ("+", "with torch.autocast('cuda', torch.bfloat16):"),
        ("+", "    loss = criterion(model(images), labels)"),
    ),
    "torch.nn.functional.scaled_dot_product_attention": (
        ("-", "scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))"),
        ("-", "out = scores.softmax(-1) @ v"),
        ("+", "out = torch.nn.functional.scaled_dot_product_attention(q, k, v)"),
    ),
    'torch.compile(mode="reduce-overhead")': (
        ("-", "step(images, labels)"),
        ("+", 'step = torch.compile(step, mode="reduce-overhead")'),
        ("+", "step(images, labels)"),
    ),
    "zero_grad(set_to_none=True)": (
        ("-", "optimizer.zero_grad(set_to_none=False)"),
        ("+", "optimizer.zero_grad(set_to_none=True)"),
    ),
    "fused=True": (
        ("-", "optimizer = torch.optim.Adam(model.parameters(), lr=lr)"),
        ("+", "optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)"),
    ),
    "torch.compile": (
        ("+", "model = torch.compile(model)"),
    ),
    ".item()": (
        ("-", "total += loss.item()                     # waits for the GPU in each step"),
        ("+", "total += loss.detach()                   # stays on the GPU"),
        ("+", "if step % 100 == 0: print(total.item())  # waits once in a hundred"),
    ),
    "pin_memory=True": (
        ("-", "loader = DataLoader(dataset, ...)"),
        ("+", "loader = DataLoader(dataset, ..., pin_memory=True)"),
        ("-", "images = images.cuda()"),
        ("+", 'images = images.to("cuda", non_blocking=True)'),
    ),
    "gc.freeze()": (
        ("+", "if step == warm_up_steps:"),
        ("+", "    gc.collect(); gc.freeze(); gc.disable()"),
    ),
    "torch.empty": (
        ("-", "out = torch.zeros(shape, device='cuda')"),
        ("+", "out = torch.empty(shape, device='cuda')"),
    ),
    "CUDA_LAUNCH_BLOCKING": (
        ("-", "export CUDA_LAUNCH_BLOCKING=1"),
        ("+", "unset CUDA_LAUNCH_BLOCKING"),
    ),
    "NVIDIA_TF32_OVERRIDE": (
        ("-", "export NVIDIA_TF32_OVERRIDE=0"),
        ("+", "unset NVIDIA_TF32_OVERRIDE"),
    ),
}  # fmt: skip
"""By the code in a remedy's text; of several that are in it the first counts, so longer ones come first."""


def snippet(remedy: Remedy) -> Snippet:
    """The change that *remedy* asks for; empty where it has no usual form."""
    return next((lines for code, lines in SNIPPETS.items() if code in remedy.text), ())
