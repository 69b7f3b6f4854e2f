"""
The ways out. Each names the rule it belongs to, what must hold, and how to see that it worked.

A remedy is offered only if its `applies` holds for this recording; what cannot be seen from
outside (is it a convolutional network?) is said as a need. All speak of PyTorch; `wording` has the words of
other frameworks. Left out on purpose, since they do
not help: making a parameter contiguous, switching cuDNN on, `detach()` before `.cpu()`,
autotuning "for the layout" (science.md §1.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.host_reads import host_reads
from perfzero.diagnose.leftovers import launch_blocking, tf32_forbidden
from perfzero.diagnose.reading import read_only, reads_in_short_kernels
from perfzero.diagnose.thresholds import (
    BOTH_WAYS,
    CPU_COMPUTES,
    CPU_FULL,
    FEW_WARPS,
    FP64_USED,
    GC_STALL,
    HEADROOM,
    HOST_LATE,
    IO_WAIT,
    LATE_THROUGHOUT,
    LINK_FULL,
    RUNQUEUE,
    TENSOR_UNUSED,
    THROTTLED,
    WRITE_HEAVY,
)
from perfzero.diagnose.turns import cores_beside_workers
from perfzero.diagnose.verdict import Remedy
from perfzero.diagnose.wording import ALLOW_TF32
from perfzero.words.said import say


@dataclass(frozen=True, slots=True)
class Offer:
    """
    A remedy, the rule it is for, and the condition under which it is offered.

    `dtype`: the type in which the tensor cores would do the work after it, where that is its point.
    """

    rule: str
    remedy: Remedy
    applies: Callable[[Evidence], bool]
    dtype: str | None = None


def always(_: Evidence) -> bool:
    """No condition that could be seen from outside."""
    return True


def memory_left(e: Evidence) -> bool:
    """Nearly half of the device memory is free, and known to be."""
    return e.memory_free >= HEADROOM.value


def cores_left(e: Evidence) -> bool:
    """The machine's cores are not all taken (or that is unknown) and no quota holds the program back."""
    return not e.level("host_cpu_busy") >= CPU_FULL.value and not quota_bites(e)


def waits_for_core(e: Evidence) -> bool:
    """The program's main threads have work and no core."""
    return e.level("host_runqueue_wait") >= RUNQUEUE.value


def cores_full(e: Evidence) -> bool:
    """All cores of the machine are busy, or the program is seen to wait for one."""
    return e.level("host_cpu_busy") >= CPU_FULL.value or waits_for_core(e)


def quota_bites(e: Evidence) -> bool:
    """The cgroup's CPU quota holds the program back."""
    return e.level("host_throttled") >= THROTTLED.value


def workers_crowd(e: Evidence) -> bool:
    """Several workers, and the program's own processes wait for a core, which no quota explains."""
    return e.level("host_workers") >= 2 and waits_for_core(e) and not quota_bites(e)


def has_workers(e: Evidence) -> bool:
    """The program has worker processes."""
    return e.level("host_workers") >= 1


def computes_on_cpu(e: Evidence) -> bool:
    """
    The program keeps several cores busy beside its workers: with operators on the CPU, or with threads that
    spin between these and wait for more.
    """
    return cores_beside_workers(e) >= CPU_COMPUTES.value


def blocks_launches(e: Evidence) -> bool:
    """Every launch waits for its kernel."""
    return launch_blocking(e.observation.process)


def forbids_tf32(e: Evidence) -> bool:
    """The environment forbids TF32, whatever the program allows."""
    return tf32_forbidden(e.observation.process)


def is_traced(e: Evidence) -> bool:
    """A debugger or profiler watches the program."""
    return bool(e.observation.process.tracers)


def reads_disk(e: Evidence) -> bool:
    """The program waits for a disk."""
    return e.level("host_io_wait") >= IO_WAIT.value


def write_heavy(e: Evidence) -> bool:
    """More DRAM writes than reads."""
    return e.level("dram_write_bytes") >= WRITE_HEAVY.value * e.level("dram_read_bytes")


def reads_for_products(e: Evidence) -> bool:
    """Hardly anything is written, and the tensor cores work with what is read."""
    return read_only(e) and e.while_busy("tensor_active") >= TENSOR_UNUSED.value


def one_at_a_time(e: Evidence) -> bool:
    """Kernels of microseconds read weights, and there is memory for more requests at a time."""
    return reads_in_short_kernels(e) and memory_left(e)


def several_fit(e: Evidence) -> bool:
    """There is memory for a larger batch, and no weights that it would read once for all."""
    return memory_left(e) and not reads_in_short_kernels(e)


def few_warps(e: Evidence) -> bool:
    """An SM has so few warps that nobody works while they wait, and it is not the link that they wait for."""
    return e.while_busy("warps_active") < FEW_WARPS.value and not reads_host(e)


def reads_host(e: Evidence) -> bool:
    """Kernels use host memory in place, over the link."""
    return host_reads(e) is not None


def copies(e: Evidence) -> bool:
    """What fills the link are copies."""
    return not reads_host(e)


def copies_fill(e: Evidence) -> bool:
    """Copies that fill the link all the time: beside work, too, they would take as long."""
    return copies(e) and e.pcie_share >= LINK_FULL.value


def copies_in_part(e: Evidence) -> bool:
    """Copies that leave the link some time."""
    return copies(e) and not e.pcie_share >= LINK_FULL.value


def goes_and_returns(e: Evidence) -> bool:
    """About as much goes to the host as comes from it."""
    there, back = e.level("pcie_tx_bytes"), e.level("pcie_rx_bytes")
    return copies(e) and min(there, back) >= BOTH_WAYS.value * max(there, back)


def short_stalls(e: Evidence) -> bool:
    """The rare stalls are no longer than Python's garbage collector takes over a large program."""
    return any(event.longest_s < GC_STALL.value for event in e.stalls)


def in_part(e: Evidence) -> bool:
    """Launches come too late in one part of the step only."""
    return e.idle.queue.ahead >= HOST_LATE.value or e.idle.late.of_idle < LATE_THROUGHOUT.value


def has_multicast(e: Evidence) -> bool:
    """Blocks of a cluster can be fed by one fetch: compute capability 9.0 and 10.x."""
    return (9, 0) <= (e.gpu.compute_capability or (0, 0)) < (12, 0)


def has_tf32(e: Evidence) -> bool:
    """Tensor cores that take TF32 and BF16: compute capability 8.0 and later."""
    return (e.gpu.compute_capability or (0, 0)) >= (8, 0)


def uses_double(e: Evidence) -> bool:
    """Something computes in double precision, however little: its numbers are twice as wide as float32."""
    return e.while_busy("fp64_active") >= FP64_USED.value


def only_fp16(e: Evidence) -> bool:
    """Tensor cores that take FP16 only: compute capability 7.x."""
    return (7, 0) <= (e.gpu.compute_capability or (0, 0)) < (8, 0)


GR_UP = say("worked.active_up")

_UPDATE_IN_FEW_LAUNCHES = Remedy(
    say("try.fused_optimizer_step"),
    (say("need.optimizer_launches"),),
    say("worked.launches_down_active_up"),
    topic="fused_optimizer",
)

_IN_FLOAT32 = Remedy(
    say("try.find_float64"),
    (say("need.no_double"),),
    say("worked.fp64_zero"),
    topic="float64",
)

_ON_GPU = Remedy(
    say("try.compute_on_gpu"),
    (say("need.gpu_can"), say("need.threads_compute")),
    say("worked.tree_down_active_up"),
)

OFFERS: tuple[Offer, ...] = (
    Offer(
        "debug_leftovers",
        Remedy(
            say("try.unblock"),
            (say("need.bug_found"),),
            say("worked.launches_and_active_up"),
        ),
        blocks_launches,
    ),
    Offer(
        "debug_leftovers",
        Remedy(
            say("try.unset_tf32_override"),
            (),
            say("worked.tensor_up_fma_down"),
        ),
        forbids_tf32,
    ),
    Offer(
        "debug_leftovers",
        Remedy(say("try.end_tracer"), (), GR_UP),
        is_traced,
    ),
    Offer(
        "debug_leftovers",
        Remedy(say("try.without_leftovers"), (), GR_UP),
        always,
    ),
    Offer("input_starved", Remedy(say("try.raise_quota"), (), GR_UP), quota_bites),
    Offer(
        "input_starved",
        Remedy(say("try.one_thread"), (say("need.threads_crowd"),), say("worked.runqueue_down")),
        workers_crowd,
    ),
    Offer(
        "input_starved",
        Remedy(
            say("try.local_disk"),
            (say("need.data_fits"),),
            say("worked.io_down_active_up"),
        ),
        reads_disk,
    ),
    Offer(
        "input_starved",
        Remedy(
            say("try.keep_in_memory"),
            (say("need.memory_holds_it"),),
            say("worked.io_down_active_up"),
        ),
        reads_disk,
    ),
    Offer(
        "input_starved",
        Remedy(say("try.more_workers"), (), GR_UP),
        cores_left,
    ),
    Offer(
        "input_starved",
        Remedy(
            say("try.less_per_sample"),
            (),
            say("worked.workers_down_active_up"),
        ),
        always,
    ),
    Offer("launch_bound", _UPDATE_IN_FEW_LAUNCHES, in_part),
    Offer(
        "launch_bound",
        Remedy(
            say("try.graph"),
            (say("need.fixed_shapes"), say("need.no_read_back")),
            say("worked.launches_up_host_down"),
            topic="tiny_products",
        ),
        always,
    ),
    Offer(
        "launch_bound",
        Remedy(
            say("try.launch_less"),
            (),
            say("worked.kernels_longer"),
            topic="tiny_kernels",
        ),
        always,
    ),
    Offer(
        "launch_bound",
        Remedy(say("try.larger_batch"), (say("need.result_independent"),), say("worked.kernels_longer")),
        memory_left,
    ),
    Offer(
        "sync_bound",
        Remedy(
            say("try.read_less"),
            (),
            say("worked.sync_debug"),
        ),
        always,
    ),
    Offer("sync_bound", _ON_GPU, computes_on_cpu),
    Offer(
        "queue_wait",
        Remedy(
            say("try.no_host_functions"),
            (say("need.has_one"),),
            say("worked.semaphore_down"),
        ),
        always,
    ),
    Offer(
        "queue_wait",
        Remedy(
            say("try.see_streams"),
            (),
            GR_UP,
        ),
        always,
    ),
    Offer(
        "periodic_stall",
        Remedy(
            say("try.checkpoint_thread"),
            (say("need.checkpoints"),),
            say("worked.stalls_vanish"),
        ),
        always,
    ),
    Offer(
        "periodic_stall",
        Remedy(
            say("try.freeze_gc"),
            (say("need.gc_stalls"),),
            say("worked.stalls_vanish"),
        ),
        short_stalls,
    ),
    Offer(
        "periodic_stall",
        Remedy(
            say("try.keep_workers"),
            (say("need.epochs_start_workers"),),
            say("worked.stalls_vanish"),
        ),
        has_workers,
    ),
    Offer(
        "periodic_stall",
        Remedy(
            say("try.log_less"),
            (),
            say("worked.stalls_rarer"),
        ),
        always,
    ),
    Offer("host_starved", Remedy(say("try.raise_quota"), (), GR_UP), quota_bites),
    Offer(
        "host_starved",
        Remedy(say("try.one_thread"), (say("need.threads_crowd"),), say("worked.runqueue_down")),
        workers_crowd,
    ),
    Offer(
        "host_starved",
        Remedy(say("try.own_cores"), (), GR_UP),
        cores_full,
    ),
    Offer(
        "host_starved",
        Remedy(
            say("try.see_main_thread"),
            (),
            GR_UP,
        ),
        always,
    ),
    Offer("host_starved", _ON_GPU, computes_on_cpu),
    Offer(
        "pageable_copies",
        Remedy(
            say("try.pinned"),
            (say("need.made_on_host"),),
            say("worked.copies_faster"),
        ),
        always,
    ),
    Offer(
        "pageable_copies",
        Remedy(say("try.copy_uint8"), (), say("worked.rx_down")),
        always,
    ),
    Offer(
        "transfer_bound",
        Remedy(
            say("try.exchange_less"),
            (say("need.goes_and_returns"),),
            say("worked.rx_tx_down"),
        ),
        goes_and_returns,
    ),
    Offer("transfer_bound", Remedy(say("try.copy_less"), (), say("worked.rx_down")), copies_fill),
    Offer(
        "transfer_bound",
        Remedy(
            say("try.overlap_copies"),
            (say("need.source_pinned"),),
            say("worked.copy_time_down"),
            topic="pinned_source",
        ),
        copies,
    ),
    Offer(
        "transfer_bound",
        Remedy(
            say("try.copy_less"),
            (),
            say("worked.rx_down"),
        ),
        copies_in_part,
    ),
    Offer(
        "transfer_bound",
        Remedy(
            say("try.keep_on_device"),
            (),
            say("worked.rx_down_dram_up"),
        ),
        reads_host,
    ),
    Offer(
        "transfer_bound",
        Remedy(
            say("try.prefetch_unified"),
            (say("need.unified"),),
            say("worked.ce_up_rx_down"),
        ),
        reads_host,
    ),
    Offer(
        "memory_bound",
        Remedy(
            say("try.fused_or_8bit_optimizer"),
            (say("need.training"),),
            say("worked.writes_down"),
            topic="training",
        ),
        write_heavy,
    ),
    Offer(
        "memory_bound",
        Remedy(
            say("try.drop_gradients"),
            (say("need.clears_gradients"),),
            say("worked.writes_down"),
            topic="clears_gradients",
        ),
        write_heavy,
    ),
    Offer(
        "memory_bound",
        Remedy(
            say("try.no_fills"),
            (),
            say("worked.writes_down"),
            topic="fills",
        ),
        write_heavy,
    ),
    Offer(
        "memory_bound",
        Remedy(
            say("try.fuse_elementwise"),
            (),
            say("worked.bytes_down"),
            topic="chains",
        ),
        always,
    ),
    Offer(
        "memory_bound",
        Remedy(
            say("try.bf16_activations"),
            (say("need.float32_now"),),
            say("worked.bytes_halved"),
            topic="activations",
        ),
        has_tf32,
    ),
    Offer("memory_bound", _IN_FLOAT32, uses_double),
    Offer(
        "memory_bound",
        Remedy(
            say("try.fused_attention"),
            (say("need.stepwise_attention"),),
            say("worked.bytes_down_tensor_up"),
            topic="fused_attention",
        ),
        always,
    ),
    Offer(
        "memory_bound",
        Remedy(
            say("try.tile_order"),
            (say("need.own_or_autotuned"), say("need.read_again")),
            say("worked.bytes_down"),
        ),
        reads_for_products,
    ),
    *(
        Offer(
            rule,
            Remedy(
                say("try.larger_batch"),
                (say("need.reads_weights"), say("need.latency_may_grow")),
                say("worked.dram_same"),
            ),
            one_at_a_time,
        )
        for rule in ("memory_bound", "latency_bound", "small_grid")
    ),
    Offer(
        "l2_bound",
        Remedy(
            say("try.larger_tiles"),
            (say("need.own_or_autotuned"),),
            say("worked.sectors_down"),
        ),
        always,
    ),
    Offer(
        "l2_bound",
        Remedy(
            say("try.fuse_through_l2"),
            (),
            say("worked.sectors_per_step_down"),
        ),
        always,
    ),
    Offer(
        "l2_bound",
        Remedy(
            say("try.multicast"),
            (say("need.own_kernels"),),
            say("worked.sectors_down"),
        ),
        has_multicast,
    ),
    Offer(
        "fp32_path",
        Remedy(
            ALLOW_TF32,
            (say("need.off"), say("need.tf32_error")),
            say("worked.tensor_up_fma_down"),
            topic="tf32",
        ),
        has_tf32,
        "tf32",
    ),
    Offer(
        "fp32_path",
        Remedy(
            say("try.bf16"),
            (say("need.mixed_precision"),),
            say("worked.tensor_up_fma_down"),
            topic="half_precision",
        ),
        has_tf32,
        "bf16",
    ),
    Offer(
        "fp32_path",
        Remedy(
            say("try.fp16"),
            (say("need.mixed_precision"),),
            say("worked.tensor_up_fma_down"),
            topic="half_precision",
        ),
        only_fp16,
        "fp16",
    ),
    Offer("fp64_path", _IN_FLOAT32, always),
    Offer(
        "wave_tail",
        Remedy(
            say("try.whole_waves"),
            (say("need.products"),),
            say("worked.sm_up"),
        ),
        always,
    ),
    Offer(
        "wave_tail",
        Remedy(say("try.second_stream"), (), say("worked.sm_up")),
        always,
    ),
    Offer(
        "tensor_starved",
        Remedy(
            say("try.channels_last"),
            (say("need.convolutional"),),
            say("worked.tensor_up_bytes_down"),
            topic="channels_last",
        ),
        always,
    ),
    Offer(
        "tensor_starved",
        Remedy(
            say("try.align"),
            (say("need.some_unaligned"),),
            say("worked.tensor_up"),
            topic="alignment",
        ),
        always,
    ),
    Offer(
        "tensor_starved",
        Remedy(
            say("try.use_tensor_cores"),
            (say("need.some_miss"),),
            say("worked.tensor_up"),
            topic="tensor_cores",
        ),
        always,
    ),
    Offer(
        "tensor_starved",
        Remedy(
            say("try.fuse_between_products"),
            (),
            say("worked.tensor_up"),
            topic="fused_attention",
        ),
        always,
    ),
    Offer(
        "small_grid",
        Remedy(say("try.larger_batch"), (say("need.latency_may_grow"),), say("worked.sm_up")),
        several_fit,
    ),
    Offer(
        "small_grid",
        Remedy(
            say("try.side_by_side"),
            (say("need.independent_work"),),
            say("worked.sm_up"),
        ),
        always,
    ),
    Offer(
        "small_grid",
        Remedy(
            say("try.split_kernels"),
            (),
            say("worked.sm_up"),
        ),
        always,
    ),
    Offer(
        "latency_bound",
        Remedy(
            say("try.nsight_compute"),
            (),
            say("worked.towards_roof"),
        ),
        always,
    ),
    Offer(
        "latency_bound",
        Remedy(say("try.compiler"), (), say("worked.latency_down")),
        always,
    ),
    Offer(
        "latency_bound",
        Remedy(
            say("try.more_under_way"),
            (say("need.own_or_autotuned"),),
            say("worked.warps_up"),
        ),
        few_warps,
    ),
    Offer(
        "comm_exposed",
        Remedy(
            say("try.overlap_backward"),
            (),
            say("worked.communication_down_at_rate"),
        ),
        always,
    ),
    Offer(
        "comm_exposed",
        Remedy(
            say("try.accumulate"),
            (say("need.larger_effective_batch"),),
            say("worked.communication_down"),
        ),
        always,
    ),
    Offer(
        "power_capped",
        Remedy(
            say("try.raise_power"),
            (),
            say("worked.clock_up"),
        ),
        always,
    ),
    Offer(
        "thermal",
        Remedy(
            say("try.cooling"),
            (),
            say("worked.thermal_zero"),
        ),
        always,
    ),
    Offer(
        "gpu_shared",
        Remedy(say("try.own_gpu"), (), say("worked.ctxsw_zero")),
        always,
    ),
    Offer(
        "link_degraded",
        Remedy(
            say("try.reseat"),
            (),
            say("worked.link_full"),
        ),
        always,
    ),
)


SEEN_ONLY: tuple[Offer, ...] = (
    tuple(
        Offer(rule, remedy, always)
        for rule in ("latency_bound", "small_grid")
        for remedy in (
            Remedy(
                say("try.index_select"),
                (say("need.sums_may_round"),),
                say("worked.latency_down"),
                topic="serial_gradient",
            ),
            Remedy(
                say("try.broadcast_distances"),
                (say("need.differences_fit"),),
                say("worked.latency_down"),
                topic="pairwise",
            ),
        )
    )
    + tuple(
        Offer(
            rule,
            Remedy(
                say("try.time_algorithms"),
                (say("need.fixed_shapes"),),
                say("worked.towards_roof"),
                topic="slow_convolutions",
            ),
            always,
        )
        for rule in ("latency_bound", "tensor_starved", "memory_bound", "small_grid")
    )
    + (
        Offer(
            "latency_bound",
            Remedy(
                say("try.by_channel"),
                (say("need.mixed_precision"),),
                say("worked.latency_down"),
                topic="by_channel",
            ),
            always,
        ),
    )
    + tuple(Offer(rule, _IN_FLOAT32, always) for rule in ("memory_bound", "latency_bound"))
    + tuple(
        Offer(rule, Remedy(say("try.hold_memory"), (), GR_UP, topic="allocates"), always)
        for rule in ("host_starved", "sync_bound", "launch_bound", "periodic_stall")
    )
    + (
        Offer("launch_bound", _UPDATE_IN_FEW_LAUNCHES, always),
        *(
            Offer(rule, Remedy(say("try.no_checks"), (), GR_UP, topic="checks"), always)
            for rule in ("sync_bound", "host_starved", "launch_bound")
        ),
    )
)
"""
What is offered only where a look shows its topic: one operator that nobody supposes from outside, an
optimizer whose launches are late like all others, numbers twice as wide as need be, memory that is taken and
given back, or checks that somebody left on. One warp with all the work leaves SMs empty, so a kernel of that
kind may be told by either rule.
"""


def remedies_for(rule: str, e: Evidence) -> tuple[Remedy, ...]:
    """What to try against *rule* in this recording, the most likely first."""
    return tuple(offer.remedy for offer in offers_for(rule, e))


def offers_for(rule: str, e: Evidence) -> tuple[Offer, ...]:
    """The offers against *rule* that apply to this recording, in the order of the table."""
    return tuple(offer for offer in OFFERS if offer.rule == rule and offer.applies(e))


def with_first(remedies: tuple[Remedy, ...], text: str, *, needs: tuple[str, ...] = ()) -> tuple[Remedy, ...]:
    """*remedies*, the one that says *text* before the others, if it is among them, and needs *needs* too."""
    named = (replace(r, needs=(*r.needs, *needs)) if r.text == text else r for r in remedies)
    return tuple(sorted(named, key=lambda remedy: remedy.text != text))
