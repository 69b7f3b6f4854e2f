"""
Which function of a trace is the user's own, and which line of it can be told.

Kineto takes the folders on `sys.path` off the file names, site-packages and the standard library's among
them. So `torch/nn/modules/linear.py` and `model/layers.py` look alike, and what is a library has to be known
by its name. A library that is not in the table here is taken for the user's.

Kineto gives the line where a function begins; of one that was running already when the trace began it gives
the line that was running then, which says nothing of what came later.
"""

from __future__ import annotations

import re
import sys

from perfzero.traces import Function

LIBRARIES = frozenset({
    "accelerate", "apex", "deepspeed", "diffusers", "fairscale", "flash_attn", "ignite", "lightning",
    "lightning_fabric", "megatron", "mmcv", "mmengine", "numpy", "peft", "pytorch_lightning", "sglang",
    "timm", "torch", "torchao", "torchaudio", "torchtext", "torchtitan", "torchvision",
    "transformer_engine", "transformers", "triton", "trl", "tqdm", "vllm", "xformers",
})  # fmt: skip
"""Packages that call a framework's operators on behalf of the user's code."""

_PACKAGES = frozenset({
    "asyncio", "collections", "concurrent", "ctypes", "encodings", "importlib", "json", "logging",
    "multiprocessing", "unittest",
})  # fmt: skip
"""Folders of the standard library that functions run from. Others, such as `code`, may be the user's."""

_INSTALLED = re.compile(r"(^|/)(site-packages|dist-packages)/|/lib/python[0-9.]+/|(^|/)torchinductor_|^<")
_OURS = frozenset(
    {
        "_perfzero_agent.py",
        "_perfzero_torch.py",
        "_perfzero_cupti.py",
        "sitecustomize.py",
        "usercustomize.py",
    }
)


def is_users(function: Function) -> bool:
    """Whether *function* is the program's own: no library's, no generated code, nothing of perfzero's."""
    path = function.file.replace("\\", "/")
    if _INSTALLED.search(path):
        return False
    first, _, rest = path.partition("/")
    if rest:
        return first not in LIBRARIES and first not in _PACKAGES and path.rpartition("/")[2] not in _OURS
    return first not in _OURS and first.removesuffix(".py") not in sys.stdlib_module_names
