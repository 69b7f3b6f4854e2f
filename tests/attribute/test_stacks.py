"""
Whom the idle time belongs to: recordings of programs with a simulated GPU, of which the truth was measured by
taking the planted line out (tests/fixtures/stacks/record.py), and stacks written by hand.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
import pytest

from hand_written_stacks import CALL, HZ, LOADER, MS, Part, at, by_text, made, pm, recorded
from perfzero.attribute import shares as share_module
from perfzero.attribute import stacks as module
from perfzero.attribute.host_activity import DEEPEST
from perfzero.attribute.moments import main_thread, moments_of, visits_of
from perfzero.attribute.stacks import HostCauses, causes_by_averages, host_causes
from perfzero.stacks import Frame, HostStacks, ProcessStacks
from perfzero.values import IntArray, Samples


@pytest.mark.parametrize("period_ns", [MS, 2 * MS])
@pytest.mark.parametrize(
    ("case", "line"),
    [
        ("item", "loss.item()"),
        ("item_short", "loss.item()"),
        ("tokenise", "ids = tokenise(WORDS)"),
        ("sleep_then_sync", "time.sleep(0.015)"),
        ("rare_save", 'open("/dev/null", "w").write(str(spin(600)))'),
        ("lagged_sync", "gc.collect(); spin(40)"),
    ],
)
def test_the_planted_line_is_told_first_with_its_share(case: str, line: str, period_ns: int) -> None:
    found, truth = recorded(case, period_ns=period_ns)

    assert found.causes[0].text == line
    assert found.causes[0].share == pytest.approx(truth, abs=0.05)


def test_of_two_that_are_both_to_blame_each_gets_what_it_would_save() -> None:
    found, truth = recorded("two", period_ns=2 * MS)

    assert by_text(found, "loss.item()").share == pytest.approx(truth, abs=0.1)
    assert by_text(found, "ids = spin(14)").share == pytest.approx(1.0, abs=0.05)


def test_waits_after_each_kernel_explain_gaps_that_are_shorter_than_a_sample() -> None:
    found, truth = recorded("every_op", period_ns=2 * MS)

    assert found.causes[0].text == "loss.item()"
    assert found.causes[0].share == pytest.approx(truth, abs=0.2)


def test_a_wait_for_what_has_long_been_done_is_not_blamed() -> None:
    found, _ = recorded("lagged_sync", period_ns=2 * MS)

    assert all(c.share < 0.2 for c in found.causes if c.activity == "synchronising")


# --- written by hand -----------------------------------------------------------------------------


def told(parts: Sequence[Part]) -> HostCauses:
    return host_causes(*made(parts))


def test_a_gap_that_begins_in_a_wait_for_the_gpu_is_that_waits() -> None:
    found = told([(at(12, CALL), 10, [(6, 10)]), (at(11), 10, [(0, 10)])])

    assert (found.causes[0].text, found.causes[0].activity) == ("loss.item()", "synchronising")
    assert found.causes[0].share == pytest.approx(1.0, abs=0.08)
    assert found.causes[0].drained == pytest.approx(found.causes[0].share, abs=0.05)
    # Though the host is launching all the while.
    assert all(c.share < 0.15 for c in found.causes[1:])


@pytest.mark.parametrize("seed", range(3))
def test_gaps_before_which_a_short_wait_was_not_seen_are_that_waits(seed: int) -> None:
    """A wait of 4 ms is missed in every third step: a moment comes every 4 ms."""
    parts: list[Part] = [
        (at(12, CALL), 6, [(0, 6)]),
        (at(13), 3.5, [(0, 3.5)]),
        (at(11), 4, [(0, 4)]),
        (at(14), 3, []),
    ]
    found = host_causes(*made(parts, seed=seed))

    assert by_text(found, "loss.item()").share == pytest.approx(1.0, abs=0.05)
    assert {c.frame.line for c in found.causes} == {11, 14}


def test_what_is_late_because_of_a_wait_is_told_after_it() -> None:
    found = told([(at(13), 10, []), (at(12, CALL), 5, [(0, 5)]), (at(11), 9, [(0, 9)])])

    assert [c.text for c in found.causes] == ["loss.item()", "time.sleep(1)"]
    assert found.causes[0].share < found.causes[1].share


def test_no_wait_gets_more_than_the_host_waited_in_it() -> None:
    found = told([(at(13), 20, []), (at(12, CALL), 5, [(0, 5)]), (at(11), 5, [(0, 5)])])

    assert by_text(found, "time.sleep(1)").share == pytest.approx(1.0, abs=0.03)
    assert by_text(found, "loss.item()").share == pytest.approx(5 / 20, abs=0.06)


def test_a_loader_would_only_be_waited_for_longer_without_the_wait_for_the_gpu() -> None:
    found = told([(at(10, LOADER), 20, []), (at(12, CALL), 5, [(0, 5)]), (at(11), 10, [(0, 10)])])

    assert (found.causes[0].text, found.causes[0].activity) == ("for x in loader:", "loader")
    assert all(c.text != "loss.item()" for c in found.causes)


def test_a_line_at_which_the_host_waits_while_the_gpu_is_busy_is_harmless() -> None:
    found = told(
        [
            (at(20), 12, [(0, 12)]),
            (at(12, CALL), 8, [(0, 8)]),
            (at(13), 10, [(0, 2)]),
            (at(12, CALL), 1, [(0, 1)]),
        ]
    )

    assert [c.text for c in found.causes] == ["time.sleep(1)"]
    assert found.causes[0].share == pytest.approx(1.0, abs=0.03)


def two_lines(text: str, inner: Sequence[Frame]) -> tuple[HostStacks, Samples, IntArray]:
    """
    Two lines with this *text*, of which the GPU is busy for the first third of the first, and a third one;
    samples of these, and the time of each since it all began anew, in ns.
    """
    parts: list[Part] = [
        (at(11, *inner), 15, [(0, 5)]),
        (at(13, *inner), 15, []),
        (at(12, CALL), 10, [(0, 10)]),
    ]
    stacks, samples = made(parts)
    lines = {**stacks.lines, ("/job/train.py", 11): text, ("/job/train.py", 13): text}
    return HostStacks(stacks.processes, lines), samples, samples.start_ns % (40 * MS)


def activities(stacks: HostStacks, samples: Samples) -> list[str]:
    """What is told of each line, by its number."""
    found = host_causes(stacks, samples)
    return [c.activity for c in sorted(found.causes, key=lambda c: c.frame.line)]


def copying(
    text: str, *, idle: float = 0.0, busy: float = 0.0, known: int = 1, inner: Sequence[Frame] = ()
) -> list[str]:
    """
    What two lines with this *text* are told as; in the first a copy engine works so much.

    The GPU is busy for the first third of the first. *known*: one of so many samples tells of the engine.
    """
    stacks, samples, since = two_lines(text, inner)
    engine = np.select([since < 4 * MS, since < 14 * MS], [busy, idle], 0.0)
    engine = np.where(np.arange(len(samples)) % known == 0, engine, np.nan)
    return activities(stacks, samples.with_columns({"ce_active": engine}))


def test_a_line_that_may_copy_does_if_a_copy_engine_works_while_the_gpu_is_idle() -> None:
    text = "x = rows.to(where)"

    assert copying(text, idle=0.12) == ["copying", "python"]
    assert copying(text, idle=0.12, known=3) == ["copying", "python"]
    assert copying(text, idle=0.003) == ["python", "python"]
    assert copying(text, busy=1.0) == ["python", "python"]
    assert copying(text, idle=math.nan, busy=math.nan) == ["python", "python"]


@pytest.mark.parametrize("text", ["x = rows.to(torch.bfloat16)", "x = sorted(rows)"])
def test_a_line_that_cannot_copy_does_not_though_a_copy_engine_works(text: str) -> None:
    assert copying(text, idle=0.12) == ["python", "python"]


def clearing(
    text: str, *, engine: float = 1.0, link: float = 0.0, inner: Sequence[Frame] = (), empty: bool = False
) -> list[str]:
    """
    What two lines with this *text* are told as: the engine clears memory, or copies at the rate *link*, for
    so much of the idle time of the first. *empty*: no sample tells what is written.
    """
    stacks, samples, since = two_lines(text, inner)
    busy = np.where((since >= 5 * MS) & (since < (5 + 10 * engine) * MS), 1.0, 0.0)
    written = busy * samples.duration_s * 4.24e11
    columns = {
        "ce_active": busy,
        "dram_write_bytes": np.full(len(samples), np.nan) if empty else written,
        "dram_read_bytes": written / 250,
        "pcie_rx_bytes": busy * samples.duration_s * (2.5e7 + link),
        "pcie_tx_bytes": 0.0 * busy,
    }
    return activities(stacks, samples.with_columns(columns))


def test_a_line_asks_for_memory_if_the_engine_clears_it_while_the_gpu_is_idle() -> None:
    text = "vivid = grey + 1.2 * (linear - grey)"

    assert clearing(text) == ["allocating", "python"]
    assert clearing(text, engine=0.6) == ["allocating", "python"]
    assert clearing(text, engine=0.3) == ["python", "python"]
    assert clearing(text, link=5e10) == ["python", "python"]
    assert clearing(text, empty=True) == ["python", "python"]


def test_a_line_that_says_what_it_does_does_that_while_memory_is_cleared() -> None:
    assert clearing("x = next(batches)", inner=[LOADER]) == ["loader", "loader"]
    assert clearing("time.sleep(1)") == ["sleeping", "sleeping"]
    assert clearing("x = rows.to(where)") == ["allocating", "python"]


def test_a_line_that_works_on_arrays_asks_for_no_device_memory() -> None:
    array = Frame("/usr/lib/python3/dist-packages/numpy/_core/_methods.py", 40, "_sum")

    assert clearing("x = rows.sum()", inner=[array]) == ["python", "python"]


def test_a_line_that_waits_for_the_loader_does_so_while_others_copy() -> None:
    assert copying("x = next(batches).to(where)", idle=0.12, inner=[LOADER]) == ["loader", "loader"]


@pytest.mark.parametrize(
    ("text", "activity"),
    [
        ("optimizer.step()", "launching"),
        ("self.scaler.step(optimizer)", "launching"),
        ("scheduler.step()", "python"),
        ("x = sorted(rows)", "python"),
        ("loss = optimizer.step().item()", "synchronising"),
    ],
)
def test_an_optimizer_of_the_programs_own_launches_though_only_its_python_is_seen(
    text: str, activity: str
) -> None:
    stacks, samples = made([(at(11), 20, [(0, 5)]), (at(12, CALL), 10, [(2, 10)])])
    lines = {**stacks.lines, ("/job/train.py", 11): text}

    assert host_causes(HostStacks(stacks.processes, lines), samples).causes[0].activity == activity


def test_a_copy_that_the_gpu_waits_for_has_its_idle_time() -> None:
    stacks, samples = made([(at(11), 20, [(0, 5)]), (at(12, CALL), 10, [(2, 10)])])
    told_as = {}
    for text in ("x = rows.to(device)", "x = sorted(rows)"):
        lines = {**stacks.lines, ("/job/train.py", 11): text}
        told_as[text] = host_causes(HostStacks(stacks.processes, lines), samples).causes[0]
    copy, sort = told_as.values()

    assert (copy.activity, sort.activity) == ("copying", "python")
    # That it is late with the next launches, too, comes of either.
    assert copy.share == pytest.approx(1.0, abs=0.03)
    assert sort.share == pytest.approx(1.0, abs=0.03)


def test_launching_is_told_where_nothing_else_explains_the_gaps() -> None:
    found = told([(at(12, CALL), 10, [(4, 10)])])

    assert [(c.text, c.activity) for c in found.causes] == [("y = step(x)", "launching")]


def test_the_interval_holds_the_share() -> None:
    [cause] = told([(at(13), 7, []), (at(12, CALL), 20, [(0, 20)])]).causes

    assert cause.low <= cause.share <= cause.high
    assert cause.high - cause.low < 0.1


def test_the_same_gives_the_same() -> None:
    parts: list[Part] = [(at(13), 7, []), (at(12, CALL), 20, [(0, 20)])]

    assert told(parts) == told(parts)


@pytest.mark.parametrize("off_ms", [-3, -2, -1, 0, 1])
def test_a_clock_that_is_off_by_milliseconds_is_set(off_ms: int) -> None:
    stacks, samples = made([(at(13), 15, []), (at(12, CALL), 5, [(0, 5)]), (at(11), 15, [(0, 15)])])
    [main] = stacks.processes
    late = ProcessStacks(
        main.pid, main.role, main.start_ns, main.end_ns, main.rate_hz, main.slack_ns,
        main.time_ns + off_ms * MS, main.thread, main.stack, main.frames, main.stacks,
    )  # fmt: skip
    found = host_causes(HostStacks((late,), stacks.lines), samples)

    assert found.offset_s * 1e3 == pytest.approx(-off_ms, abs=1.0)


def test_a_busy_gpu_waits_for_nothing() -> None:
    found = told([(at(12, CALL), 10, [(0, 10)]), (at(11), 10, [(0, 10)])])

    assert (found.causes, found.reason) == ((), "The GPU was hardly idle while the host was sampled.")


def test_without_counters_nothing_is_told() -> None:
    stacks, _ = made([(at(13), 15, [])])

    assert host_causes(stacks, Samples.empty(["gr_active"])).reason.startswith("No hardware counters")


def test_without_stacks_the_reason_is_theirs() -> None:
    _, samples = made([(at(13), 15, [(0, 1)])])

    assert host_causes(HostStacks(doubts=("No py-spy.",)), samples).reason == "No py-spy."
    assert host_causes(HostStacks(), samples).reason == "The host was not sampled."


def test_a_few_moments_are_too_few() -> None:
    stacks, samples = made([(at(13), 15, []), (at(12, CALL), 5, [(0, 5)])])
    few = samples.between(0, 200 * MS)

    assert host_causes(stacks, few).reason.startswith("The host was seen too rarely")


def test_moments_stand_for_time_whatever_the_length_of_the_visits() -> None:
    for lengths in ((1.0, 1.0), (2.0, 18.0), (30.0, 70.0), (0.5, 40.0)):
        stacks, _ = made([(at(12), lengths[0], []), (at(13), lengths[1], [])], seconds=20)
        [main] = stacks.processes
        moments = moments_of(visits_of(main, np.arange(2)))
        share = np.bincount(moments.leaf, moments.weight)[0] / moments.count

        assert share == pytest.approx(lengths[0] / sum(lengths), abs=0.04)
        assert moments.count == pytest.approx(20 * HZ, rel=0.05)


def test_lines_of_a_function_that_is_called_in_each_step_are_told_as_the_call() -> None:
    inner = [Frame("/job/text.py", line, "encode") for line in (5, 6)]
    found = told([(at(12, inner[0]), 6, []), (at(12, inner[1]), 6, []), (at(14, CALL), 8, [(0, 8)])])

    assert [(c.frame.file, c.frame.line) for c in found.causes] == [("/job/train.py", 12)]


def test_a_line_of_a_function_that_several_lines_call_is_one_place() -> None:
    """Two calls of `now`, each of whose waits has half of the idle time."""
    wait = Frame("/job/train.py", 20, "now")
    found = told(
        [
            (at(12, wait), 10, [(0, 10)]),
            (at(14), 5, []),
            (at(15, wait), 10, [(0, 10)]),
            (at(16), 5, []),
        ]
    )
    waits = [c for c in found.causes if c.activity == "synchronising"]

    assert [(c.frame, c.frame in c.path) for c in waits] == [(wait, True)]
    assert waits[0].share == pytest.approx(1.0, abs=0.1)
    assert waits[0].waited == pytest.approx(2 / 3, abs=0.05)


def test_a_line_that_has_nearly_all_of_a_call_is_told_itself() -> None:
    inner = [Frame("/job/text.py", line, "encode") for line in (5, 6)]
    found = told([(at(12, inner[0]), 19, []), (at(12, inner[1]), 1, []), (at(14, CALL), 8, [(0, 8)])])

    assert [(c.frame.file, c.frame.line) for c in found.causes] == [("/job/text.py", 5)]
    assert [f.line for f in found.causes[0].path] == [1, 12, 5]


def test_the_thread_that_runs_the_module_is_the_main_one() -> None:
    frames = (Frame("/job/train.py", 1, "<module>"), Frame("/usr/lib/python3.12/threading.py", 1, "wait"))
    process = ProcessStacks(
        pid=1, role="main", start_ns=0, end_ns=9, rate_hz=HZ, slack_ns=0,
        time_ns=np.arange(5), thread=np.array([0, 1, 0, 0, 0]), stack=np.array([1, 0, 1, 1, 1]),
        frames=frames, stacks=((0,), (1,)),
    )  # fmt: skip

    assert main_thread(process) == 1


def test_what_the_workers_do_is_told_where_their_loader_is_waited_for() -> None:
    stacks, samples = made([(at(10, LOADER), 20, []), (at(12, CALL), 5, [(0, 5)])])
    fetch = Frame("/v/site-packages/torch/utils/data/_utils/fetch.py", 3, "fetch")
    decode, collate = (
        Frame("/job/data.py", 7, "__getitem__"),
        Frame("/v/site-packages/torch/utils/data/_utils/collate.py", 3, "default_collate"),
    )
    worker = ProcessStacks(
        pid=2, role="worker", start_ns=0, end_ns=10 * 10**9, rate_hz=10.0, slack_ns=0,
        time_ns=np.array([0, 8 * 10**9]), thread=np.zeros(2, np.int64), stack=np.array([0, 1]),
        frames=(decode, collate, fetch), stacks=((0, 2), (1, 2)),
    )  # fmt: skip
    lines = {**stacks.lines, ("/job/data.py", 7): "Image.open(path)"}
    found = host_causes(HostStacks((*stacks.processes, worker), lines), samples)

    assert [(s.stage, s.frame) for s in found.causes[0].stages] == [("decoding", decode), ("collating", None)]
    assert found.causes[0].stages[0].share == pytest.approx(0.8, abs=0.05)
    assert all(not c.stages for c in found.causes[1:])


def test_where_there_are_no_workers_the_main_process_says_what_its_batches_take() -> None:
    fetch = Frame("/v/site-packages/torch/utils/data/_utils/fetch.py", 3, "fetch")
    collate = Frame("/v/site-packages/torch/utils/data/_utils/collate.py", 3, "default_collate")
    parts: list[Part] = [
        (at(10, fetch, LOADER), 12, []), (at(10, collate, fetch, LOADER), 4, []), (at(12, CALL), 5, [(0, 5)])
    ]  # fmt: skip
    [cause, *_] = told(parts).causes

    assert cause.activity == "loader"
    assert [(s.stage, s.frame) for s in cause.stages] == [("picking", None), ("collating", None)]
    assert cause.stages[0].share == pytest.approx(0.75, abs=0.05)


START = Frame("/usr/lib/python3.12/multiprocessing/process.py", 5, "BaseProcess.start")


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        ([(at(10, START, LOADER), 20, []), (at(10, LOADER), 200, [])], "starting workers"),
        # A launch between: a batch was there by then.
        ([(at(10, START, LOADER), 20, []), (at(12, CALL), 9, [(0, 9)]), (at(10, LOADER), 200, [])], "loader"),
        ([(at(13), 20, []), (at(10, LOADER), 200, [])], "loader"),
    ],
)  # fmt: skip
def test_a_wait_for_a_loader_that_starts_its_workers_is_called_so(begin: list[Part], expected: str) -> None:
    found = told([*begin, *[(at(12, CALL), 60, [(0, 60)])] * 3])

    assert found.causes[0].activity == expected
    assert found.causes[0].frame.line == 10


# --- written by strangers ------------------------------------------------------------------------


def with_stacks(
    frames: Sequence[Frame], stacks: Sequence[tuple[int, ...]], *, slack_ns: int = 4 * MS
) -> HostCauses:
    """A thread that goes from one of *stacks* to the next, on a GPU that is idle for half of the time."""
    time_ns = np.sort(np.random.default_rng(1).integers(0, 10**10, 2_500))
    main = ProcessStacks(
        pid=1, role="main", start_ns=0, end_ns=10**10, rate_hz=HZ, slack_ns=slack_ns,
        time_ns=time_ns, thread=np.zeros(2_500, np.int64), stack=np.arange(2_500) % len(stacks),
        frames=tuple(frames), stacks=tuple(stacks),
    )  # fmt: skip
    edges = np.arange(0, 10**10, 20 * MS)
    return host_causes(HostStacks((main,)), pm(np.sort(np.append(edges, edges + 10 * MS)), period_ns=2 * MS))


FRAMES = [Frame(f"/job/{n}.py", n, f"f{n}") for n in range(5_000)]


def test_a_clock_without_slack_is_as_it_is() -> None:
    found = with_stacks(FRAMES[:2], [(0,), (1,)], slack_ns=0)

    assert found.offset_s == 0
    assert found.causes


def test_a_clock_that_may_be_off_by_seconds_is_not_searched_that_far() -> None:
    assert abs(with_stacks(FRAMES[:2], [(0,), (1,)], slack_ns=10**10 - 1).offset_s) <= 0.02


def test_hundreds_of_deep_stacks_take_no_longer_than_their_frames() -> None:
    stacks = [tuple((k * 97 + n) % 5_000 for n in range(512)) for k in range(400)]
    began = time.process_time()
    found = with_stacks(FRAMES, stacks)

    assert time.process_time() - began < 5.0  # a quarter of a second; it was minutes
    assert found.moments >= 2_000
    assert all(len(cause.path) <= DEEPEST for cause in found.causes)


def test_a_function_that_calls_itself_without_end_is_told_by_its_outermost_calls() -> None:
    found = with_stacks(FRAMES, [(2, *[1] * 400, 0)])

    assert [c.frame for c in found.causes] == [FRAMES[1]]
    assert found.causes[0].path == (FRAMES[0], *[FRAMES[1]] * (DEEPEST - 1))


def test_more_stacks_than_moments_can_have_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks = [(n,) for n in range(5_000)]
    assert with_stacks(FRAMES, stacks[:100]).reason == ""

    monkeypatch.setattr(module, "MOST_MEANINGS", 99)
    assert with_stacks(FRAMES, stacks[:100]).reason == module.TOO_MANY

    monkeypatch.undo()
    monkeypatch.setattr(module, "MOST_FRAMES", 99)
    assert with_stacks(FRAMES, stacks[:100]).reason == module.TOO_MANY


def test_an_hour_has_no_more_blocks_than_can_be_resampled() -> None:
    stacks, samples = made([(at(13), 7, []), (at(12, CALL), 20, [(0, 20)])], seconds=20)
    few = host_causes(stacks, samples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(share_module, "MOST_BLOCKS", 10)
        fewer = host_causes(stacks, samples)

    assert fewer.causes[0].share == pytest.approx(few.causes[0].share)
    assert (fewer.causes[0].low, fewer.causes[0].high) != (few.causes[0].low, few.causes[0].high)


TORCH_SAVE = Frame("/v/site-packages/torch/serialization.py", 5, "_save")
SAVES = Frame("/job/train.py", 21, "save")
WRITES = (Frame("/job/train.py", 13, "write"), TORCH_SAVE, SAVES)


def test_a_checkpoint_of_seconds_is_told_where_it_is_saved_like_a_shorter_one() -> None:
    """Most of it in the program's own write()."""
    written = [(at(12, *WRITES), 90.0, ()), (at(12, TORCH_SAVE, SAVES), 60.0, ())] * 10
    steps = (at(12, CALL), 1500.0, ((0.0, 1500.0),))
    first = host_causes(*made([steps, *written], seconds=15.0)).causes[0]

    assert first.activity == "checkpoint"
    assert first.text == "torch.save(state, Upload())"
    assert first.share > 0.9


def test_of_a_call_of_seconds_that_launches_the_lines_are_told() -> None:
    """It is a loop over steps, though the GPU works for a twentieth of it."""
    sleeps, steps = Frame("/job/train.py", 13, "fit"), Frame("/job/train.py", 12, "fit")
    epoch = [(at(10, sleeps), 145.0, ()), (at(10, CALL, steps), 8.0, ((0.0, 8.0),))] * 10
    first = host_causes(*made([*epoch, (at(11), 20.0, ())], seconds=15.0)).causes[0]

    assert first.text == "time.sleep(1)"


JIT = Frame("/v/site-packages/jax/_src/compiler.py", 5, "backend_compile_and_load")


def averaged(pm: Samples, length_ns: int) -> Samples:
    """Averages over *length_ns* of samples that follow each other."""
    start = np.arange(int(pm.start_ns[0]), int(pm.end_ns[-1]) - length_ns, length_ns)
    summed = np.concatenate([[0.0], np.cumsum(pm.column("gr_active") * pm.duration_s)])
    edges = np.append(pm.start_ns, pm.end_ns[-1])
    upto = np.interp(np.append(start, start[-1] + length_ns), edges, summed)
    return Samples(start, start + length_ns, {"gr_active": np.diff(upto) / (length_ns / 1e9)})


def test_averages_tell_of_a_gpu_that_stands_still_for_longer_than_they_last() -> None:
    stacks, pm = made([(at(12, JIT, CALL), 1800.0, ()), (at(12, CALL), 700.0, ((0.0, 700.0),))])
    found = causes_by_averages(stacks, averaged(pm, 500 * MS))

    assert found is not None
    first = found.causes[0]
    assert (first.text, first.activity) == ("y = step(x)", "compiling")
    assert first.share > 0.9
    assert found.idle == pytest.approx(0.72, abs=0.05)


def test_averages_tell_nothing_of_shorter_gaps() -> None:
    stacks, pm = made([(at(13), 50.0, ()), (at(12, CALL), 50.0, ((0.0, 50.0),))])

    assert causes_by_averages(stacks, averaged(pm, 500 * MS)) is None


def test_what_the_gpu_does_once_it_was_idle_is_tried_out_by_the_compiler() -> None:
    """It works off 200 ms, rests for 300 ms, and tries out for 500 ms; then it works for the program."""
    compiles = (at(12, JIT, CALL), 1000.0, ((0.0, 200.0), (500.0, 1000.0)))
    stacks, pm = made([compiles, (at(12, CALL), 1000.0, ((0.0, 1000.0),))])
    least, most = host_causes(stacks, pm).causes[0].own_work

    assert least == pytest.approx(0.5 / 1.7, abs=0.02)
    assert most == pytest.approx(0.7 / 1.7, abs=0.02)


def test_what_the_gpu_does_while_the_host_is_elsewhere_is_no_compilers() -> None:
    stacks, pm = made([(at(13), 500.0, ()), (at(12, CALL), 500.0, ((0.0, 500.0),))])

    assert host_causes(stacks, pm).causes[0].own_work == (0.0, 0.0)
