"""Device memory that is taken and given back in steps: what it takes, and what keeping it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hand_written_look import ENGINE, MAIN, Look
from perfzero.attribute.allocating import OFTEN, Allocating
from perfzero.attribute.conditions import HOST_SHARE, conditions
from perfzero.attribute.tree import break_down
from perfzero.report.settled import SUPPOSING
from perfzero.store.kineto import read_trace
from perfzero.store.slim import slim_look


def steps(
    *, malloc_us: float = 100.0, free_us: float = 200.0, many: int = 2, kernel_us: float = 300.0
) -> Look:
    """
    Two steps of 1000 us. In each the host gets memory, *many* times, launches a kernel, and gives memory
    back: while the kernel runs, and 50 us longer.
    """
    look = Look()
    for k in range(2):
        o = 1000.0 * k
        look.step(k, o, o + 1000)
        for i in range(many):
            look.span("cuda_runtime", "cudaMalloc", o + 10 + i * malloc_us, o + 10 + (i + 1) * malloc_us)
        begins = o + 10 + many * malloc_us
        look.work("kernel", begins + 5, begins + 5 + kernel_us, at=begins)
        if free_us:
            ends = begins + 5 + kernel_us + 50
            look.span("cuda_runtime", "cudaFree", ends - free_us, ends, ENGINE)
    return look


def test_what_keeping_memory_leaves_lies_between_the_idle_part_of_the_calls_and_all_of_them(
    tmp_path: Path,
) -> None:
    found = break_down(steps().trace(tmp_path)).allocating

    # 200 us get memory without work, 200 give it back, 50 of them without work.
    assert found.calls == 3
    assert found.share == pytest.approx(0.4)
    assert found.left == pytest.approx((0.6, 0.75))


def test_no_less_is_left_than_the_gpu_works(tmp_path: Path) -> None:
    look = steps(kernel_us=700.0)

    assert break_down(look.trace(tmp_path)).allocating.left == pytest.approx((0.7, 0.75))


def test_calls_that_overlap_on_two_threads_count_once(tmp_path: Path) -> None:
    look = steps(free_us=0.0)
    look.span("cuda_runtime", "cudaMalloc", 5, 305, ENGINE)  # around both of the first step's

    assert break_down(look.trace(tmp_path)).allocating.share == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cudaMalloc", True), ("cudaFree", True), ("cudaMallocAsync", True), ("cuMemAlloc_v2", True),
        ("cuMemCreate", True), ("cuMemUnmap", True), ("cudaMallocHost", False), ("cudaFreeHost", False),
        ("cudaMemcpyAsync", False), ("cudaStreamSynchronize", False), ("cudaMemGetInfo", False),
    ],
)  # fmt: skip
def test_calls_are_known_by_their_names(tmp_path: Path, name: str, counts: bool) -> None:
    look = steps(malloc_us=0.0, free_us=0.0, many=0)
    look.span("cuda_runtime", name, 600, 700)

    assert (break_down(look.trace(tmp_path)).allocating.share > 0) is counts


def test_without_calls_or_steps_or_of_several_gpus_nothing_is_told(tmp_path: Path) -> None:
    none = steps(free_us=0.0, many=0)
    outside = steps(free_us=0.0, many=0)
    outside.span("cuda_runtime", "cudaMalloc", 2500, 2600)
    several = steps()
    several.kernel("other", 10, 20, correlation=several.launch(5), device=1)
    unmarked = Look()
    unmarked.work("kernel", 10, 20, at=5)
    unmarked.span("cuda_runtime", "cudaMalloc", 0, 5, MAIN)

    for look in (none, outside, several, unmarked):
        assert break_down(look.trace(tmp_path)).allocating == Allocating()


def test_the_condition_says_what_is_left_of_the_time_in_calls(tmp_path: Path) -> None:
    found = conditions(break_down(steps().trace(tmp_path)))["allocates"]

    assert (found.holds, found.share, found.beside) == (True, pytest.approx(0.4), 3)
    # As a gain of 1 / 0.75 to 1 / 0.6 of all time.
    assert found.left is not None
    times = [1 / (1 - found.share * (1 - part)) for part in found.left]
    assert times == pytest.approx([1 / 0.6, 1 / 0.75])
    assert "allocates" in SUPPOSING


@pytest.mark.parametrize(
    "look",
    [
        steps(many=1, free_us=0.0),  # one call a step: a cache that grows
        steps(many=2, malloc_us=500 * HOST_SHARE - 1, free_us=0.0),  # too short to matter
    ],
)
def test_a_cache_that_grows_or_short_calls_are_no_reason(tmp_path: Path, look: Look) -> None:
    assert OFTEN == 2
    assert "allocates" not in conditions(break_down(look.trace(tmp_path)))


def test_a_slim_look_keeps_them(tmp_path: Path) -> None:
    path = steps().write(tmp_path)
    slim = tmp_path / "slim"
    slim.mkdir()
    content, _ = slim_look(path, hide=str)
    (slim / path.name).write_bytes(content)

    assert break_down(read_trace(slim / path.name)).allocating == break_down(read_trace(path)).allocating
