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
from dataclasses import dataclass

from perfzero.diagnose.evidence import Evidence
from perfzero.diagnose.host_reads import host_reads
from perfzero.diagnose.leftovers import launch_blocking, tf32_forbidden
from perfzero.diagnose.thresholds import (
    CPU_FULL,
    GC_STALL,
    HEADROOM,
    HOST_LATE,
    IO_WAIT,
    LATE_THROUGHOUT,
    RUNQUEUE,
    THROTTLED,
    WRITE_HEAVY,
)
from perfzero.diagnose.verdict import Remedy
from perfzero.diagnose.wording import ALLOW_TF32


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


def reads_host(e: Evidence) -> bool:
    """Kernels use host memory in place, over the link."""
    return host_reads(e) is not None


def copies(e: Evidence) -> bool:
    """What fills the link are copies."""
    return not reads_host(e)


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


def only_fp16(e: Evidence) -> bool:
    """Tensor cores that take FP16 only: compute capability 7.x."""
    return (7, 0) <= (e.gpu.compute_capability or (0, 0)) < (8, 0)


GR_UP = "gr_active rises and the share of idle time falls."

OFFERS: tuple[Offer, ...] = (
    Offer(
        "debug_leftovers",
        Remedy(
            "Unset CUDA_LAUNCH_BLOCKING.",
            ("the bug it was set for is found",),
            "launches_per_s and gr_active rise.",
        ),
        blocks_launches,
    ),
    Offer(
        "debug_leftovers",
        Remedy(
            "Unset NVIDIA_TF32_OVERRIDE: while it is 0, no setting of the program allows TF32.",
            (),
            "tensor_active rises, fma_active falls.",
        ),
        forbids_tf32,
    ),
    Offer(
        "debug_leftovers",
        Remedy("End the tool that watches the program, or measure without it.", (), GR_UP),
        is_traced,
    ),
    Offer(
        "debug_leftovers",
        Remedy("Start the program without what was left on for debugging, and compare.", (), GR_UP),
        always,
    ),
    Offer("input_starved", Remedy("Raise the CPU quota of the container.", (), GR_UP), quota_bites),
    Offer(
        "input_starved",
        Remedy(
            "Keep the data on a local disk, in a few large files read in order.",
            ("the data set fits",),
            "host_io_wait falls, gr_active rises.",
        ),
        reads_disk,
    ),
    Offer(
        "input_starved",
        Remedy("Raise num_workers, set persistent_workers=True and prefetch_factor.", (), GR_UP),
        cores_left,
    ),
    Offer(
        "input_starved",
        Remedy(
            "Do less per sample on the CPU: store decoded or resized data, or decode on the GPU "
            "(DALI, nvImageCodec).",
            (),
            "host_worker_cpu falls, gr_active rises.",
        ),
        always,
    ),
    Offer(
        "launch_bound",
        Remedy(
            "Update all parameters in few kernels: a fused optimizer (torch.optim.Adam(..., fused=True)).",
            ("the optimizer makes many of the launches",),
            "launches_per_s falls, gr_active rises.",
            topic="fused_optimizer",
        ),
        in_part,
    ),
    Offer(
        "launch_bound",
        Remedy(
            'Record the step into a CUDA graph: torch.compile(mode="reduce-overhead") or torch.cuda.graph.',
            ("shapes do not change", "no read-back to the host within the step"),
            "launches_per_s and gr_active rise, host_main_cpu falls.",
            topic="tiny_products",
        ),
        always,
    ),
    Offer(
        "launch_bound",
        Remedy(
            "Launch less: torch.compile, and a fused optimizer (fused=True).",
            (),
            "mean_kernel_s rises.",
            topic="tiny_kernels",
        ),
        always,
    ),
    Offer(
        "launch_bound",
        Remedy("Raise the batch size.", ("the result does not depend on it",), "mean_kernel_s rises."),
        memory_left,
    ),
    Offer(
        "sync_bound",
        Remedy(
            "Do not read results back in every step: .item(), .cpu(), print(loss), bool(tensor) wait "
            "for the GPU.",
            (),
            'gr_active rises; torch.cuda.set_sync_debug_mode("warn") names the lines.',
        ),
        always,
    ),
    Offer(
        "queue_wait",
        Remedy(
            "Keep the host out of the stream: no cudaLaunchHostFunc or stream callback between kernels.",
            ("there is one",),
            "queue_semaphore falls while gr_active is 0, gr_active rises.",
        ),
        always,
    ),
    Offer(
        "queue_wait",
        Remedy(
            "See which stream waits for which: nsys profile --trace=cuda,osrt for a few steps; then wait for "
            "less (wait_event instead of wait_stream), or start the awaited work earlier.",
            (),
            GR_UP,
        ),
        always,
    ),
    Offer(
        "periodic_stall",
        Remedy(
            "Save checkpoints from a thread: copy the state to pinned memory, and write that "
            "(torch.distributed.checkpoint.async_save does both).",
            ("the stalls are checkpoints",),
            "the stalls vanish from timeline.csv, step_s stays.",
        ),
        always,
    ),
    Offer(
        "periodic_stall",
        Remedy(
            "Freeze the garbage collector after warm-up: gc.collect(); gc.freeze(); gc.disable().",
            ("the stalls last some hundredths of a second and come every so many steps",),
            "the stalls vanish from timeline.csv, step_s stays.",
        ),
        short_stalls,
    ),
    Offer(
        "periodic_stall",
        Remedy(
            "Evaluate and log less often, or beside the training: on another GPU, in another process.",
            (),
            "the stalls become rarer in timeline.csv.",
        ),
        always,
    ),
    Offer("host_starved", Remedy("Raise the CPU quota of the container.", (), GR_UP), quota_bites),
    Offer(
        "host_starved",
        Remedy("Give the program cores of its own: others keep its main thread waiting.", (), GR_UP),
        cores_full,
    ),
    Offer(
        "host_starved",
        Remedy(
            "See what the main thread does while the GPU is idle: py-spy dump --pid PID, a few times.",
            (),
            GR_UP,
        ),
        always,
    ),
    Offer(
        "pageable_copies",
        Remedy(
            "Copy from pinned memory: DataLoader(pin_memory=True) and .to(device, non_blocking=True).",
            ("the copies are inputs made on the host",),
            "The rate while copying rises to the link's; the share of copy time falls.",
        ),
        always,
    ),
    Offer(
        "pageable_copies",
        Remedy("Copy less: send uint8 and convert on the GPU.", (), "pcie_rx_bytes_per_s falls."),
        always,
    ),
    Offer(
        "transfer_bound",
        Remedy(
            "Overlap copies with work: copy the next batch in a stream of its own while this one is "
            "computed.",
            ("the source is pinned memory",),
            "The share of copy time falls, pcie_rx_bytes_per_s stays.",
        ),
        copies,
    ),
    Offer(
        "transfer_bound",
        Remedy(
            "Copy less: keep reused data on the GPU, send uint8 or bfloat16.",
            (),
            "pcie_rx_bytes_per_s falls.",
        ),
        copies,
    ),
    Offer(
        "transfer_bound",
        Remedy(
            "Keep what the kernels use in device memory, and copy there what does not fit just before it "
            "is used.",
            (),
            "pcie_rx_bytes_per_s falls, dram_read_bytes_per_s rises.",
        ),
        reads_host,
    ),
    Offer(
        "transfer_bound",
        Remedy(
            "Prefetch unified memory before the kernel that uses it: cudaMemPrefetchAsync.",
            ("it is unified memory (cudaMallocManaged)",),
            "ce_active rises for a while, pcie_rx_bytes_per_s falls after it.",
        ),
        reads_host,
    ),
    Offer(
        "memory_bound",
        Remedy(
            "Use a fused optimizer (fused=True), or one that keeps its state in 8 bits.",
            ("it is a training",),
            "dram_write_bytes_per_s falls.",
        ),
        write_heavy,
    ),
    Offer(
        "memory_bound",
        Remedy(
            "Let gradients go instead of filling them with zeros: zero_grad(set_to_none=True).",
            ("it is a training that clears them otherwise",),
            "dram_write_bytes_per_s falls.",
        ),
        write_heavy,
    ),
    Offer(
        "memory_bound",
        Remedy(
            "Avoid fills: torch.empty instead of torch.zeros where all of it is overwritten.",
            (),
            "dram_write_bytes_per_s falls.",
        ),
        write_heavy,
    ),
    Offer(
        "memory_bound",
        Remedy(
            "Fuse elementwise operations so that intermediate results never reach memory: torch.compile.",
            (),
            "Bytes per step (dram_read_bytes_per_s x step time) fall.",
            topic="chains",
        ),
        always,
    ),
    Offer(
        "memory_bound",
        Remedy(
            "Keep activations in bfloat16: torch.autocast.",
            ("they are in float32 now",),
            "Bytes per step fall by up to half.",
            topic="activations",
        ),
        has_tf32,
    ),
    Offer(
        "memory_bound",
        Remedy(
            "Use a fused attention kernel: torch.nn.functional.scaled_dot_product_attention.",
            ("attention computes its scores one by one",),
            "Bytes per step fall, tensor_active rises.",
            topic="fused_attention",
        ),
        always,
    ),
    Offer(
        "l2_bound",
        Remedy(
            "Use data more often once it is in shared memory or registers: larger tiles per block.",
            ("the kernels are your own, or can be autotuned",),
            "l2_sectors_per_s falls at the same work.",
        ),
        always,
    ),
    Offer(
        "l2_bound",
        Remedy(
            "Fuse kernels that hand each other their results through the L2: torch.compile.",
            (),
            "l2_sectors_per_s x step time falls.",
        ),
        always,
    ),
    Offer(
        "l2_bound",
        Remedy(
            "Fetch what several blocks need once for all of them: TMA multicast within a cluster (CUTLASS).",
            ("the kernels are your own",),
            "l2_sectors_per_s falls at the same work.",
        ),
        has_multicast,
    ),
    Offer(
        "fp32_path",
        Remedy(
            ALLOW_TF32,
            ("it is off", "a relative error of 1e-3 per product is acceptable"),
            "tensor_active rises, fma_active falls.",
            topic="tf32",
        ),
        has_tf32,
        "tf32",
    ),
    Offer(
        "fp32_path",
        Remedy(
            "Run it in bfloat16: torch.autocast('cuda', torch.bfloat16) around forward and loss.",
            ("the model trains in mixed precision",),
            "tensor_active rises, fma_active falls.",
            topic="half_precision",
        ),
        has_tf32,
        "bf16",
    ),
    Offer(
        "fp32_path",
        Remedy(
            "Run it in float16: torch.autocast('cuda', torch.float16) with a GradScaler.",
            ("the model trains in mixed precision",),
            "tensor_active rises, fma_active falls.",
            topic="half_precision",
        ),
        only_fp16,
        "fp16",
    ),
    Offer(
        "fp64_path",
        Remedy(
            "Find what is float64 (NumPy's default) and make it float32 before it reaches the GPU.",
            ("double precision is not needed",),
            "fp64_active falls to 0.",
            topic="float64",
        ),
        always,
    ),
    Offer(
        "wave_tail",
        Remedy(
            "Choose sizes that fill whole waves: a multiple of the SMs in blocks of the kernel's tile.",
            ("the kernels are products",),
            "sm_active rises.",
        ),
        always,
    ),
    Offer(
        "wave_tail",
        Remedy(
            "Run independent work in a second stream: it fills the SMs that are left.", (), "sm_active rises."
        ),
        always,
    ),
    Offer(
        "tensor_starved",
        Remedy(
            "Use channels-last for model and input: .to(memory_format=torch.channels_last).",
            ("it is a convolutional network under autocast",),
            "tensor_active rises, bytes per step fall.",
            topic="channels_last",
        ),
        always,
    ),
    Offer(
        "tensor_starved",
        Remedy(
            "Make matrix dimensions multiples of 8 (16-bit types), better of 64.",
            ("some are not",),
            "tensor_active rises.",
            topic="alignment",
        ),
        always,
    ),
    Offer(
        "tensor_starved",
        Remedy(
            "Bring all products to the tensor cores: in a 16-bit type or TF32, of matrices instead of "
            "vectors, in few groups.",
            ("some miss them",),
            "tensor_active rises.",
            topic="tensor_cores",
        ),
        always,
    ),
    Offer(
        "tensor_starved",
        Remedy(
            "Fuse what runs between the products: torch.compile, scaled_dot_product_attention.",
            (),
            "tensor_active rises.",
            topic="fused_attention",
        ),
        always,
    ),
    Offer(
        "small_grid",
        Remedy("Raise the batch size.", ("latency per request may grow",), "sm_active rises."),
        memory_left,
    ),
    Offer(
        "small_grid",
        Remedy(
            "Run independent work side by side: several streams, or several processes under MPS.",
            ("there is independent work",),
            "sm_active rises.",
        ),
        always,
    ),
    Offer(
        "small_grid",
        Remedy(
            "Use kernels that split the long dimension (split-K, split-KV), or fuse the small ones: "
            "torch.compile.",
            (),
            "sm_active rises.",
        ),
        always,
    ),
    Offer(
        "latency_bound",
        Remedy(
            "Find the kernels that take the time and look at one with Nsight Compute: stalls, "
            "occupancy, access pattern.",
            (),
            "Some resource moves towards its roof.",
        ),
        always,
    ),
    Offer(
        "latency_bound",
        Remedy("Let a compiler fuse and re-tile it: torch.compile.", (), "The share of latency falls."),
        always,
    ),
    Offer(
        "comm_exposed",
        Remedy(
            "Overlap communication with the backward pass: larger DDP buckets, or prefetch in FSDP.",
            (),
            "The share of communication falls at the same nvlink_rx_bytes_per_s.",
        ),
        always,
    ),
    Offer(
        "comm_exposed",
        Remedy(
            "Communicate less often: gradient accumulation.",
            ("a larger effective batch is acceptable",),
            "The share of communication falls.",
        ),
        always,
    ),
    Offer(
        "power_capped",
        Remedy(
            "Ask the operator whether the board's power limit may be raised; the program itself is "
            "not to blame.",
            (),
            "gpc_clock rises.",
        ),
        always,
    ),
    Offer(
        "thermal",
        Remedy(
            "Have the cooling checked: fans, airflow, dust, inlet temperature.",
            (),
            "capped_thermal falls to 0.",
        ),
        always,
    ),
    Offer(
        "gpu_shared",
        Remedy("Give each program a GPU of its own, or run them under MPS.", (), "ctxsw falls to 0."),
        always,
    ),
    Offer(
        "link_degraded",
        Remedy(
            "Have the board reseated or the slot and riser checked.",
            (),
            "pcie_generation and pcie_width reach their maximum.",
        ),
        always,
    ),
)


def remedies_for(rule: str, e: Evidence) -> tuple[Remedy, ...]:
    """What to try against *rule* in this recording, the most likely first."""
    return tuple(offer.remedy for offer in offers_for(rule, e))


def offers_for(rule: str, e: Evidence) -> tuple[Offer, ...]:
    """The offers against *rule* that apply to this recording, in the order of the table."""
    return tuple(offer for offer in OFFERS if offer.rule == rule and offer.applies(e))
