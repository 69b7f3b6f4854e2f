"""What is to be done about a line that the GPU waits for, by what the host does there."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from perfzero.attribute.host_activity import Activity, Stage
from perfzero.attribute.stacks import Cause, HostCauses, StageShare
from perfzero.diagnose.remedies import OFFERS
from perfzero.diagnose.thresholds import CPU_COMPUTES, WORKER_BUSY
from perfzero.diagnose.verdict import Diagnosis, Fact, Remedy
from perfzero.report.line_advice import ADVICE, CALLS, MOSTLY
from perfzero.report.line_remedies import with_lines
from perfzero.stacks import Frame
from perfzero.words.said import say

LOOK = Remedy(say("try.see_main_thread"), (), "gr_active rises.")
OTHER = Remedy("Other.")
LINE = "It is train.py:41 for x in loader, 80 % of the idle time"


def host(activity: Activity, in_torch: float = 0.9, **stages: float) -> HostCauses:
    frame = Frame("/home/me/train.py", 41, "main")
    told = tuple(
        StageShare(name, share, None, "") for name, share in stages.items() if name in get_args(Stage)
    )
    cause = Cause(activity, frame, "for x in loader:", (frame,), 0.8, 0.8, 0.8, 0.0, told)
    return HostCauses((cause,), idle=0.3, in_torch=in_torch)


def told(
    diagnosis: Diagnosis, rule: str, known: HostCauses, *offered: Remedy, **facts: float
) -> tuple[Remedy, ...]:
    """The remedies against *rule*, of which *offered* are there by counters alone."""
    assert diagnosis.verdict is not None
    verdict = replace(diagnosis.verdict, rule=rule, remedies=offered)
    values = {n: Fact(n, v, "ratio", "ok", "", None) for n, v in facts.items()}
    before = replace(
        diagnosis, verdict=verdict, findings=(verdict,), facts={**diagnosis.facts, **NO_WORKERS, **values}
    )
    after = with_lines(before, known).verdict
    assert after is not None
    return after.remedies


NO_WORKERS = {
    name: Fact(name, float("nan"), "ratio", "unknown", "", None)
    for name in ("host_workers", "host_worker_cpu")
}
IDLE_WORKERS = {"host_workers": 4.0, "host_worker_cpu": 0.05}


def texts(remedies: tuple[Remedy, ...]) -> list[str]:
    return [remedy.text for remedy in remedies]


@pytest.mark.parametrize("rule", ["input_starved", "host_starved", "periodic_stall"])
def test_workers_that_wait_for_storage_are_told_of_nearer_storage(starved: Diagnosis, rule: str) -> None:
    remedies = told(starved, rule, host("loader", reading=0.9, decoding=0.1), OTHER, **IDLE_WORKERS)

    assert texts(remedies) == [say("try.local_disk"), say("try.keep_in_memory"), "Other."]
    assert remedies[0].needs == (say("need.data_fits"),)
    assert remedies[0].seen.startswith(LINE)
    assert not remedies[1].seen


@pytest.mark.parametrize(
    ("stages", "facts"),
    [
        ({"reading": MOSTLY - 0.01, "decoding": 0.5}, IDLE_WORKERS),
        ({"decoding": 0.9}, IDLE_WORKERS),
        ({}, IDLE_WORKERS),
        # From the page cache reading is work of the CPU.
        ({"reading": 0.9}, {"host_workers": 4.0, "host_worker_cpu": WORKER_BUSY.value}),
        ({"reading": 0.9}, {"host_main_cpu": 0.9}),
        ({"reading": 0.9}, {"host_main_cpu": float("nan")}),
    ],
)
def test_other_work_and_reading_that_takes_the_cpu_are_not(
    starved: Diagnosis, stages: dict[str, float], facts: dict[str, float]
) -> None:
    assert say("try.local_disk") not in texts(
        told(starved, "host_starved", host("loader", **stages), OTHER, LOOK, **facts)
    )


def test_a_main_process_that_reads_for_itself_is_told_so_too(starved: Diagnosis) -> None:
    remedies = told(starved, "host_starved", host("loader", reading=0.9), LOOK, host_main_cpu=0.2)

    assert texts(remedies)[0] == say("try.local_disk")


def test_what_counters_offer_already_is_not_said_twice(starved: Diagnosis) -> None:
    disk = Remedy(say("try.local_disk"), (say("need.data_fits"),), "host_io_wait falls.")
    remedies = told(starved, "input_starved", host("loader", reading=0.9), OTHER, disk, **IDLE_WORKERS)

    assert texts(remedies) == [say("try.local_disk"), say("try.keep_in_memory"), "Other."]


def test_what_is_there_for_the_line_comes_after_and_nothing_is_looked_up(starved: Diagnosis) -> None:
    remedies = told(starved, "host_starved", host("loader", tokenising=0.7), OTHER, LOOK, **IDLE_WORKERS)

    assert texts(remedies) == [say("try.tokenise_before"), say("try.less_in_loader"), "Other."]
    assert [bool(remedy.seen) for remedy in remedies] == [True, False, False]


@pytest.mark.parametrize(
    ("activity", "stages", "expected"),
    [
        ("loader", {"tokenising": 0.7}, "try.tokenise_before"),
        ("tokenising", {}, "try.tokenise_before"),
        ("loader", {"picking": 0.7, "collating": 0.3}, "try.index_batch"),
        ("loader", {"collating": 0.3, "picking": 0.3}, "try.index_batch"),
        ("starting workers", {}, "try.keep_workers"),
        ("compiling", {}, "try.stop_compiling"),
        ("allocator", {}, "try.keep_cache"),
        ("allocating", {}, "try.hold_memory"),
    ],
)
def test_each_kind_of_work_has_its_own_way_out(
    starved: Diagnosis, activity: Activity, stages: dict[str, float], expected: str
) -> None:
    remedies = told(starved, "host_starved", host(activity, **stages), OTHER, LOOK, **IDLE_WORKERS)

    assert remedies[0].text == say(expected)
    assert remedies[0].seen.startswith(LINE)


@pytest.mark.parametrize(
    ("activity", "stages", "unsaid"),
    [
        ("loader", {"tokenising": 0.4, "decoding": 0.6}, "try.tokenise_before"),
        ("loader", {"collating": 0.9}, "try.index_batch"),  # samples that are made one by one
        ("loader", {"picking": 0.2, "augmenting": 0.8}, "try.index_batch"),
        ("loader", {}, "try.keep_workers"),
        ("python", {}, "try.stop_compiling"),
        ("launching", {}, "try.keep_cache"),
        ("allocator", {}, "try.hold_memory"),
        ("python", {}, "try.hold_memory"),
    ],
)
def test_other_work_has_not(
    starved: Diagnosis, activity: Activity, stages: dict[str, float], unsaid: str
) -> None:
    remedies = told(starved, "host_starved", host(activity, **stages), OTHER, LOOK, **IDLE_WORKERS)

    assert say(unsaid) not in texts(remedies)


@pytest.mark.parametrize("rule", ["host_starved", "sync_bound", "periodic_stall"])
@pytest.mark.parametrize("activity", ["compiling", "starting workers", "allocator"])
def test_of_a_line_that_compiles_or_starts_processes_nothing_else_is_said(
    starved: Diagnosis, rule: str, activity: Activity
) -> None:
    remedies = told(starved, rule, host(activity), OTHER, LOOK)

    assert len(remedies) == 2
    assert remedies[1].text == OTHER.text


def test_a_stall_that_starts_workers_is_one_beyond_doubt(starved: Diagnosis) -> None:
    supposed = next(o.remedy for o in OFFERS if o.remedy.text == say("try.keep_workers"))
    remedies = told(starved, "periodic_stall", host("starting workers"), OTHER, supposed)

    assert supposed.needs
    assert texts(remedies) == [say("try.keep_workers"), "Other."]
    assert remedies[0].needs == ()


def test_work_between_two_steps_can_be_done_beside_one(starved: Diagnosis) -> None:
    remedies = told(starved, "host_starved", host("python"), OTHER, LOOK)

    assert texts(remedies) == [say("try.less_at_line"), say("try.overlap_line"), "Other."]
    assert remedies[0].seen.startswith(LINE)
    assert remedies[1].needs == (say("need.next_step_independent"),)
    for activity in ("launching", "loader", "gil", "synchronising"):
        assert say("try.overlap_line") not in texts(told(starved, "host_starved", host(activity), LOOK))


@pytest.mark.parametrize("rule", ["host_starved", "sync_bound"])
@pytest.mark.parametrize("activity", ["launching", "copying", "synchronising"])
def test_a_host_that_computes_on_many_cores_in_torch_is_not_told_to_launch_less(
    starved: Diagnosis, rule: str, activity: Activity
) -> None:
    on_gpu = next(o.remedy for o in OFFERS if (o.rule, o.remedy.text) == (rule, say("try.compute_on_gpu")))
    cores = CPU_COMPUTES.value
    remedies = told(starved, rule, host(activity), OTHER, on_gpu, LOOK, host_tree_cpu=cores)

    assert texts(remedies) == [say("try.compute_on_gpu"), "Other."]
    assert remedies[0].seen.startswith(LINE)
    assert remedies[0].needs == on_gpu.needs
    assert texts(told(starved, "host_starved", host("python"), on_gpu, LOOK))[0] == say("try.less_at_line")


@pytest.mark.parametrize("rule", ["host_starved", "sync_bound"])
@pytest.mark.parametrize("activity", ["launching", "copying", "synchronising"])
def test_threads_that_spin_while_the_host_is_in_python_of_its_own_compute_nothing_in_torch(
    starved: Diagnosis, rule: str, activity: Activity
) -> None:
    on_gpu = next(o.remedy for o in OFFERS if (o.rule, o.remedy.text) == (rule, say("try.compute_on_gpu")))

    def all_told(in_torch: float) -> list[str]:
        known = host(activity, in_torch)
        return texts(told(starved, rule, known, on_gpu, OTHER, LOOK, host_tree_cpu=CPU_COMPUTES.value))

    assert all_told(CALLS)[0] == on_gpu.text
    assert all_told(CALLS - 0.01)[-1] == on_gpu.text
    assert say("need.threads_compute") in on_gpu.needs


@pytest.mark.parametrize(
    ("cores", "in_torch", "waits"),
    [
        (1.0, 0.9, True),
        (CPU_COMPUTES.value, 0.9, False),  # layers that are called in the same line may be on the CPU
        (CPU_COMPUTES.value, 0.05, True),
    ],
)
def test_a_copy_to_the_gpu_that_waits_is_told_though_threads_spin(
    starved: Diagnosis, cores: float, in_torch: float, waits: bool
) -> None:
    known = host("copying", in_torch)
    text = "mean, std = (statistics[name].to(device) for name in names)"
    known = replace(known, causes=(replace(known.causes[0], text=text),))
    remedies = told(starved, "host_starved", known, OTHER, LOOK, host_tree_cpu=cores)

    assert (texts(remedies)[0] == say("try.copy_without_waiting")) is waits


def test_a_thread_that_holds_the_gil_is_moved_away_from_launches_that_come_too_late(
    starved: Diagnosis,
) -> None:
    assert texts(told(starved, "launch_bound", host("gil"), OTHER)) == [say("try.other_process"), "Other."]
    assert say("try.other_process") not in texts(told(starved, "launch_bound", host("launching"), OTHER))


@pytest.mark.parametrize(
    ("tree", "expected"), [(1.0, True), (float("nan"), True), (CPU_COMPUTES.value, False)]
)
def test_a_host_that_launches_for_milliseconds_on_one_core_may_time_algorithms(
    starved: Diagnosis, tree: float, expected: bool
) -> None:
    remedies = told(starved, "host_starved", host("launching"), OTHER, LOOK, host_tree_cpu=tree)
    found = [remedy for remedy in remedies if remedy.text == say("try.no_timing")]

    assert bool(found) is expected
    assert all(remedy.needs == (say("need.benchmark_on"),) for remedy in found)
    assert remedies[0].text == say("try.launch_less_there")
    assert say("try.no_timing") not in texts(told(starved, "host_starved", host("python"), LOOK))


EVALUATE, SAVE = (
    next(o.remedy for o in OFFERS if o.remedy.text == say(key))
    for key in ("try.log_less", "try.checkpoint_thread")
)


def test_a_stall_at_a_line_that_launches_is_no_evaluation_and_no_checkpoint(starved: Diagnosis) -> None:
    """A call that launches takes microseconds, unless algorithms are timed in it."""
    remedies = told(starved, "periodic_stall", host("launching"), SAVE, OTHER, EVALUATE)

    assert texts(remedies) == [say("try.no_timing"), "Other."]
    assert remedies[0].seen


def test_a_stall_at_a_line_that_launches_and_computes_on_many_cores_is_to_become_less(
    starved: Diagnosis,
) -> None:
    cores = 2 * CPU_COMPUTES.value
    remedies = told(starved, "periodic_stall", host("launching"), SAVE, EVALUATE, host_tree_cpu=cores)

    assert texts(remedies) == [say("try.less_at_line")]
    assert remedies[0].seen


@pytest.mark.parametrize("activity", ["python", "logging", "disk", "sleeping", "synchronising"])
def test_a_stall_at_another_line_may_be_an_evaluation(starved: Diagnosis, activity: Activity) -> None:
    remedies = told(starved, "periodic_stall", host(activity), SAVE, OTHER, EVALUATE)

    assert texts(remedies) == [EVALUATE.text, SAVE.text, "Other."]


def test_the_threads_of_a_compiler_do_not_compute_what_the_gpu_could(starved: Diagnosis) -> None:
    cores, on_gpu = 2 * CPU_COMPUTES.value, Remedy(say("try.compute_on_gpu"))
    compiling = told(starved, "host_starved", host("compiling"), LOOK, on_gpu, host_tree_cpu=cores)
    calling = told(starved, "host_starved", host("launching"), LOOK, on_gpu, host_tree_cpu=cores)

    assert texts(compiling) == [say("try.stop_compiling")]
    assert texts(calling)[0] == on_gpu.text


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("kept = x[mask]", "try.fixed_size"),
        ("rows = torch.nonzero(x)", "try.fixed_size"),
        ("if (b == 0).any():", "try.decide_on_gpu"),
        ("assert loss > 0", "try.decide_on_gpu"),
        ("if torch.equal(a, b):", "try.keep_answer"),
        ("y = torch.linalg.solve(a, b)", "try.unchecked"),
        ("y = torch.add(x, y, alpha=scale)", "try.factor_on_gpu"),
        ("loss.item()", ""),
    ],
)
def test_beside_reading_less_it_is_told_what_to_write_instead(
    starved: Diagnosis, text: str, key: str
) -> None:
    known = host("synchronising")
    known = replace(known, causes=tuple(replace(cause, text=text) for cause in known.causes))
    read_less = Remedy(say("try.read_less"))
    expected = [say("try.read_less_there"), *([say(key)] if key else []), "Other."]

    assert texts(told(starved, "host_starved", known, LOOK, OTHER)) == expected
    assert texts(told(starved, "sync_bound", known, read_less, OTHER)) == expected
    # Another rule, or a line that does something else, has no such advice.
    assert texts(told(starved, "queue_wait", known, OTHER)) == ["Other."]
    copies = replace(known, causes=tuple(replace(cause, activity="copying") for cause in known.causes))
    assert texts(told(starved, "sync_bound", copies, read_less, OTHER))[1:] == ["Other."]


@pytest.mark.parametrize("text", ["torch.cuda.synchronize()", "end.synchronize()", "y.block_until_ready()"])
def test_a_wait_that_reads_nothing_is_left_out_and_not_read_less_of(starved: Diagnosis, text: str) -> None:
    known = host("synchronising")
    known = replace(known, causes=tuple(replace(cause, text=text) for cause in known.causes))
    expected = [say("try.leave_out_wait"), "Other."]

    for rule, own in (("host_starved", LOOK), ("sync_bound", Remedy(say("try.read_less")))):
        remedies = told(starved, rule, known, own, OTHER)
        assert texts(remedies) == expected
        assert remedies[0].needs == (say("need.only_a_clock"),)


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        ("mean, std = (statistics[name].to(device) for name in names)", True),
        ("x = batch.cuda()", True),
        ("values = logits.cpu()", False),
        ('values = logits.to("cpu").numpy()', False),
    ],
)
def test_a_copy_to_the_gpu_reads_nothing_back(starved: Diagnosis, text: str, copies: bool) -> None:
    known = host("copying")
    known = replace(known, causes=(replace(known.causes[0], text=text),))
    remedies = told(starved, "sync_bound", known, Remedy(say("try.read_less")))

    assert (remedies[0].text == say("try.copy_without_waiting")) == copies
    assert remedies[0].seen
    # Nothing is read back there, so nothing is gained by reading less.
    late = told(starved, "host_starved", known, LOOK)
    assert (say("try.read_less_there") in texts(late)) != copies


def test_a_wait_before_late_launches_is_told_beside_what_makes_them_fewer(starved: Diagnosis) -> None:
    graph = Remedy(say("try.graph"))
    waits, launches = (told(starved, "launch_bound", host(a), graph) for a in ("synchronising", "launching"))

    assert texts(waits) == [graph.text, say("try.read_less_there")]
    assert waits[1].gain is not None
    assert texts(launches) == [graph.text]


def test_a_checkpoint_that_is_no_stall_can_go_to_a_thread_too(starved: Diagnosis) -> None:
    remedies = told(starved, "host_starved", host("checkpoint"), LOOK)

    assert remedies[0].text == say("try.checkpoint_thread")
    assert not any(
        r.text == say("try.checkpoint_thread") for r in told(starved, "host_starved", host("disk"), LOOK)
    )


def test_a_finding_of_busy_time_is_left_alone(starved: Diagnosis) -> None:
    assert told(starved, "memory_bound", host("compiling"), OTHER) == (OTHER,)


def test_each_advice_is_for_activities_and_rules_that_there_are() -> None:
    rules = {offer.rule for offer in OFFERS}

    assert all(one.activities <= set(get_args(Activity)) for one in ADVICE)
    assert all(one.rules <= rules for one in ADVICE)
