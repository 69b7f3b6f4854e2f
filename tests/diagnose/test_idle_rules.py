"""Rules for an idle GPU where its queue was seen: programs whose reason is known, and what would decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from perfzero.diagnose.evidence import collect
from perfzero.diagnose.judge import judge
from perfzero.diagnose.rules import idle, run_rules
from perfzero.diagnose.rules._rivals import CAUSES, DECIDES, with_rivals
from perfzero.diagnose.thresholds import UNDECIDED
from perfzero.diagnose.verdict import Finding
from perfzero.sources.synthetic import Phase, observe
from perfzero.values import Observation, Samples

KERNEL = {"gr_active": 1.0, "sm_active": 0.9, "dram_read_bytes": 2e12}
AHEAD = {"queue_empty": 0.04, "queue_semaphore": 0.96}
LATE = {"queue_empty": 0.5, "queue_semaphore": 0.0}  # the front end is at its commands
EMPTY = {"queue_empty": 1.0}
HOST_FUNCTION = {"queue_empty": 0.81, "queue_semaphore": 0.19}
TINY = {"gr_active": 1.0, "sm_active": 0.05, "launches": 250e3}


def gaps(
    *, queue: Mapping[str, float], idle: Mapping[str, float] = EMPTY, main: float = 1.0, **host: float
) -> Observation:
    """Kernels of 70 µs and gaps of 50 µs."""
    return observe(
        [Phase(70e-6, {**KERNEL, "launches": 1 / 70e-6, **queue}), Phase(50e-6, dict(idle))],
        host={"host_main_cpu": main, **host},
    )


def tiny(*, queue: Mapping[str, float], main: float = 1.0, **host: float) -> Observation:
    """Kernels of 4 µs and gaps of 22 µs."""
    return observe(
        [Phase(4e-6, {**TINY, **queue}), Phase(22e-6, EMPTY)], host={"host_main_cpu": main, **host}
    )


def late_in_part(*, elsewhere: float) -> Observation:
    """Half of the time tiny kernels are launched too late, else long ones run for *elsewhere* of the time."""
    late = [Phase(4e-6, {**TINY, **LATE}), Phase(22e-6, EMPTY)] * 400
    long = {**KERNEL, "launches": 20e3, **LATE}
    rest = [Phase(100e-6 * elsewhere, long), Phase(100e-6 * (1 - elsewhere), EMPTY)] * 104
    return observe([*late, *rest], host={"host_main_cpu": 0.6, "host_tree_cpu": 1.0})


def rules(observation: Observation) -> dict[str, Finding]:
    return {f.rule: f for f in run_rules(collect(observation))}


def test_launches_that_come_too_late_are_proved_by_the_queue():
    found = idle.launch_bound(collect(tiny(queue=LATE)))

    assert found is not None
    assert found.confidence > 0.9
    assert "queue was empty" in found.because[0]
    assert any("comes too late" in line for line in found.because)


def test_a_backward_pass_in_a_thread_of_its_own_leaves_a_host_that_never_rests():
    found = rules(tiny(queue=LATE, main=0.54, host_tree_cpu=0.99))

    assert found["launch_bound"].share == pytest.approx(22 / 26, abs=0.02)
    assert any("main thread 54 % of a core, the program's threads in turns 99 %" in line
               for line in found["launch_bound"].because)  # fmt: skip
    assert "sync_bound" not in found
    assert "host_starved" not in found


@pytest.mark.parametrize("together", [0.6, 3.0], ids=["all of them rest", "others work at once"])
def test_a_main_thread_that_rests_beside_threads_which_do_not_stand_in_for_it_is_not_the_limit(together):
    found = rules(tiny(queue=LATE, main=0.54, host_tree_cpu=together))

    assert found.get("launch_bound") is None or found["launch_bound"].gain.high < 2  # of a part only


@pytest.mark.parametrize("queue", [LATE, {}], ids=["the queue is seen", "it is not"])
def test_threads_that_may_as_well_work_at_once_make_nothing_surer_than_a_host_that_nobody_saw(queue):
    """Half a core in the main thread, and half in one that decodes, look like an autograd thread's turns."""
    alone, turns, unseen = (
        idle.launch_bound(collect(tiny(queue=queue, main=main, **host)))
        for main, host in ((0.97, {}), (0.5, {"host_tree_cpu": 0.95}), (math.nan, {}))
    )

    assert alone is not None
    assert turns is not None
    assert unseen is not None
    assert turns.confidence == pytest.approx(unseen.confidence)
    assert turns.confidence < alone.confidence


def test_many_threads_beside_a_main_thread_that_sleeps_are_no_host_that_never_rests():
    found = rules(tiny(queue=LATE, main=0.12, host_tree_cpu=0.96))

    assert found.get("launch_bound") is None or found["launch_bound"].gain.high < 2  # of a part only


def test_launches_are_late_throughout_where_the_gpu_idles_beside_the_worst_part_as_well():
    throughout, in_part = (rules(late_in_part(elsewhere=busy))["launch_bound"] for busy in (0.3, 0.9))

    assert throughout.share == pytest.approx((22 / 26 + 0.7) / 2, abs=0.03)
    assert in_part.share == pytest.approx(22 / 26 / 2, abs=0.03)
    assert "in one part" in in_part.because[0]


def test_of_kernels_shorter_than_any_launch_it_is_told_what_it_is_if_the_host_launches():
    found = idle.sync_bound(collect(tiny(queue=AHEAD)))

    assert found is not None
    assert found.launching is not None
    assert found.launching.rule == "launch_bound"
    assert any("to launch one takes a host 14 µs and more" in line for line in found.launching.because)


def test_a_host_that_launches_faster_than_python_can_is_told_with_its_own_pace():
    """Loops over tensors within one operator, in C++."""
    cycle = [Phase(4e-6, {**TINY, **AHEAD}), Phase(6e-6, EMPTY)]
    found = idle.sync_bound(collect(observe(cycle, host={"host_main_cpu": 1.0})))

    assert found is not None
    assert found.launching is not None
    assert any("the host launches one in 10 µs" in line for line in found.launching.because)


@pytest.mark.parametrize(
    "program",
    [gaps(queue=AHEAD), tiny(queue=AHEAD, main=0.3)],
    ids=["kernels that hide their launches", "a host that rests"],
)
def test_it_cannot_be_launching_with(program):
    found = [f.launching for f in run_rules(collect(program)) if f.rule in ("sync_bound", "host_starved")]

    assert found
    assert not any(found)


def test_tiny_kernels_whose_launches_come_in_time_are_not_launch_bound():
    """A host that launches some kernels at a time and reads back after them."""
    e = collect(tiny(queue=AHEAD))

    assert idle.launch_bound(e) is None
    found = idle.sync_bound(e)
    assert found is not None
    assert found.confidence > 0.8


def test_tiny_kernels_whose_launches_come_in_time_mostly_may_wait_for_results_or_for_launches():
    found = idle.sync_bound(collect(tiny(queue={"queue_empty": 0.3, "queue_semaphore": 0.7})))

    assert found is not None
    assert found.confidence < 0.5
    assert found.launching is not None


def test_a_host_that_runs_ahead_and_then_waits_is_sure_to_wait_for_results():
    found = idle.sync_bound(collect(gaps(queue=AHEAD)))

    assert found is not None
    assert found.confidence == pytest.approx(0.9, abs=0.01)
    assert any("launches come in time" in line for line in found.because)


def test_a_host_that_never_runs_ahead_is_not_said_to_wait_for_results():
    e = collect(gaps(queue=LATE))

    assert idle.sync_bound(e) is None
    found = idle.host_starved(e)
    assert found is not None
    assert any("when the last kernel has ended" in line for line in found.because)


def test_a_queue_that_waits_beside_no_kernel_and_no_copy_is_told():
    found = rules(
        observe([Phase(0.006, {**KERNEL, **AHEAD, "launches": 500.0}), Phase(0.004, HOST_FUNCTION)])
    )

    assert found["queue_wait"].share == pytest.approx(0.4, abs=0.02)
    assert found["queue_wait"].severity == "bad"
    assert "host_starved" not in found  # nothing is left for it


@pytest.mark.parametrize(
    "pause",
    [EMPTY, {"queue_empty": 0.91, "queue_semaphore": 0.09, "ce_active": 1.0, "pcie_rx_bytes": 5.7e10}],
    ids=["nothing submitted", "a copy"],
)
def test_a_queue_that_is_empty_or_waits_for_a_copy_is_no_wait_in_the_queue(pause):
    assert "queue_wait" not in rules(
        observe([Phase(0.006, {**KERNEL, **AHEAD, "launches": 500.0}), Phase(0.004, pause)])
    )


def test_waits_in_the_queue_below_a_tenth_of_the_time_are_not_told():
    assert "queue_wait" not in rules(
        observe([Phase(0.0191, {**KERNEL, **AHEAD, "launches": 500.0}), Phase(0.0019, HOST_FUNCTION)])
    )


def test_what_waits_in_the_queue_is_not_counted_again_as_a_starved_host():
    found = rules(
        observe(
            [
                Phase(0.010, {**KERNEL, **AHEAD, "launches": 500.0}),
                Phase(0.004, HOST_FUNCTION),
                Phase(0.006, EMPTY),
            ]
        )
    )

    assert found["queue_wait"].share == pytest.approx(0.2, abs=0.02)
    assert found["host_starved"].share == pytest.approx(0.3, abs=0.02)


def test_waiting_for_data_names_the_empty_queue_before_the_loaders():
    starved = observe(
        [Phase(0.02, {**KERNEL, **AHEAD, "launches": 700.0}), Phase(0.08, EMPTY)],
        host={"host_main_cpu": 0.2, "host_workers": 4.0, "host_worker_cpu": 1.0},
    )

    found = idle.input_starved(collect(starved))

    assert found is not None
    assert "the host had submitted nothing" in found.because[0]


def test_without_the_queue_nothing_is_said_of_it(program):
    for name in ("tiny_kernels", "synchronising", "sleeping", "input_starved_resnet50"):
        for found in run_rules(collect(program(name))):
            assert not any("queue" in line for line in found.because)


@pytest.mark.parametrize(
    ("host", "remedy"),
    [({"host_throttled": 0.3}, "CPU quota"), ({"host_runqueue_wait": 0.4}, "cores of its own")],
)
def test_a_host_that_is_held_back_gets_the_remedy_for_that_first(program, host, remedy):
    found = idle.host_starved(collect(program("sleeping", host=host)))

    assert found is not None
    assert remedy in found.remedies[0].text
    assert "held back" in found.title


def after_beats(beats: int, pause_s: float, *, seconds: float = 40.0, **host: float) -> Observation:
    """A pause after so many beats of 30 ms, half of it work that writes."""
    update = {"gr_active": 1.0, "sm_active": 0.5, "dram_read_bytes": 1e12, "dram_write_bytes": 1e12}
    return observe(
        [*[Phase(0.025, {**KERNEL, "tensor_active": 0.6}), Phase(0.005, update)] * beats, Phase(pause_s)],
        seconds=seconds,
        every_s=2.3,
        host={"host_main_cpu": 0.95, **host},
        noise=0.02,
        zoom=False,
    )


@pytest.mark.parametrize("seconds", [40.0, 120.0])
@pytest.mark.parametrize(("beats", "pause_s", "sure"), [(16, 0.4, False), (7, 0.5, True)])
def test_pauses_after_many_beats_may_be_stalls_and_after_a_few_are_waits_in_each_step(
    beats, pause_s, sure, seconds
):
    """Sixteen beats may be a step of gradient accumulation, or as many steps."""
    found = idle.host_starved(collect(after_beats(beats, pause_s, seconds=seconds)))

    assert found is not None
    assert (found.confidence >= 0.5) == sure
    assert ("lies in pauses of 200 ms or more" in found.because[0]) != sure


@pytest.mark.parametrize("seconds", [40.0, 120.0])
def test_a_host_that_is_late_in_each_long_step_is_sure_to_be_however_long_it_is_watched(seconds):
    """Steps of a second, 0.3 s of which the GPU waits; one a window."""
    update = {"gr_active": 1.0, "sm_active": 0.5, "dram_read_bytes": 1e12, "dram_write_bytes": 1e12}
    step = [Phase(0.5, KERNEL), Phase(0.2, update), Phase(0.3)]
    seen = observe(step, seconds=seconds, every_s=7.3, host={"host_main_cpu": 0.95}, noise=0.02, zoom=False)
    found = idle.host_starved(collect(seen))

    assert found is not None
    assert found.confidence == pytest.approx(0.9, abs=0.02)


def test_pauses_that_hold_half_of_the_idle_time_are_doubted_too():
    """Sixteen beats with gaps of their own, which hold the other half."""
    beat = [
        Phase(0.02, {**KERNEL, "tensor_active": 0.6}),
        Phase(0.02),
        Phase(0.005, {**KERNEL, "sm_active": 0.4}),
    ]
    seen = observe([*beat * 16, Phase(0.4)], seconds=40.0, every_s=2.3, noise=0.02, zoom=False)
    e = replace(collect(seen), paused=0.5)
    found = idle.host_starved(e)

    assert found is not None
    assert found.confidence < 0.5


LOADERS = {"host_main_cpu": 0.15, "host_workers": 8.0, "host_worker_cpu": 0.95, "host_cpu_busy": 0.5}


def test_a_wait_after_many_steps_is_for_data_where_loaders_never_rest():
    found = rules(after_beats(40, 0.9, **LOADERS))

    assert "periodic_stall" not in found
    assert found["input_starved"].share == pytest.approx(0.9 / 2.1, abs=0.05)


@pytest.mark.parametrize(
    "host",
    [
        {**LOADERS, "host_worker_cpu": 0.55},
        {**LOADERS, "host_main_cpu": 0.9},
        {"host_main_cpu": 0.15, "host_io_wait": 0.3, "host_disk_write_bytes": 2e9},
    ],
    ids=["loaders that may rest in it", "a main thread at work", "a disk that is written to"],
)
def test_a_wait_after_many_steps_is_a_stall_with(host):
    found = rules(after_beats(40, 0.9, **host))

    assert found["periodic_stall"].share == pytest.approx(0.9 / 2.1, abs=0.05)
    assert "input_starved" not in found


def test_a_wait_after_many_steps_in_which_a_disk_is_read_is_for_data():
    found = rules(after_beats(40, 0.9, host_main_cpu=0.15, host_io_wait=0.3, host_disk_read_bytes=2e9))

    assert "periodic_stall" not in found
    assert "disk" in found["input_starved"].gain.assumption
    assert "cores" not in found["input_starved"].gain.assumption


def test_a_host_that_nobody_holds_back_is_looked_at_first(program):
    found = idle.host_starved(collect(program("sleeping")))

    assert found is not None
    assert "py-spy" in found.remedies[0].text
    assert "held back" not in found.title


def test_a_quota_beside_loaders_at_work_leaves_two_causes_and_says_what_decides(program):
    found = rules(program("input_starved_resnet50", host={"host_throttled": 0.3}))

    assert found["input_starved"].undecided.startswith("A host held back")
    assert "without the quota" in found["input_starved"].undecided
    assert found["host_starved"].undecided.startswith("Waiting for data")


def test_loaders_at_work_without_a_quota_have_no_rival(program):
    found = rules(program("input_starved_resnet50"))

    assert "host_starved" not in found
    assert found["input_starved"].undecided == ""


def test_tiny_kernels_of_an_unseen_host_and_an_unseen_queue_may_have_either_cause(program):
    hidden = replace(program("tiny_kernels"), host=Samples.empty())

    found = rules(hidden)

    assert "queue_semaphore decides" in found["launch_bound"].undecided
    assert found["sync_bound"].undecided.startswith("Launches that come too late")


def test_a_seen_host_that_never_rests_leaves_no_rival(program):
    found = rules(program("tiny_kernels"))

    assert "sync_bound" not in found
    assert found["launch_bound"].undecided == ""


@pytest.mark.parametrize(("apart", "told"), [(0.19, True), (0.21, False)])
def test_a_rival_comes_near_in_confidence(apart, told):
    one = Finding("sync_bound", "", "bad", 0.5, 0.6, ())
    other = Finding("host_starved", "", "bad", 0.5, 0.6 + apart, ())

    assert bool(with_rivals([one, other], idle=0.5)[0].undecided) is told
    assert UNDECIDED.value == 0.2


@pytest.mark.parametrize(("idle", "told"), [(0.5, True), (0.9, True), (1.0, False)])
def test_two_that_fit_side_by_side_into_the_idle_time_are_no_rivals(idle, told):
    one = Finding("launch_bound", "", "bad", 0.5, 0.6, ())
    other = Finding("host_starved", "", "bad", 0.5, 0.6, ())

    assert bool(with_rivals([one, other], idle=idle)[0].undecided) is told


def test_findings_of_other_time_are_no_rivals():
    one = Finding("sync_bound", "", "bad", 0.5, 0.6, ())
    other = Finding("memory_bound", "", "bad", 0.5, 0.6, ())

    assert all(f.undecided == "" for f in with_rivals([one, other], idle=0.5))


def test_what_asks_for_nothing_is_no_rival():
    one = Finding("sync_bound", "", "bad", 0.5, 0.6, ())
    other = Finding("host_starved", "", "info", 0.5, 0.6, ())

    assert all(f.undecided == "" for f in with_rivals([one, other], idle=0.5))


def test_every_rival_has_a_name_in_words():
    assert {name for pair in DECIDES for name in pair} == set(CAUSES)


def test_the_verdict_of_a_program_that_never_waits_is_not_changed_by_its_queue(program):
    seen = program("fp32_gemm")
    queue = {"queue_empty": np.full(len(seen.pm), 0.05), "queue_semaphore": np.full(len(seen.pm), 0.95)}

    assert judge(replace(seen, pm=seen.pm.with_columns(queue))).verdict == judge(seen).verdict
