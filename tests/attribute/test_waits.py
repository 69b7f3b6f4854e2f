"""Calls that wait for the GPU: all that PyTorch says of itself, and what only looks like one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hand_written_stacks import CALL, Part, at, made
from perfzero.attribute.host_activity import meaning
from perfzero.attribute.leaves import FEWEST
from perfzero.attribute.stacks import host_causes
from perfzero.attribute.waits import FACTORISATIONS, Wait, may_wait, waits_for
from perfzero.stacks import Frame, HostStacks

SITE = "/v/site-packages"


def surely(text: str) -> bool:
    return meaning((Frame("/job/train.py", 4, "main"),), lambda _: text).activity == "synchronising"


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        # By the tags of operators.
        ("value = loss.item()", "value"),
        ("if torch.equal(a, b):", "answer"),
        ("same = torch.allclose(a, b)", "answer"),
        ("rows = torch.nonzero(score)", "size"),
        ("rows = score.nonzero(as_tuple=True)", "size"),
        ("rows = torch.argwhere(score)", "size"),
        ("rows = score.argwhere()", "size"),
        ("kept = torch.masked_select(x, mask)", "size"),
        ("kept = x.masked_select(mask)", "size"),
        ("names = torch.unique(x)", "size"),
        ("names = torch.unique_consecutive(x)", "size"),
        ("counts = torch.bincount(x, minlength=10)", "size"),
        ("y = F.one_hot(x.view(-1, 1))", "size"),
        ("y = torch.nn.functional.one_hot(labels)", "size"),
        # By the test, and the documentation of torch.where.
        ("kept = x[mask]", "size"),
        ("kept = x[x > 0]", "size"),
        ("rows = torch.where(x > max(a, b))", "size"),
        ("if loss > 3:", "condition"),
        ("assert torch.isfinite(y)", "condition"),
        ("if x.is_nonzero():", "value"),
        ("torch.cuda.synchronize()", "nothing"),
        ("stream.synchronize()", "nothing"),
        ("torch.cuda.synchronize(); print(loss.item())", "value"),
    ],
)
def test_what_is_written_as_nothing_else_is_waits(text: str, wait: Wait) -> None:
    assert surely(text)
    assert waits_for(text) == wait


MAYBE: list[tuple[str, Wait]] = [
    ("if (b == 0).any():", "condition"),
    ("while not done.all():", "condition"),
    ("assert (lengths > 0).all(), lengths", "condition"),
    ("return bool(bad.any())", "condition"),
    ("y = a if flags.any() else b", "condition"),
    ("if score > best:", "condition"),
    ("trusted = weight_norm > 0 and update_norm > 0", "condition"),
    ("names = x.unique(return_counts=True)", "size"),
    ("y = x.repeat_interleave(counts, dim=0)", "size"),
    ("y = torch.repeat_interleave(x, counts, dim=0)", "size"),
    ("x[keep] = y", "size"),
    ("y = torch.add(x, y, alpha=scale)", "factor"),
    ("value = float(score)", "value"),
    ("n = int(lengths.max())", "value"),
    ("rows = x.tolist()", "value"),
    ("for_rows = range(count)", "value"),
    ("same = a.equal(b)", "answer"),
    *((f"y = torch.linalg.{name}(x)", "check") for name in FACTORISATIONS),  # type: ignore[list-item]
    ("y = torch.inverse(x)", "check"),
]


@pytest.mark.parametrize(("text", "wait"), MAYBE)
def test_what_looks_like_the_hosts_own_work_may_wait(text: str, wait: Wait) -> None:
    assert may_wait(text)
    assert not surely(text)
    assert waits_for(text) == wait


@pytest.mark.parametrize(
    "text",
    [
        # By the test these wait for nothing.
        "x[mask] = 1.0",
        "x[index] = y",
        "y = x[index]",
        "y = functional.one_hot(x, CLASSES)",
        "y = F.one_hot(x.argmax(dim=1), num_classes=10)",
        "y = torch.repeat_interleave(x, 2)",
        "y = x.repeat_interleave(4, dim=1)",
        "y = torch.repeat_interleave(x, counts, output_size=n)",
        "found = (x > 0).any()",
        "y = torch.where(mask, x, 0)",
        "y = torch.linalg.inv_ex(x)",
        "y = torch.nonzero_static(x, size=n)",
        "same = torch.isclose(a, b)",
        # And these are about the host's own.
        "if np.any(rows == 0):",
        "names = pd.unique(column)",
        "total = [float(v) for v in row]",
        "if any(f(x) for x in rows):",
    ],
)
def test_what_waits_for_nothing_or_is_the_hosts_own_neither_waits_nor_may(text: str) -> None:
    assert not surely(text)
    assert not may_wait(text)


@pytest.mark.parametrize(
    "frame",
    [
        Frame(f"{SITE}/torch/amp/grad_scaler.py", 5, "<genexpr>"),
        Frame(f"{SITE}/torch/amp/grad_scaler.py", 5, "GradScaler._maybe_opt_step"),
        Frame(f"{SITE}/torch/distributions/distribution.py", 5, "Distribution._validate_sample"),
        Frame(f"{SITE}/torch/_tensor.py", 5, "Tensor.__contains__"),
        Frame(f"{SITE}/torch/functional.py", 5, "_unique_impl"),
    ],
)
def test_torchs_own_lines_that_read_a_value_wait_where_they_are_innermost(frame: Frame) -> None:
    own = Frame("/job/train.py", 4, "main")
    kernels = Frame(f"{SITE}/torch/distributions/constraints.py", 5, "check")

    assert meaning((frame, own), lambda _: "y = step(x)").activity == "synchronising"
    assert meaning((kernels, frame, own), lambda _: "y = step(x)").activity != "synchronising"
    assert meaning((CALL, own), lambda _: "y = step(x)").activity == "launching"


TEXT = "if (b == 0).any():"
WAITS: Sequence[Part] = [(at(12, CALL), 4, [(0, 4)]), (at(11), 10, [(0, 10)]), (at(13), 8, [])]
"""The host launches, waits until all is done, and then the GPU has nothing to do."""


def told(parts: Sequence[Part], text: str = TEXT, *, seconds: float = 10.0) -> str:
    """What the line 11 of *parts* with this *text* is told to do; empty where it is not told."""
    stacks, samples = made(parts, seconds=seconds)
    lines = {**stacks.lines, ("/job/train.py", 11): text}
    found = host_causes(HostStacks(stacks.processes, lines), samples)
    assert not found.reason
    return next((c.activity for c in found.causes if c.frame.line == 11), "")


def test_a_line_that_may_wait_does_where_the_gpu_works_meanwhile_and_is_idle_afterwards() -> None:
    assert told(WAITS) == "synchronising"


@pytest.mark.parametrize(
    "parts",
    [
        # The GPU runs dry in its midst.
        [(at(12, CALL), 4, [(0, 4)]), (at(11), 10, [(0, 5)]), (at(13), 3, [])],
        # Or is as idle as elsewhere.
        [(at(12, CALL), 6, [(0, 4)]), (at(11), 12, [(0, 3), (6, 9)]), (at(13), 3, [])],
    ],
)
def test_a_line_that_computes_while_the_gpu_is_idle_runs_python(parts: Sequence[Part]) -> None:
    assert told(parts) == "python"


def beside(work: float, seen: float, after: float = 8.0) -> Sequence[Part]:
    """The host works in C for *seen* of the *work* ms that the GPU has to do yet, then elsewhere."""
    left = work - seen
    return [(at(12, CALL), 4, [(0, 4)]), (at(11), seen, [(0, seen)]), (at(13), after, [(0, left)])]


@pytest.mark.parametrize(("work", "seen"), [(10, 6), (10, 8), (10, 9)])
def test_a_line_that_is_left_while_the_gpu_still_works_waits_for_none(work: float, seen: float) -> None:
    """A wait ends when the work does; code of C has no frame that would tell."""
    assert told(beside(work, seen, 12), "distance = float(edit_distance(a, b))") == "python"


@pytest.mark.parametrize("gap", [1.0, 2.0, 8.0])
def test_a_line_that_ends_with_the_gpus_work_waits_for_it(gap: float) -> None:
    whole = [*WAITS[:2], (at(13), gap, [])]

    assert told(whole, "distance = float(edit_distance(a, b))") == "synchronising"


def test_a_line_below_which_arrays_of_the_host_are_seen_waits_for_no_gpu() -> None:
    numpy = Frame(f"{SITE}/numpy/_core/_methods.py", 60, "_any")
    whole = [*WAITS[:1], (at(11), 9, [(0, 9)]), (at(11, numpy), 1, [(0, 1)]), *WAITS[2:]]

    assert told(whole) != "synchronising"
    assert told([*WAITS[:1], (at(11), 9, [(0, 9)]), (at(11, CALL), 1, [(0, 1)]), *WAITS[2:]]) != "python"


def test_a_line_whose_words_cannot_wait_does_not() -> None:
    assert told(WAITS, "rows = sorted(rows)") != "synchronising"


def test_a_line_that_was_seen_a_few_times_is_left_open() -> None:
    few = [(at(12, CALL), 4, [(0, 4)]), (at(11), 1, [(0, 1)]), (at(13), 8, [])]

    assert FEWEST > 0.05 * 250 * 1.5
    assert told(few, seconds=1.5) != "synchronising"
