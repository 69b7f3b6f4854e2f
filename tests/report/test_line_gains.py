"""What remedies gain where stacks say which line the GPU waits for."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import cast, get_args

import pytest

from perfzero.attribute.causes import Cause, HostCauses, StageShare
from perfzero.attribute.host_activity import Activity, Stage
from perfzero.attribute.parts import Condition
from perfzero.attribute.updating import Way
from perfzero.diagnose.remedies import OFFERS, SEEN_ONLY
from perfzero.diagnose.verdict import (
    TIME_CLASSES,
    Diagnosis,
    Fact,
    Finding,
    Gain,
    Remedy,
    StepMap,
    StepPhase,
    TimeClass,
    WorkKind,
)
from perfzero.report.line_advice import ADVICE
from perfzero.report.line_gains import (
    PACE,
    TAKEN,
    Update,
    gain_beside,
    limit_without_update,
    line_gain,
)
from perfzero.report.line_remedies import ANSWERS, IDLE_POWER, with_lines
from perfzero.stacks import Frame
from perfzero.words.said import say

READ, AT_LINE, BESIDE = say("try.read_less_there"), say("try.less_at_line"), say("try.overlap_line")
BY_COUNTERS = Gain(1.1, 9.0, "by counters")


def cause(activity: Activity, share: float = 1.0, low: float | None = None, **stages: float) -> Cause:
    frame = Frame("/home/me/train.py", 41, "main")
    told = tuple(StageShare(s, stages[s], None, "") for s in get_args(Stage) if s in stages)
    least = share if low is None else low
    return Cause(activity, frame, "loss.item()", (frame,), share, least, share, 0.0, told)


def finding(diagnosis: Diagnosis, rule: str, idle: float, *remedies: Remedy) -> Finding:
    assert diagnosis.verdict is not None
    return replace(diagnosis.verdict, rule=rule, share=idle, gain=BY_COUNTERS, remedies=remedies)


def gain(diagnosis: Diagnosis, remedy: str, *causes: Cause, rule: str = "host_starved", idle: float) -> Gain:
    found = line_gain(remedy, finding(diagnosis, rule, idle), causes)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("idle", "achieved", "activity", "remedy"),
    [
        (0.13, 22.7 / 20.7, "synchronising", READ),
        (0.11, 21.9 / 21.5, "copying", READ),
        (0.16, 23.7 / 21.2, "synchronising", READ),
        (0.71, 71.2 / 21.4, "garbage collection", say("try.collect_rarely")),
        (0.68, 59.6 / 21.5, "python", AT_LINE),
        (0.53, 40.9 / 21.1, "python", AT_LINE),
        (0.38, 31.9 / 21.4, "python", AT_LINE),
        (0.95, 408.6 / 20.6, "compiling", say("try.stop_compiling")),
    ],
)
def test_what_was_achieved_on_an_h200_lies_inside(
    starved: Diagnosis, idle: float, achieved: float, activity: Activity, remedy: str
) -> None:
    """birch, cedar, larch, maple, pine, willow, yew and spruce of docs/host.md, whose line was taken out."""
    found = gain(starved, remedy, cause(activity), idle=idle)

    assert found.low <= achieved <= found.high
    assert found.high / found.low < 1.75


def test_what_a_compiler_tries_out_on_the_gpu_goes_with_it(starved: Diagnosis) -> None:
    """XLA, for each length anew, on an H200: idle for 37 %, 9.7 times as fast with a few lengths."""
    stop, compiles = say("try.stop_compiling"), cause("compiling", 0.98, 0.84)
    tries = replace(compiles, own_work=(0.78, 0.89))
    without, with_trials = (gain(starved, stop, c, idle=0.37) for c in (compiles, tries))

    assert without.high < 2.0
    assert with_trials.low <= 9.7 <= with_trials.high
    assert with_trials.low > without.high
    assert gain(starved, AT_LINE, tries, idle=0.37) == gain(starved, AT_LINE, compiles, idle=0.37)


def test_beside_stalls_a_compiler_has_no_more_work_than_there_is(starved: Diagnosis) -> None:
    """Stalls of 30 % of the time, and 30 % of other idle time: the GPU works for 40 %, all of it trials."""
    stop, tries = say("try.stop_compiling"), replace(cause("compiling"), own_work=(1.0, 1.0))
    found = line_gain(stop, finding(starved, "periodic_stall", 0.3), [tries], idle=0.6)

    assert found is not None
    assert found.high == pytest.approx(1 / (PACE[0] * 0.3))


def test_what_is_not_tried_out_takes_no_energy(starved: Diagnosis) -> None:
    """A board at its power limit can do the work that is left faster, once the trials are gone."""
    stop, tries = say("try.stop_compiling"), replace(cause("compiling"), own_work=(0.75, 0.75))
    found = [
        line_gain(stop, finding(starved, "host_starved", 0.5), [c], allowed=1.5)
        for c in (cause("compiling"), tries)
    ]

    assert [g.low for g in found if g] == [pytest.approx(1.5), pytest.approx(6.0)]


def test_host_and_gpu_in_turns_gain_no_more_than_two_by_working_at_once(starved: Diagnosis) -> None:
    half = gain(starved, BESIDE, cause("python"), idle=0.5)
    most = gain(starved, BESIDE, cause("python"), idle=0.8)

    assert half.high == pytest.approx(2 / PACE[0])
    assert most.high == pytest.approx(1 / 0.8 / PACE[0])
    assert gain(starved, AT_LINE, cause("python"), idle=0.8).low > most.high


def of_turns(diagnosis: Diagnosis, remedy: str, *, waited: float, allowed: float = inf) -> Gain:
    wait, work = replace(cause("synchronising", 0.7, low=0.2), waited=waited), cause("python", 1.0)
    found = line_gain(remedy, finding(diagnosis, "sync_bound", 0.4), [wait], late=work, allowed=allowed)
    assert found is not None
    return found


def test_without_the_wait_that_puts_them_in_turns_the_slower_of_host_and_gpu_sets_the_pace(
    starved: Diagnosis,
) -> None:
    """T = H + G -> max(H, G): a GPU that works for 0.6 of the time, a host that does for 0.55 or 0.8."""
    faster, slower = (of_turns(starved, READ, waited=waited) for waited in (0.45, 0.2))

    assert (faster.low, faster.high) == pytest.approx((1 / (PACE[1] * 0.6), 1 / (PACE[0] * 0.6)))
    assert (slower.low, slower.high) == pytest.approx((1.0, 1 / (PACE[0] * 0.8)))
    assert faster.assumption == say("gain.in_turns")


def test_work_that_is_done_beside_the_gpus_instead_of_behind_a_wait_gains_the_same(
    starved: Diagnosis,
) -> None:
    """All that the host does then goes on at once with the GPU's work, and not only the line."""
    for waited in (0.45, 0.2):
        assert of_turns(starved, BESIDE, waited=waited) == of_turns(starved, READ, waited=waited)


def test_clouds_that_were_cropped_in_turns_with_the_gpu_were_cropped_beside_it_on_an_h200(
    starved: Diagnosis,
) -> None:
    """c06 of docs/zoo.md: its host waits for 0.30 of the time, and works for all the rest; 1.54 times."""
    wait = replace(cause("synchronising", 0.455, low=0.39), waited=0.297)
    work = cause("python", 0.86, low=0.80)
    found = line_gain(
        say("try.leave_out_wait"), finding(starved, "sync_bound", 0.597), [wait], late=work, idle=0.597
    )

    assert found is not None
    assert found.low <= 1.54 <= found.high
    assert found.high / found.low < 1.6


def test_a_read_without_work_behind_it_gains_its_own_share(starved: Diagnosis) -> None:
    alone = gain(starved, READ, cause("synchronising", 0.7, low=0.2), rule="sync_bound", idle=0.4)

    assert alone.high < of_turns(starved, READ, waited=0.45).high
    assert alone.low < of_turns(starved, READ, waited=0.45).low


def test_lines_that_may_read_beside_one_that_does_add_to_what_it_gains_at_most(starved: Diagnosis) -> None:
    """Of 0.5 the line has 0.7: 0.65 is left, or without 0.1 more 0.55, or the GPU's own 0.5 at least."""
    alone, beside, more = (
        gain(starved, READ, replace(cause("synchronising", 0.7), may_wait=may), rule="sync_bound", idle=0.5)
        for may in (0.0, 0.1, 0.4)
    )

    assert alone.low == beside.low == more.low
    assert [g.high for g in (alone, beside, more)] == pytest.approx(
        [1 / (PACE[0] * left) for left in (0.65, 0.55, 0.5)]
    )


def test_what_three_reads_a_parameter_gained_on_an_h200_lies_inside(starved: Diagnosis) -> None:
    """c03 of docs/zoo.md: a line with 0.68 of 0.51, and 0.19 of the time at one that may read; 2.16 times."""
    reads = replace(cause("synchronising", 0.68), may_wait=0.193)
    found = gain(starved, READ, reads, rule="sync_bound", idle=0.51)

    assert found.low <= 2.16 <= found.high
    assert found.high / found.low < 2.0


def test_the_batch_that_was_made_in_turns_was_made_beside_the_gpus_work_on_an_h200(
    starved: Diagnosis,
) -> None:
    """c01 of docs/zoo.md: idle 0.40, its host waiting 0.43, and 586 W of 700; without the read 1.28 times."""
    wait = replace(cause("synchronising", 0.72, low=0.24), waited=0.425)
    work = cause("python", 0.97, low=0.94)
    found = line_gain(READ, finding(starved, "sync_bound", 0.3996), [wait], late=work, allowed=700 / 555)

    assert found is not None
    assert found.low <= 1.28 <= found.high
    assert found.high / found.low < 1.6


def test_a_board_at_its_power_limit_does_not_promise_more_than_its_energy_allows_at_least(
    starved: Diagnosis,
) -> None:
    free, held = (of_turns(starved, READ, waited=0.45, allowed=allowed) for allowed in (inf, 1.1))

    assert held.low == pytest.approx(1.1)
    assert held.high == free.high
    assert "power limit" in held.assumption
    assert of_turns(starved, READ, waited=0.45, allowed=3.0) == free


@pytest.mark.parametrize(
    ("capped", "low"), [(0.9, 700 / (650 - 0.4 * IDLE_POWER * 700)), (0.0, 1 / (PACE[1] * 0.6))]
)
def test_the_limit_counts_where_the_board_is_seen_at_it(
    starved: Diagnosis, capped: float, low: float
) -> None:
    read = Remedy(say("try.read_less"))
    verdict = finding(starved, "sync_bound", 0.4, read)
    facts = {
        "power": Fact("power", 650.0, "watts", "ok"),
        "capped_power": Fact("capped_power", capped, "ratio", "ok"),
    }
    classes = {**dict.fromkeys(starved.shares, 0.0), "idle": 0.4, "latency": 0.6}
    gpu = replace(starved.gpu, power_limit_w=700.0)
    before = replace(
        starved,
        gpu=gpu,
        verdict=verdict,
        findings=(verdict,),
        shares=classes,
        facts={**starved.facts, **facts},
    )
    after = with_lines(before, HostCauses((cause("synchronising"),), idle=0.4)).verdict

    assert after is not None
    assert after.gain is not None
    assert after.gain.low == pytest.approx(low)


def test_what_the_line_copies_is_its_too(starved: Diagnosis) -> None:
    """The finding leaves the time of copies to another; without the line they are gone as well."""
    found = finding(starved, "host_starved", 0.6)
    alone = line_gain(AT_LINE, found, [cause("python")])
    whole = line_gain(AT_LINE, found, [cause("python")], idle=0.8)

    assert alone is not None
    assert whole is not None
    assert (alone.high, whole.high) == pytest.approx((1 / 0.4 / PACE[0], 1 / 0.2 / PACE[0]))


def test_without_timing_the_gpu_has_less_to_do_as_well(starved: Diagnosis) -> None:
    both = cause("launching", 0.6), cause("launching", 0.4)
    found = gain(starved, say("try.no_timing"), *both, idle=0.5)

    assert found.low < 1.3
    assert found.high == pytest.approx(1 / (0.5 * 0.4) / PACE[0])


def test_reads_go_together_and_other_lines_do_not(starved: Diagnosis) -> None:
    two = cause("synchronising", 0.5), cause("synchronising", 0.4)
    ways = cause("python", 0.5), cause("python", 0.4)

    assert gain(starved, READ, *two, idle=0.6).high == pytest.approx(1 / (1 - 0.54) / PACE[0])
    assert gain(starved, AT_LINE, *ways, idle=0.6).high == pytest.approx(1 / (1 - 0.3) / PACE[0])


def test_what_the_loader_has_left_to_do_stops_it(starved: Diagnosis) -> None:
    """Of a batch that takes all the time, reading is half: without it the loader takes half of that."""
    loader = cause("loader", reading=0.5, decoding=0.5)
    found = gain(starved, say("try.keep_in_memory"), loader, rule="input_starved", idle=0.9)
    all_of_it = gain(starved, say("try.keep_in_memory"), cause("loader", reading=1.0), idle=0.9)

    assert found.low < 2 < found.high < 2.6
    assert all_of_it.high > 10


@pytest.mark.parametrize("achieved", [2.0, 2.35, 3.0])
def test_less_per_sample_is_half_to_a_quarter(starved: Diagnosis, achieved: float) -> None:
    loader = cause("loader", decoding=0.8, augmenting=0.15)
    found = gain(starved, say("try.less_per_sample"), loader, rule="input_starved", idle=0.9)

    assert found.low <= achieved <= found.high


def test_an_interval_of_what_comes_twice_does_not_begin_at_nothing(starved: Diagnosis) -> None:
    rare = gain(starved, say("try.stop_compiling"), cause("compiling", 1.0, low=0.0), idle=0.7)

    assert rare.low == pytest.approx(1 / PACE[1] / (1 - 0.56))


def test_stalls_are_the_lines_whatever_else_is_idle(starved: Diagnosis) -> None:
    save = cause("checkpoint", 0.6)
    found = gain(starved, say("try.checkpoint_thread"), save, rule="periodic_stall", idle=0.5)

    assert found.high == pytest.approx(2 / PACE[0])


@pytest.mark.parametrize(
    ("remedy", "rule", "activity"),
    [
        (AT_LINE, "host_starved", "launching"),
        (say("try.graph"), "host_starved", "python"),
        (AT_LINE, "memory_bound", "python"),
        (say("try.local_disk"), "input_starved", "loader"),
    ],
)
def test_nothing_is_told_of_launches_of_other_remedies_and_of_what_was_not_seen(
    starved: Diagnosis, remedy: str, rule: str, activity: Activity
) -> None:
    assert line_gain(remedy, finding(starved, rule, 0.5), [cause(activity)]) is None


@pytest.mark.parametrize(
    ("idle", "share", "update", "expected"),
    [
        (0.76, 0.96, Update(0.125, (0.0, 0.15)), 7.5),  # 1000 tensors, one at a time: 112 ms, 14 of them left
        (0.92, 0.52, Update(0.03, (0.25, 0.6)), 1.4),  # 960 in lists: 7.5 of 14.5 ms, of which 3.4 are left
        (0.85, 0.44, Update(0.03, (0.25, 0.6)), 1.5),
    ],
)
def test_an_optimizer_of_few_kernels_gains_its_line_and_its_kernels(
    starved: Diagnosis, idle: float, share: float, update: Update, expected: float
) -> None:
    step = replace(cause("launching", share), text="optimizer.step()")
    rest = replace(cause("launching", 1 - share), text="loss.backward()")
    few = say("try.fused_optimizer_step")
    found = line_gain(few, finding(starved, "launch_bound", idle), [step, rest], update=update)

    assert found is not None
    assert found.low <= expected <= found.high
    assert line_gain(few, finding(starved, "launch_bound", idle), [rest], update=update) is None


def test_what_the_host_launches_while_kernels_run_is_its_time_too(starved: Diagnosis) -> None:
    """
    d04 of docs/zoo.md: 468 groups of an optimizer, 0.14 of all time beside kernels. In 20 groups: 1.51 times.
    """
    step = replace(cause("launching", 0.33, 0.30), text="optimizer.step()", high=0.36)
    late, few = finding(starved, "launch_bound", 0.63), say("try.fused_optimizer_step")
    found, beside = (line_gain(few, late, [replace(step, waited=waited)]) for waited in (0.0, 0.144))

    assert found is not None
    assert beside is not None
    assert found.high < 1.51 < beside.high == pytest.approx(1 / (PACE[0] * (1 - 0.63 * 0.36 - 0.144)))
    assert found.low == beside.low


@pytest.mark.parametrize(
    "update", [Update(0.45, (0.0, 0.15)), Update(1.0, (0.0, 0.0)), Update(0.4, (0.0, 0.6))]
)
@pytest.mark.parametrize("idle", [0.2, 0.6, 0.99])
def test_a_look_that_gives_the_optimizer_more_time_than_there_is_promises_no_less_at_most_than_at_least(
    starved: Diagnosis, idle: float, update: Update
) -> None:
    step = replace(cause("launching"), text="opt.step()")
    late = finding(starved, "launch_bound", idle)
    found = line_gain(say("try.fused_optimizer_step"), late, [step], update=update)

    assert found is not None
    assert 1 <= found.low <= found.high <= 100
    if update.left[1] > 0:  # of all the time, were it the optimizer's, so much is left
        assert found.low <= 1.0001 * max(1.0, PACE[0] / update.left[1])
    if idle + update.share < 1:  # the rest is not the optimizer's
        assert found.high == pytest.approx(1 / (PACE[0] * (1 - idle - update.share)))


def of_step(*phases: tuple[WorkKind, float, float]) -> StepMap:
    """A step of phases of a kind, with their share of the time and of that with a kernel."""
    ends = [sum(share for _, share, _ in phases[: k + 1]) for k in range(len(phases))]
    made = [
        StepPhase(kind, 0.9, end - share, end, 0.1 * share, (), {}, True, 1.0, {"gr_active": active})
        for (kind, share, active), end in zip(phases, ends, strict=True)
    ]
    return StepMap(0.1, 100, 0, 0.002, 0.0, tuple(made))


@pytest.mark.parametrize(
    ("way", "kind", "low", "high"),
    [
        ("single", "tiny_kernels", 0.9 / (1 - 0.85 * (0.6 * 0.95 + 0.2 * 0.95)), 1 / (0.9 * 0.2)),
        ("listed", "tiny_kernels", 0.9 / (1 - 0.4 * (0.6 * 0.95 + 0.2 * 0.95)), 1 / (0.9 * (1 - 0.9 * 0.8))),
        ("", "tiny_kernels", 0.9 / (1 - 0.4 * (0.6 * 0.95 + 0.2 * 0.95)), 1 / (0.9 * 0.2)),
        ("single", "mixed", 0.9 / (1 - 0.85 * 0.6 * 0.95), 1 / (0.9 * 0.4)),
    ],
)
def test_phases_of_tiny_kernels_are_the_optimizers_as_far_as_their_idle_time_is(
    starved: Diagnosis, way: Way, kind: WorkKind, low: float, high: float
) -> None:
    """d05 of docs/zoo.md: 1000 tensors one after another in 80 % of the step, a quarter of it kernels."""
    step = replace(cause("launching", 0.97, 0.95), text="optimizer.step()", high=1.0)
    update = Update.seen(None, float("nan"), way, of_step((kind, 0.8, 0.25), ("gemm", 0.2, 1.0)))
    few = say("try.fused_optimizer_step")
    found = line_gain(few, finding(starved, "launch_bound", 0.6), [step], update=update)

    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.001)


@pytest.mark.parametrize(("share", "limit"), [(0.97, "the tensor cores"), (0.3, "the host")])
def test_with_an_update_its_kernels_go_from_what_limits_next(share: float, limit: str) -> None:
    """Its tiny kernels were the small grids; where the line has little of the idle time, that stays."""
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"idle": 0.6, "small_grid": 0.2, "tensor": 0.2}
    update = Update.seen(None, 0.4, "single", of_step(("tiny_kernels", 0.8, 0.25), ("gemm", 0.2, 1.0)))
    step = replace(cause("launching", share), text="optimizer.step()")

    assert limit_without_update(cast(dict[TimeClass, float], shares), [step], update) == limit


@pytest.mark.parametrize(("kernel_s", "its_kernels"), [(6.6e-6, True), (30e-6, False), (float("nan"), False)])
def test_tiny_kernels_beside_a_host_at_the_optimizers_line_may_all_be_its_own(
    starved: Diagnosis, kernel_s: float, its_kernels: bool
) -> None:
    """d06 of docs/zoo.md: 1,400 kernels of 6.6 us beside the host at its line. It gained 2.59 times."""
    few = Remedy(say("try.fused_optimizer_step"))
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"idle": 0.433, "latency": 0.48, "memory": 0.087}
    verdict = replace(finding(starved, "launch_bound", 0.433, few), eased=("idle",))
    facts = {**starved.facts, "mean_kernel_s": Fact("mean_kernel_s", kernel_s, "seconds", "watch")}
    before = replace(starved, verdict=verdict, findings=(verdict,), facts=facts, shares=shares, step_map=None)
    step = replace(cause("launching", 0.62, 0.51), text="optimizer.step()", high=0.735, waited=0.447)
    after = with_lines(before, HostCauses((step,), idle=0.433)).verdict

    assert after is not None
    assert after.gain is not None
    assert (after.gain.high >= 2.59) is its_kernels
    assert after.next_limit == (say("limit.idle") if its_kernels else say("limit.latency"))


def test_a_look_or_phases_of_the_step_tell_better_which_kernels_are_the_optimizers() -> None:
    looked = Update.seen(Condition("fused_optimizer", True, 0.1, left=(0.1, 0.6)), 0.5, "", None, 0.4)
    phases = Update.seen(None, 0.4, "", of_step(("tiny_kernels", 0.5, 0.25), ("gemm", 0.5, 1.0)), 0.4)
    unseen = Update.seen(None, 0.4, "", of_step(("idle", 0.5, 0.25), ("gemm", 0.5, 1.0)), 0.4)

    assert looked.kernels(0.9, 0.5, beside=0.4) == pytest.approx(0.05)
    assert phases.kernels(1.0, 0.5, beside=0.4) == pytest.approx(0.125)
    assert unseen.kernels(0.9, 0.5, beside=0.3) == pytest.approx(0.3)
    assert unseen.kernels(0.9, 0.5) == 0.0


ONWARD = say("try.copy_without_waiting")


def test_copies_that_nobody_waits_for_still_take_what_the_link_needs(starved: Diagnosis) -> None:
    """Of 75 % without a kernel 70 are copies: from pinned memory they fill the link beside the work, too."""
    late = finding(starved, "host_starved", 0.05)
    pinned = line_gain(ONWARD, late, [cause("copying")], idle=0.75, copies=(0.7, 0.7))
    pageable = line_gain(ONWARD, late, [cause("copying")], idle=0.75, copies=(0.1, 0.7))
    read = line_gain(READ, late, [cause("copying")], idle=0.75, copies=(0.7, 0.7))

    assert pinned is not None
    assert pageable is not None
    assert read is not None
    assert (pinned.low, pinned.high) == pytest.approx((1 / 0.7 / PACE[1], 1 / 0.7 / PACE[0]))
    assert (pageable.low, pageable.high) == pytest.approx((1 / 0.7 / PACE[1], 1 / 0.25 / PACE[0]))
    assert read.low > 2.9  # what is not read back is not copied


@pytest.mark.parametrize(
    ("link", "high"), [(0.4, 1 / 0.4), (0.6, 1 / 0.45), (0.1, 1 / 0.3), (float("nan"), 1 / 0.3)]
)
def test_what_the_link_needs_is_what_it_was_seen_to_carry(
    starved: Diagnosis, link: float, high: float
) -> None:
    verdict = finding(starved, "host_starved", 0.05, Remedy(say("try.see_main_thread")))
    facts = {**starved.facts, "pcie_link_share": Fact("pcie_link_share", link, "ratio", "ok")}
    shares = {**starved.shares, "idle": 0.25, "copy": 0.45}
    before = replace(starved, verdict=verdict, findings=(verdict,), facts=facts, shares=shares)
    line = replace(cause("copying"), text="x = batch.cuda()")
    after = with_lines(before, HostCauses((line,), idle=0.5)).verdict

    assert after is not None
    assert after.remedies[0].text == ONWARD
    assert after.gain is not None
    assert after.gain.high == pytest.approx(high / PACE[0])
    assert after.gain.low == pytest.approx(1 / 0.45 / PACE[1])


def told(diagnosis: Diagnosis, rule: str, first: Cause, *offered: Remedy) -> Finding:
    verdict = finding(diagnosis, rule, 0.5, *offered)
    before = replace(diagnosis, verdict=verdict, findings=(verdict,), shares={})
    after = with_lines(before, HostCauses((first,), idle=0.5)).verdict
    assert after is not None
    return after


def test_the_gain_of_the_first_remedy_becomes_the_findings(starved: Diagnosis) -> None:
    after = told(starved, "host_starved", cause("python"), Remedy(say("try.see_main_thread")))

    assert [r.text for r in after.remedies] == [AT_LINE, BESIDE]
    assert after.gain is not None
    assert after.gain.high == pytest.approx(2 / PACE[0])
    assert after.remedies[0].gain is None
    assert after.remedies[1].gain is not None


def test_what_counters_promised_stays_with_the_remedy_it_was_made_for(starved: Diagnosis) -> None:
    workers, less = Remedy(say("try.more_workers")), Remedy(say("try.less_per_sample"))
    after = told(starved, "input_starved", cause("loader", decoding=1.0), workers, less)

    assert [r.text for r in after.remedies] == [less.text, workers.text]
    assert after.gain != BY_COUNTERS
    assert after.remedies[1].gain == BY_COUNTERS


def test_a_line_that_launches_leaves_the_gain_as_it_was(starved: Diagnosis) -> None:
    after = told(starved, "host_starved", cause("launching"), Remedy(say("try.see_main_thread")))

    assert after.gain == BY_COUNTERS


def test_each_remedy_is_one_that_there_is() -> None:
    there = {offer.remedy.text for offer in (*OFFERS, *SEEN_ONLY)} | {one.remedy.text for one in ADVICE}
    there |= {answer.text for answer in ANSWERS}

    assert set(TAKEN) <= there


GRAPH, LESS, BATCH = say("try.graph"), say("try.launch_less"), say("try.larger_batch")
FUSED = say("try.fused_optimizer_step")
A_FIFTH_COPIES = (cause("launching", 0.8), cause("copying", 0.2))
A_FIFTH_LOADS = (cause("launching", 0.8), cause("loader", 0.2))


@pytest.mark.parametrize("remedy", [GRAPH, LESS, FUSED])
def test_fewer_launches_leave_the_copies_that_the_host_makes_for_each_step(remedy: str) -> None:
    """Of 0.9 a fifth is a copy: 0.18 stays beside what the remedy leaves, a tenth or a twentieth."""
    told = gain_beside(remedy, Gain(10.0, 20.0, ""), 0.9, A_FIFTH_COPIES, share=0.9)

    assert told is not None
    assert (told.low, told.high) == pytest.approx((1 / 0.28, 1 / 0.23))
    assert "20 % of the idle time stays" in told.assumption


@pytest.mark.parametrize("remedy", [GRAPH, LESS, FUSED, BATCH])
def test_all_of_it_goes_where_all_lines_may_launch(remedy: str) -> None:
    lines = [cause("launching", 0.5), cause("python", 0.5)]
    assert gain_beside(remedy, Gain(10.0, 20.0, ""), 0.9, lines, share=0.9) is None


def test_of_a_remedy_that_does_more_than_launch_less_nothing_is_taken_off() -> None:
    assert gain_beside(READ, Gain(10.0, 20.0, ""), 0.9, A_FIFTH_COPIES, share=0.9) is None


def test_what_lies_beside_the_late_launches_already_is_not_taken_off_again() -> None:
    """A fifth of 0.9 is copied; the finding is about 0.72, or about 0.81, of which half of that is a part."""
    beside, half = (
        gain_beside(GRAPH, Gain(2.0, 3.0, ""), 0.9, A_FIFTH_COPIES, share=share) for share in (0.71, 0.81)
    )

    assert beside is None
    assert half is not None
    assert (half.low, half.high) == pytest.approx((1 / (1 / 2 + 0.09), 1 / (1 / 3 + 0.09)))


def test_a_larger_batch_loads_as_long_for_each_sample() -> None:
    """0.18 stays, and of 0.82 a quarter, or what a host gains that changes its pace."""
    told = gain_beside(BATCH, Gain(4 / 1.1, 4.4, ""), 0.9, A_FIFTH_LOADS, share=0.9)

    assert told is not None
    assert (told.low, told.high) == pytest.approx((1 / (0.18 + 0.82 * 1.1 / 4), 1 / (0.18 + 0.82 / 4.4)))


def test_a_larger_batch_waits_as_often_for_a_copy_as_it_launches() -> None:
    """One copy a step: at most it is hidden like launches, at least the GPU idles for it as before."""
    told = gain_beside(BATCH, Gain(4 / 1.1, 4.4, ""), 0.9, A_FIFTH_COPIES, share=0.9)

    assert told is not None
    assert (told.low, told.high) == pytest.approx((1 / (0.1 * 1.1 + 0.18), 4.4))


def test_a_step_that_copies_goes_on_waiting_for_its_host_once_it_is_a_graph(starved: Diagnosis) -> None:
    graph, less = Remedy(GRAPH), Remedy(LESS, gain=Gain(1.8, 7.8, ""))
    shares = {**dict.fromkeys(starved.shares, 0.0), "idle": 0.92, "small_grid": 0.08}
    told = replace(
        finding(starved, "launch_bound", 0.92, graph, less),
        gain=Gain(8.0, 20.0, ""), eased=("idle",), next_limit="the number of SMs the kernels fill",
    )  # fmt: skip
    before = replace(starved, verdict=told, findings=(told,), shares=shares)
    copying, alone = (
        with_lines(before, HostCauses(tuple(causes), idle=0.92)).verdict
        for causes in (
            [cause("launching", 0.76), cause("copying", 0.21)],
            [cause("launching", 0.97)],
        )
    )

    assert copying is not None
    assert copying.gain is not None
    assert copying.gain.high < 1 / (0.92 * 0.21)
    assert copying.next_limit == "the host"
    assert copying.remedies[1].gain is not None
    assert copying.remedies[1].gain.high == pytest.approx(1 / (1 / 7.8 + 0.92 * 0.21))
    assert alone is not None
    assert alone.remedies[1].gain == less.gain
    assert (alone.gain, alone.next_limit) == (told.gain, told.next_limit)


def test_a_first_remedy_with_a_gain_of_its_own_keeps_it_beside_a_graph_that_leaves_copies(
    starved: Diagnosis,
) -> None:
    """As a look leaves them: the gain of the finding is the optimizer's, which is in no line that is told."""
    fused, graph = Remedy(FUSED), Remedy(GRAPH, gain=Gain(8.0, 20.0, ""))
    told = replace(finding(starved, "launch_bound", 0.92, fused, graph), gain=Gain(2.0, 4.0, ""))
    shares = {**dict.fromkeys(starved.shares, 0.0), "idle": 0.92, "small_grid": 0.08}
    before = replace(starved, verdict=told, findings=(told,), shares=shares)
    after = with_lines(
        before, HostCauses((cause("launching", 0.76), cause("copying", 0.21)), idle=0.92)
    ).verdict

    assert after is not None
    own = {r.text: r.gain or after.gain for r in after.remedies}
    assert own[FUSED] is not None
    assert own[FUSED].high == pytest.approx(1 / (1 / 4 + 0.92 * 0.21))
    assert own[GRAPH] is not None
    assert own[GRAPH].high == pytest.approx(1 / (1 / 20 + 0.92 * 0.21))
