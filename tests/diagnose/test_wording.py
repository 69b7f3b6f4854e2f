"""Advice for programs that are not in PyTorch names nothing of PyTorch."""

from __future__ import annotations

import re

import pytest

from perfzero.diagnose.remedies import OFFERS, SEEN_ONLY
from perfzero.diagnose.verdict import Remedy
from perfzero.diagnose.wording import (
    ALLOW_TF32,
    ALLOW_TF32_IN_BOTH,
    ALLOW_TF32_IN_CONVOLUTIONS,
    IN_OTHER_WORDS,
    in_words_of,
)
from perfzero.report.line_advice import ADVICE
from perfzero.report.line_remedies import ANSWERS

PYTORCH = re.compile(
    r"torch|autocast|GradScaler|DataLoader|num_workers|persistent_workers|prefetch_factor|pin_memory|\.cpu\(\)|"
    r"\.to\(|non_blocking|fused=True|set_to_none|scaled_dot_product|DDP|FSDP|TORCH_|BatchSampler|__getitems__|device=|memory_format|wait_stream"
)

EVERY = [
    *(offer.remedy for offer in OFFERS),
    *(Remedy(answer.text, (), answer.verify) for answer in ANSWERS),
    *(one.remedy for one in ADVICE),
    Remedy(ALLOW_TF32_IN_CONVOLUTIONS),
    Remedy(ALLOW_TF32_IN_BOTH),
]


def sentences(remedy: Remedy) -> list[str]:
    return [remedy.text, *remedy.needs, remedy.verify]


@pytest.mark.parametrize("framework", ["cupy", "jax", "other"])
def test_no_remedy_names_anything_of_pytorch(framework: str) -> None:
    told = [sentence for remedy in EVERY for sentence in sentences(in_words_of(framework, remedy))]

    assert [sentence for sentence in told if PYTORCH.search(sentence)] == []


def test_only_what_is_said_has_other_words_and_only_where_it_needs_them() -> None:
    every = (*EVERY, *(offer.remedy for offer in SEEN_ONLY))
    said = {sentence for remedy in every for sentence in sentences(remedy)}

    assert set(IN_OTHER_WORDS) <= said
    assert all("other" in words for words in IN_OTHER_WORDS.values())
    assert any(PYTORCH.search(sentence) for sentence in said)


@pytest.mark.parametrize(
    ("framework", "word"),
    [("cupy", "CUPY_TF32=1"), ("jax", "jax_default_matmul_precision"), ("other", "cuBLAS")],
)
def test_tf32_is_allowed_by_the_frameworks_own_switch(framework: str, word: str) -> None:
    for text in (ALLOW_TF32, ALLOW_TF32_IN_CONVOLUTIONS, ALLOW_TF32_IN_BOTH):
        assert word in in_words_of(framework, Remedy(text)).text


def test_a_framework_without_words_of_its_own_and_a_sentence_without_pytorch_stay_plain() -> None:
    fuse = Remedy("Let a compiler fuse and re-tile it: torch.compile.", ("time",), "It falls.")

    assert in_words_of("cupy", fuse) == Remedy("Let a compiler fuse and re-tile it.", ("time",), "It falls.")
