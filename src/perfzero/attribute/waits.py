"""
Calls of PyTorch that wait for the GPU, how they are written, and what they wait for.

PyTorch itself says in four places which calls wait:

    test      `test_sync_warning` in test/test_torch.py, the test of `torch.cuda.set_sync_debug_mode`. These
              wait: reading by a mask, an index that lies on the host, `nonzero`, a tensor as a condition,
              `one_hot` without `num_classes`, `repeat_interleave` by a tensor without `output_size`, setting
              by a mask to a tensor. These do not: setting by a mask to a number, indices on the GPU, `any`
    tags      of operators (ATen/native/tags.yaml): `data_dependent_output` has item, equal and allclose,
              `dynamic_output_shape` nonzero, argwhere, masked_select, unique and its kin, bincount, one_hot,
              `repeat_interleave` by a tensor, and index by a mask: how large a result is has to be known
    notes     of torch.linalg: "synchronizes that device with the CPU" stands at the functions named here
    frames    lines of PyTorch's own that read one value: `GradScaler` looks whether gradients are finite,
              distributions check their arguments (`validate_args`), and `x in tensor` asks

Some are written as nothing else is (`SURE`). Others look like the host's own work on numbers or arrays of
NumPy (`MAY`): `if (a == b).all():` is one only where the host is seen to wait (`attribute.leaves`). A tensor
as the index of a list, or as the end of a slice, has no words of its own at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

Wait = Literal["size", "condition", "check", "answer", "factor", "value", "nothing"]
"""
What is waited for: the size of a result, a truth that an `if` is about, whether a factorisation worked,
whether two tensors are the same, a factor that a call takes as a number, or another value that is read. Or
nothing: only for the GPU to be through.
"""

FACTORISATIONS = (
    "cholesky", "cond", "eig", "eigh", "eigvals", "eigvalsh", "inv", "ldl_factor", "lu_factor", "matrix_rank",
    "pinv", "solve", "svd", "svdvals",
)  # fmt: skip
"""Of `torch.linalg` in PyTorch 2.14."""

NO_ARRAY = r"^(?!.*\b(?:np|numpy|pd|pandas|pl|polars)\.)(?!.*\bfor\b)"
"""No line of NumPy or pandas, whose arrays are masked and listed alike; nor a loop over plain values."""

_ONE = r"(?:[^(),]|\([^()]*\))+"
"""One argument."""

SURE: Mapping[Wait, Sequence[str]] = MappingProxyType(
    {
        "size": (
            r"\btorch\.(nonzero|argwhere|masked_select|unique|unique_consecutive|bincount)\(",
            r"\.masked_select\(",
            rf"{NO_ARRAY}.*\.(nonzero|argwhere)\(",
            rf"\btorch\.where\({_ONE}\)",
            rf"\b(F|functional)\.one_hot\({_ONE}\)",
        ),
        "answer": (r"\btorch\.(equal|allclose)\(",),
        "value": (r"\.is_nonzero\(\)",),
        "nothing": (r"^(?!.*\.(item|tolist|cpu|numpy)\().*\b(synchronize|block_until_ready)\(",),
    }
)
"""As a regular expression, of which any that fits a line is enough."""

_TRUTH = r"(\.(any|all)\(|\btorch\.(any|all|is(nan|inf|finite))\()"

MAY: Mapping[Wait, Sequence[str]] = MappingProxyType(
    {
        "size": (
            rf"{NO_ARRAY}.*\.(unique|unique_consecutive|bincount)\(",
            rf"{NO_ARRAY}.*\brepeat_interleave\((?!.*\boutput_size\b)(?!({_ONE},)?\s*\d+\s*[,)])",
            rf"{NO_ARRAY}.*\w\[\s*~?\s*(\w+\.)*(\w*_)?(mask|keep|valid)\s*\]\s*=\s*[A-Za-z_]",
        ),
        "condition": (
            rf"{NO_ARRAY}\s*((el)?if|while|assert)\b.*{_TRUTH}",
            rf"{NO_ARRAY}.*\b(bool|not|and|or|if)\b.*{_TRUTH}",
            rf"{NO_ARRAY}.*\w\s*[<>]=?\s*\w.*\b(and|or)\b.*\w\s*[<>]=?\s*\w",
            rf"{NO_ARRAY}\s*((el)?if|while|assert)\b.*[\w)\]]\s*([<>]=?|[!=]=)\s*[\w(]",
        ),
        "check": (
            rf"\blinalg\.({'|'.join(FACTORISATIONS)})\(",
            r"\btorch\.(inverse|cholesky|svd|pinverse)\(",
        ),
        "answer": (rf"{NO_ARRAY}.*\.(equal|allclose)\(",),
        "factor": (rf"{NO_ARRAY}.*[(,]\s*(alpha|beta|value)\s*=\s*[A-Za-z_]",),
        "value": (
            rf"{NO_ARRAY}.*\b(float|int|bool)\(\s*[A-Za-z_]",
            rf"{NO_ARRAY}.*\.tolist\(",
            rf"{NO_ARRAY}.*\brange\(\s*[A-Za-z_]",
        ),
    }
)
"""Likewise, of lines that wait if what they are about lies on the GPU."""

_READS = (
    r"torch/amp/grad_scaler\.py:(<genexpr>|_maybe_opt_step|get_scale)$",
    r"torch/distributions/distribution\.py:(__init__|_validate_sample)$",
    r"torch/_tensor\.py:__contains__$",
    r"torch/functional\.py:_unique(_consecutive)?_impl$",
)

WAITING_FRAME = re.compile("|".join(_READS))
"""`<file>:<function>` of PyTorch, where nothing takes long but the wait; of the innermost frame only."""

SURE_TEXT = "|".join(f"(?:{pattern})" for patterns in SURE.values() for pattern in patterns)

_SEEN = tuple((wait, re.compile(pattern)) for wait, patterns in SURE.items() for pattern in patterns)
_LIKELY = tuple((wait, re.compile(pattern)) for wait, patterns in MAY.items() for pattern in patterns)
_MASKED = re.compile(
    r"\w\[\s*~?\s*(\w+\.)*(\w*_)?(mask|keep|valid)\s*\]|\w\[[^\]\"']*([<>]=?|[!=]=)[^\]\"']*\]"
)
_ASKED = re.compile(r"^\s*((el)?if|while|assert)\b")

_KEPT = 65_536


@lru_cache(_KEPT)
def may_wait(text: str) -> bool:
    """Whether a line with this *text* waits for the GPU if what it is about lies there."""
    return any(pattern.search(text) for _, pattern in _LIKELY)


@lru_cache(_KEPT)
def waits_for(text: str) -> Wait:
    """What a line with this *text*, which is known to wait for the GPU, waits for."""
    found = next((wait for wait, pattern in _SEEN if pattern.search(text)), None)
    if found is not None:
        return found
    if _ASKED.search(text):
        return "condition"
    if _MASKED.search(text):
        return "size"
    return next((wait for wait, pattern in _LIKELY if pattern.search(text)), "value")
