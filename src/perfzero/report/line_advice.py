"""
Remedies that only stacks of the host suggest: what to do about the line that the GPU waits for.

From outside a host that compiles, starts processes or reads from a file server is a host that is late.
Stacks show which of them it is, and each has a way out of its own. One is advised where the rule found idle
time, the first line does one of the activities, and what else is known agrees:

    starting workers   the loader's workers begin anew in each epoch
    reading            its batches are read for most of the time, and whoever reads hardly uses the CPU: a
                       worker that waits for a file server, a disk or the network. From the page cache reading
                       is work of the CPU, and another disk would not help
    tokenising         most of the time goes to text
    picking            single samples are taken out of what lies in memory, and put together again
    copying            the line copies to the GPU and waits for that: nothing is read back there
    checkpoint         a checkpoint is saved, though not so rarely that it is a stall
    garbage collection the program collects garbage itself, in steps, though Python does where it has to
    allocator          the program gives device memory back within its loop
    allocating         a line takes memory from CUDA or gives it back, seen by the engine that clears it
    compiling          the program compiles while it works
    gil                another thread holds it, whatever else the host is found to be late with
    launching          whole milliseconds without work, though a launch takes microseconds: cuDNN may be
                       timing its algorithms for another size of images, in calls that are not seen to. Of
                       stalls at such a line it is the first that comes to mind
    synchronising      what is waited for (`attribute/waits.py`) says what is to be written instead: the size
                       of a result, a truth, whether a factorisation worked. A wait that reads nothing can go
    python             between two steps the host works on what the GPU has computed, or on what it will need

Left out, since stacks do not show it: garbage collection that Python starts by itself, which shows as the
line that was running (`report/garbage.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from perfzero.attribute.causes import Cause, HostCauses
from perfzero.attribute.host_activity import LAUNCHING, Activity, Stage, may_copy
from perfzero.attribute.waits import Wait, waits_for
from perfzero.diagnose.thresholds import CPU_COMPUTES, WORKER_BUSY
from perfzero.diagnose.verdict import Fact, Remedy
from perfzero.limits import CHOICE, H200_LOOKS, Limit
from perfzero.words.said import say

MOSTLY: Annotated[float, Limit("ratio", CHOICE)] = 0.5
"""Of the time that batches take; a stage with less is not what they wait for."""

CALLS: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.5
"""
Of the idle time in calls of the framework: with less, several busy cores do not compute what these call.
In two programs on an H200 whose threads only spin between short operators it was 0.03 and 0.06; where a line
that launches or copies to the GPU has the idle time, 0.61 to 1.00, and where another one has it 0.00 to 0.23
(35 programs, 2026-11-30), but for one that reads and one whose GIL another thread holds, 1.00 and 0.99.
"""

Place = Literal["first", "after", "instead"]
"""Before or after the remedy that is there for the line, or in place of it."""

_READS_BACK = re.compile(r"\.(cpu|item|tolist|numpy)\(|\.to\(\s*[\"']cpu|\bsynchronize\(")

_GPU_UP = say("worked.active_rises")
_LATE = frozenset({"input_starved", "host_starved", "periodic_stall", "sync_bound"})


def _always(_: Cause, __: Mapping[str, Fact]) -> bool:
    """The activity says it all."""
    return True


@dataclass(frozen=True, slots=True)
class Advice:
    """
    *remedy* against *rules*, where the first line does one of *activities* and *applies* holds.

    `unless_computing`: not where several cores compute what the line calls.
    """

    remedy: Remedy
    rules: frozenset[str]
    activities: frozenset[Activity]
    place: Place = "first"
    applies: Callable[[Cause, Mapping[str, Fact]], bool] = _always
    unless_computing: bool = False


def _takes(cause: Cause, *stages: Stage) -> bool:
    """Whether *stages*, of which the first is there at all, take most of the time of batches."""
    share = {one.stage: one.share for one in cause.stages}
    return stages[0] in share and sum(share.get(stage, 0.0) for stage in stages) >= MOSTLY


def _waits_for_storage(cause: Cause, facts: Mapping[str, Fact]) -> bool:
    def use(name: str) -> float:
        return facts[name].value if name in facts else math.nan

    each = use("host_worker_cpu") if use("host_workers") >= 1 else use("host_main_cpu")
    return _takes(cause, "reading") and each < WORKER_BUSY.value


def _for(wait: Wait) -> Callable[[Cause, Mapping[str, Fact]], bool]:
    """Whether what is waited for at the line is *wait*."""
    return lambda cause, _: waits_for(cause.text) == wait


_INSTEAD_OF_WAITING: tuple[tuple[Wait, str, tuple[str, ...]], ...] = (
    ("size", "try.fixed_size", ()),
    ("condition", "try.decide_on_gpu", ()),
    ("answer", "try.keep_answer", ()),
    ("check", "try.unchecked", (say("need.has_unchecked"),)),
    ("factor", "try.factor_on_gpu", ()),
)
"""What to write instead of a wait, of which there is another way."""


def _copies_to_gpu(cause: Cause, _: Mapping[str, Fact]) -> bool:
    """Whether the line copies to the GPU, by its text, and does not read back what the CPU then computes."""
    to_gpu = may_copy(cause.text) or "device=" in cause.text
    return to_gpu and not _READS_BACK.search(cause.text)


_TIMING: tuple[tuple[str, Place], ...] = (("host_starved", "after"), ("periodic_stall", "instead"))
"""
Where a line that launches may be timing. Launches as such may be what comes late, but a call that launches
does not take a tenth of a second now and then.
"""

ADVICE: tuple[Advice, ...] = (
    Advice(Remedy(say("try.keep_workers"), (), _GPU_UP), _LATE, frozenset({"starting workers"}), "instead"),
    Advice(
        Remedy(say("try.local_disk"), (say("need.data_fits"),), _GPU_UP),
        _LATE, frozenset({"loader"}), "first", _waits_for_storage,
    ),
    Advice(
        Remedy(say("try.keep_in_memory"), (say("need.memory_holds_it"),), _GPU_UP),
        _LATE, frozenset({"loader"}), "first", _waits_for_storage,
    ),
    Advice(
        Remedy(say("try.tokenise_before"), (say("need.texts_again"),), _GPU_UP),
        _LATE, frozenset({"loader"}), "first", lambda cause, _: _takes(cause, "tokenising"),
    ),
    Advice(
        Remedy(say("try.tokenise_before"), (say("need.texts_again"),), _GPU_UP),
        _LATE, frozenset({"tokenising"}),
    ),
    Advice(
        Remedy(say("try.index_batch"), (), _GPU_UP),
        _LATE, frozenset({"loader"}), "first", lambda cause, _: _takes(cause, "picking", "collating"),
    ),
    Advice(
        Remedy(say("try.stop_compiling"), (), _GPU_UP),
        _LATE | {"launch_bound"}, frozenset({"compiling"}), "instead",
    ),
    Advice(
        Remedy(say("try.overlap_line"), (say("need.next_step_independent"),), _GPU_UP),
        frozenset({"host_starved", "sync_bound"}), frozenset({"python", "tokenising", "logging"}), "after",
    ),
    Advice(
        Remedy(say("try.keep_cache"), (), _GPU_UP),
        _LATE | {"launch_bound"}, frozenset({"allocator"}), "instead",
    ),
    Advice(
        Remedy(say("try.hold_memory"), (), _GPU_UP),
        _LATE | {"launch_bound"}, frozenset({"allocating"}), "instead",
    ),
    Advice(
        Remedy(say("try.copy_without_waiting"), (), _GPU_UP),
        frozenset({"sync_bound", "host_starved"}), frozenset({"copying"}), "instead", _copies_to_gpu,
        unless_computing=True,
    ),
    Advice(
        Remedy(say("try.collect_rarely"), (), _GPU_UP),
        frozenset({"sync_bound", "host_starved"}), frozenset({"garbage collection"}), "instead",
    ),
    Advice(
        Remedy(say("try.checkpoint_thread"), (), _GPU_UP),
        frozenset({"sync_bound", "host_starved"}), frozenset({"checkpoint"}),
    ),
    Advice(
        Remedy(say("try.leave_out_wait"), (say("need.only_a_clock"),), _GPU_UP),
        frozenset({"sync_bound", "host_starved"}), frozenset({"synchronising"}), "instead", _for("nothing"),
    ),
    *(
        Advice(
            Remedy(say(text), needs, _GPU_UP),
            frozenset({"sync_bound", "host_starved"}), frozenset({"synchronising"}), "after", _for(wait),
        )
        for wait, text, needs in _INSTEAD_OF_WAITING
    ),
    # Launches that come too late in one part do so where a wait has taken the host's lead.
    Advice(
        Remedy(say("try.read_less_there"), (), _GPU_UP),
        frozenset({"launch_bound"}), frozenset({"synchronising"}), "after",
    ),
    Advice(Remedy(say("try.other_process"), (), _GPU_UP), frozenset({"launch_bound"}), frozenset({"gil"})),
    *(
        Advice(
            Remedy(say("try.no_timing"), (say("need.benchmark_on"),), _GPU_UP),
            frozenset({rule}), LAUNCHING, place,
            unless_computing=True,
        )
        for rule, place in _TIMING
    ),
)  # fmt: skip


def calls_all_along(host: HostCauses) -> bool:
    """Whether the host is in calls of the framework for most of the idle time, or that is not known."""
    return not host.in_torch < CALLS


def computes(host: HostCauses, facts: Mapping[str, Fact]) -> bool:
    """
    Whether several cores may compute what the program calls while the GPU is idle.

    That they are busy is not enough. OpenMP's threads spin for milliseconds after an operator on the CPU,
    however short, and wait for more; then the host is mostly in Python of its own. What calls an operator
    that computes for long is in that call.
    """
    cores = facts.get("host_tree_cpu")
    return cores is not None and cores.value >= CPU_COMPUTES.value and calls_all_along(host)


def advice(
    rule: str, cause: Cause, facts: Mapping[str, Fact], *, computing: bool = False
) -> tuple[Advice, ...]:
    """
    What stacks suggest against *rule* where *cause* is the first line, in the order of the table.

    *computing*: whether several cores compute what the program calls.
    """
    return tuple(
        one
        for one in ADVICE
        if rule in one.rules
        and cause.activity in one.activities
        and one.applies(cause, facts)
        and not (one.unless_computing and computing)
    )
