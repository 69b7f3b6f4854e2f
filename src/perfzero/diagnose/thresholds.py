"""
Every limit a verdict depends on, in one table, each with the reason it has this value.

A number in a comparison anywhere else in `diagnose` is a defect, and a test looks for them.
"anchored" limits come from a document or a measurement, named in `source`; the others are our
choice, and say so. What a fix gains is argued from the numbers at the end. Limits of other rooms stand
beside their use (`perfzero.limits`); docs/thresholds.md lists all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from perfzero.limits import ASSUMED, CHOICE, DCGM, H200, H200_LOOKS, NVIDIA_TRIAGE, TENSORFLOW, Limit, Unit


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit: what it is held against, why it stands where it stands, and who says so."""

    name: str
    value: float
    unit: Unit
    reason: str
    source: str


# Gates: whether the data may be judged at all.
IMPOSSIBLE_SHARE = Threshold(
    "impossible_share",
    0.01,
    "ratio",
    "One impossible value in a hundred may be a glitch; more is a counter that does not work.",
    CHOICE,
)
DROPPED_SHARE = Threshold(
    "dropped_share",
    0.05,
    "ratio",
    "Each window may lose its first and last sample; a twentieth of all rows means broken time stamps.",
    H200,
)
LOST_SHARE = Threshold(
    "lost_share", 0.5, "ratio", "With half of the samples missing, what is left need not be typical.", CHOICE
)
LOST_DOUBT = Threshold("lost_doubt", 0.01, "ratio", "Losses up to one percent cannot move a share.", CHOICE)
L2_SLACK = Threshold(
    "l2_slack",
    1.05,
    "ratio",
    "R x D_r above what the L2 can deliver is impossible; 5 % for clock error.",
    "science: physical check of the L2/DRAM ratio",
)
DRAM_SLACK = Threshold(
    "dram_slack",
    1.05,
    "ratio",
    "DRAM cannot be busy longer than the engines that use it; 5 % for counter error.",
    CHOICE,
)
DRAM_NOISE = Threshold(
    "dram_noise", 0.02, "ratio", "Refresh, ECC scrubbing and display traffic without any kernel.", CHOICE
)
DEAD_COUNTER = Threshold(
    "dead_counter", 1e-6, "ratio", "No running kernel leaves every counter below one in a million.", CHOICE
)
SMI_CONTRADICTS = Threshold(
    "smi_contradicts",
    0.5,
    "ratio",
    "If some kernel ran half of the time, counters that are all zero are dead (zeros after Xid 31).",
    "DCGM issue 303",
)
SHORTEST_LOOK = Threshold(
    "shortest_look", 0.05, "seconds", "Less than 50 ms of samples is shorter than many a single step.", CHOICE
)
SHORT_LOOK = Threshold(
    "short_look", 2.0, "seconds", "Two seconds of samples hold several steps of most programs.", CHOICE
)
NO_WORK = Threshold(
    "no_work",
    0.05,
    "ratio",
    "A GPU active less than 5 % in every second has finished or not begun.",
    TENSORFLOW,
)
AT_WORK = Threshold(
    "at_work",
    0.9,
    "ratio",
    "A program that gives the GPU something to do in nine seconds of ten is running, however little that is: "
    "one that compiles in each step kept an H200 busy 3 % of the time.",
    CHOICE,
)
KEEPS_ON = Threshold(
    "keeps_on",
    0.25,
    "ratio",
    "A program whose longest rest takes less of the time than this works on: that are five bursts at least, "
    "the last of them near the end. Workers of a loader that delivered every two seconds kept an H200 busy "
    "3 % of the time, and its longest rest 0.04.",
    CHOICE,
)
COPY_QUIET = Threshold(
    "copy_quiet",
    0.02,
    "ratio",
    "Pageable copies keep the copy engine at 24 % while GR reads 3 %; 2 % is background.",
    H200,
)
NOT_STEADY = Threshold(
    "not_steady",
    0.10,
    "ratio",
    "A shift of 10 % between the halves of the steady stretch is an incident.",
    "Greyhound/FALCON: at least 10 % change",
)
ATYPICAL = Threshold(
    "atypical",
    0.50,
    "ratio",
    "Windows of half a second between the bursts of a data loader saw 0.03 % of activity, GPM 15 %; in 40 "
    "other recordings the two differ by a fifth at most.",
    H200,
)
SOURCES_DISAGREE = Threshold(
    "sources_disagree",
    0.15,
    "ratio",
    "Both read the same engine: PM sampling and GPM gave the same numbers side by side.",
    H200,
)

# Time shares: to which class a sample's time belongs.
COPY_NOISE = Threshold(
    "copy_noise",
    0.02,
    "ratio",
    "The sampler's own records are about 2 % of a PCIe 5 link at a period of 10 µs; below is no copy.",
    H200,
)
COPY_FULL = Threshold(
    "copy_full",
    0.10,
    "ratio",
    "During a pageable copy the engine moves data 24 % and the link is used 12 % of the time; the host "
    "fills staging buffers in between. From a tenth on, all the idle time around is the copy's.",
    H200,
)
BOUND = Threshold(
    "bound",
    0.60,
    "ratio",
    "A unit used above 60 % of its roof is under pressure, above 80 % it binds.",
    NVIDIA_TRIAGE,
)
SUBSTANTIAL = Threshold(
    "substantial",
    0.10,
    "ratio",
    "A resource below a tenth of its roof takes no visible part of a sample's time.",
    CHOICE,
)
SMALL_GRID = Threshold(
    "small_grid", 0.50, "ratio", "SM activity below one half is likely an ineffective use of the GPU.", DCGM
)
COMM_SM = Threshold(
    "comm_sm",
    0.30,
    "ratio",
    "NCCL kernels hold a few SMs up to about a quarter of them.",
    "science: rule C1",
)
COMM_LINK = Threshold(
    "comm_link",
    0.15,
    "ratio",
    "A collective that is the only thing running uses well over this share of its link.",
    CHOICE,
)
ZOOM_BUSY = Threshold(
    "zoom_busy", 0.010, "seconds", "10 ms of busy time at 10 µs is 1,000 samples: shares good to 3 %.", CHOICE
)
ZOOM_TYPICAL = Threshold(
    "zoom_typical",
    0.10,
    "ratio",
    "A burst whose mean rates differ by more than this from the long windows saw another part of the step.",
    CHOICE,
)
STEPS_TYPICAL = Threshold(
    "steps_typical",
    0.05,
    "ratio",
    "Whole steps whose shares differ by more than this from those of all the time are not all of it: "
    "edges of windows cost a few percent at random.",
    CHOICE,
)
ANY_WORK = Threshold(
    "any_work",
    0.02,
    "ratio",
    "Above 2 % of GR activity at least one kernel ran within the millisecond.",
    CHOICE,
)

# Step 1 and the rules of idleness.
IDLE_INFO = Threshold("idle_info", 0.05, "ratio", "Input-bound from 5 % of the step time on.", TENSORFLOW)
IDLE_WATCH = Threshold(
    "idle_watch", 0.10, "ratio", "Idle or waiting for more than 10 % of the time is flagged.", NVIDIA_TRIAGE
)
IDLE_BAD = Threshold("idle_bad", 0.20, "ratio", "Highly input-bound from 20 % on.", TENSORFLOW)
IDLE_LINES = Threshold(
    "idle_lines",
    0.05,
    "ratio",
    "From this idle time on lines are named that the GPU waits for; nobody looks for the cause of less than "
    "the rules call idle. Of 0.1 % a line was said to make 100 %, between 0 and 100 %.",
    TENSORFLOW,
)
FINE_IDLE = Threshold(
    "fine_idle",
    0.50,
    "ratio",
    "Launch gaps are microseconds, so a kernel runs in nearly every millisecond; a wait for data leaves "
    "whole milliseconds empty. Half of the idle time decides.",
    CHOICE,
)
PAUSED = Threshold(
    "paused",
    0.40,
    "ratio",
    "Idle time of which this part lies in pauses of 0.2 s after many beats may be stalls, or waits in each "
    "step. A checkpoint every few seconds: 0.45 and 0.87; a loader's bursts: 0.56 and 0.88; eleven programs "
    "whose host is late in each step: 0.",
    "measured: the zoo on an H200, 2026-11-29",
)
TINY_KERNEL = Threshold(
    "tiny_kernel",
    20e-6,
    "seconds",
    "A launch costs the host 5 to 20 µs under a framework; kernels shorter than that cannot hide it.",
    "NVIDIA: launch latency; science: rule I1b; 50 tiny linears on an H200: 3.2 µs per kernel",
)
FAST_LAUNCHES = Threshold(
    "fast_launches",
    20_000.0,
    "count/s",
    "Eager PyTorch reached 39,000 to 56,000 launches/s with its main thread saturated; half is many.",
    H200,
)
SOME_LAUNCHES = Threshold(
    "some_launches",
    1_000.0,
    "count/s",
    "Fewer launches than one per millisecond cannot leave fine gaps.",
    CHOICE,
)
MAIN_BUSY = Threshold(
    "main_busy", 0.80, "ratio", "A thread that works or spins four fifths of the time is the limit.", CHOICE
)
TURNS = Threshold(
    "turns",
    1.1,
    "ratio",
    "Cores, each 1. Threads that take turns use one together: 0.96 to 1.01 in 40 programs of PyTorch. Where "
    "it is more some of them work at once.",
    H200,
)
TAKES_TURNS = Threshold(
    "takes_turns",
    0.30,
    "ratio",
    "Of a core. Forward pass and update take half as long as the backward pass at least, so a main thread "
    "that takes turns with autograd's is at work for a third of the time: 0.54 in two programs of PyTorch. "
    "Of one that is at work for less, what other threads do tells nothing.",
    H200,
)
MAIN_SLEPT = Threshold(
    "main_slept",
    0.50,
    "ratio",
    "A main thread may spin all through the busy time; if it slept half of the idle time it waited.",
    CHOICE,
)
WORKER_BUSY = Threshold(
    "worker_busy", 0.50, "ratio", "Loader processes that keep up sleep; half a core each is work.", CHOICE
)
IO_WAIT = Threshold("io_wait", 0.10, "ratio", "A tenth of the time blocked on a disk is felt.", CHOICE)
DISK_READS = Threshold(
    "disk_reads", 50e6, "bytes/s", "50 MB/s is what a network file system or a hard disk gives.", CHOICE
)
THROTTLED = Threshold(
    "throttled", 0.05, "ratio", "A CPU quota that bites 5 % of the time delays every step.", CHOICE
)
RUNQUEUE = Threshold(
    "runqueue", 0.10, "ratio", "A main thread without a core 10 % of the time cannot feed the GPU.", CHOICE
)
CPU_COMPUTES = Threshold(
    "cpu_computes",
    2.0,
    "ratio",
    "Cores, each 1. Beside its workers a program that feeds a GPU keeps one busy, 1.00 in 24 programs: when "
    "the main thread rests, that of the backward pass works. Operators on the CPU take all there are; so do, "
    "for milliseconds after each, threads that spin until there is more: 3.7 to 4.8 in three programs. So "
    "the remedy has that for its condition, and is first only where stacks show the host in such calls.",
    H200,
)
CPU_FULL = Threshold("cpu_full", 0.90, "ratio", "No core is left for another loader process.", CHOICE)

# The front end's queue: docs/frontend.md.
FULLY_BUSY = Threshold(
    "fully_busy", 0.98, "ratio", "A sample in which a kernel ran nearly all of the time.", CHOICE
)
QUEUE_SEEN = Threshold(
    "queue_seen",
    0.5e-6,
    "seconds",
    "Each launch keeps the queue from being empty for 1.6 to 3.4 µs; below a third of that the work went "
    "through another queue, as in one ResNet-50, where it was 0.0001 µs.",
    H200,
)
QUEUE_EMPTY = Threshold(
    "queue_empty",
    0.98,
    "ratio",
    "Without a kernel and with nothing submitted the queue read 0.99 to 1; with a host function 0.81.",
    H200,
)
QUEUE_WAITS = Threshold(
    "queue_waits",
    0.05,
    "ratio",
    "A queue that waits for a host function polls its semaphore 19 % of the time; with nothing submitted 0.",
    H200,
)
RESOLVED = Threshold(
    "resolved", 0.50, "ratio", "Windows that say what most of the idle time was need no burst.", CHOICE
)

HOST_AHEAD = Threshold(
    "host_ahead",
    0.50,
    "ratio",
    "A host that runs ahead has the next command waiting 64 to 96 % of the busy time, one read-back per "
    "step included.",
    H200,
)
HOST_FAR_AHEAD = Threshold(
    "host_far_ahead",
    0.90,
    "ratio",
    "Kernels shorter than a framework's launches may come late all the same, unless the next command waits "
    "for nearly all of the busy time. A training of kernels of 11 µs that launches too slowly: 70 %.",
    CHOICE,
)
HOST_LATE = Threshold(
    "host_late",
    0.20,
    "ratio",
    "A host that launches too late never has the next command waiting: 0.0 %.",
    H200,
)
HOST_NOT_AHEAD = Threshold(
    "host_not_ahead", 0.30, "ratio", "Above, launches were early enough for a part of the kernels.", CHOICE
)
OVERLAP = Threshold("overlap", 0.01, "ratio", "Shares that exceed the whole by less are rounding.", CHOICE)
LATE_THROUGHOUT = Threshold(
    "late_throughout",
    0.90,
    "ratio",
    "Of the idle time of eager tiny kernels 99 to 100 % lies beside late launches, of an optimizer's 68 %.",
    H200,
)
RESTS_ELSEWHERE = Threshold(
    "rests_elsewhere",
    0.50,
    "ratio",
    "Beside the part with late launches the GPU is idle for less of the time, or launches are late all over. "
    "With an optimizer that updates each parameter by itself 46 %, with the small kernels of a training "
    "throughout 68 and 92 %.",
    H200,
)
GC_STALL = Threshold(
    "gc_stall",
    0.50,
    "seconds",
    "A full collection visits 3 (busy host, scattered memory) to 10 million objects a second (Python 3.11, 2 "
    "virtual cores, 2026-11-30); a training program that keeps its data as objects holds one or two million.",
    CHOICE,
)
UNDECIDED = Threshold(
    "undecided",
    0.20,
    "ratio",
    "Two causes of the same time whose confidence differs by less are rivals.",
    CHOICE,
)

# Copies and links.
PAGEABLE_RATE = Threshold(
    "pageable_rate",
    0.35,
    "ratio",
    "Pageable copies reached 12 % of the link, pinned ones 100 %; a third lies well between.",
    H200,
)
ENGINE_WAITS = Threshold(
    "engine_waits",
    0.60,
    "ratio",
    "The engine moved data 16 and 24 % of the time in two programs that copied from ordinary memory, and "
    "waited for the host to fill staging buffers in between; from pinned memory it never waits.",
    H200,
)
COPY_ALONE = Threshold(
    "copy_alone",
    0.05,
    "ratio",
    "While the host stages a copy the GPU does nothing else (GR 0.1 and 3 %); a short pinned copy that "
    "fills part of a sample has kernels beside it.",
    H200,
)
ENGINE_IDLE = Threshold(
    "engine_idle",
    0.05,
    "ratio",
    "A copy engine that moves data less than a twentieth of the time does not fill a link.",
    CHOICE,
)
KERNEL_BESIDE = Threshold(
    "kernel_beside",
    0.50,
    "ratio",
    "If kernels fill the link, one runs most of the time in which it is full.",
    CHOICE,
)
LINK_FULL = Threshold(
    "link_full", 0.60, "ratio", "A link above 60 % of its roof is under pressure.", NVIDIA_TRIAGE
)
BOTH_WAYS = Threshold(
    "both_ways",
    0.50,
    "",
    "Gradients or states that go to the host and come back fill both directions alike; inputs and results do "
    "not: 57 GB/s against 7, 27 against 2.",
    H200,
)
COMM_WATCH = Threshold("comm_watch", 0.06, "ratio", "Collectives moderate above 6 % of the step.", TENSORFLOW)
COMM_BAD = Threshold("comm_bad", 0.20, "ratio", "Collectives high above 20 % of the step.", CHOICE)

# Memory.
MEMORY_INFO = Threshold("memory_info", 0.10, "ratio", "Below a tenth of the time no fix can be felt.", CHOICE)
MEMORY_WATCH = Threshold("memory_watch", 0.25, "ratio", "A quarter of the time is worth a fusion.", CHOICE)
MEMORY_BAD = Threshold("memory_bad", 0.50, "ratio", "Half of the time or more.", CHOICE)
AMPLIFICATION_WATCH = Threshold(
    "amplification_watch",
    0.50,
    "ratio",
    "Half of what the SMs ask of the L2 has to come from DRAM.",
    "science: L2/DRAM ratio",
)
AMPLIFICATION_BAD = Threshold(
    "amplification_bad", 0.80, "ratio", "Nearly nothing is found in the L2 twice.", "science: L2/DRAM ratio"
)
HIT_LOW = Threshold(
    "hit_low", 0.50, "ratio", "Under half of the sectors found in the L2.", "science: rule M2"
)
WRITE_HEAVY = Threshold(
    "write_heavy", 1.5, "", "More writes than reads: optimiser, fills, activation stores.", "science: rule M4"
)
READ_ONLY = Threshold(
    "read_only",
    0.05,
    "",
    "A decode loop writes 0.03 % of what it reads; kernels that hand results on through memory write half.",
    H200,
)
SOME_WORK = Threshold(
    "some_work",
    0.01,
    "ratio",
    "A decode loop keeps the tensor cores at 3 %; a lookup computes nothing.",
    H200,
)
ALL_USED = Threshold(
    "all_used",
    0.90,
    "",
    "Bytes the SMs ask for per byte read from DRAM: below, memory is fetched that nobody wants.",
    CHOICE,
)
L2_BOUND = Threshold(
    "l2_bound", 0.80, "ratio", "A unit used above 80 % of its roof binds: see bound.", NVIDIA_TRIAGE
)

# Compute.
TENSOR_UNUSED = Threshold(
    "tensor_unused",
    0.05,
    "ratio",
    "Below 5 % the tensor cores do not carry the arithmetic: 7 % in a ResNet-50 in NCHW that uses them, "
    "0.0003 % in an FP32 product.",
    H200,
)
TENSOR_STARVED = Threshold(
    "tensor_starved",
    0.50,
    "ratio",
    "Tensor cores in use for less than half of the busy time: 94 % in a large bf16 product and 78 % in a "
    "healthy transformer, 14 % in a ResNet-50 in channels-last, 7 % in NCHW.",
    H200,
)
FMA_HEAVY = Threshold(
    "fma_heavy",
    0.40,
    "ratio",
    "FP32 or FP64 pipes that busy do matrix work: 77 % in an FP32 product, 10 % in a ResNet-50 with its "
    "normalisations, 2 % in an elementwise chain.",
    H200,
)
FP64_HEAVY = Threshold(
    "fp64_heavy",
    0.15,
    "ratio",
    "Networks have no double precision at all (0.00 in 20 of 21 programs); a special function in float64, "
    "which is mostly integer work and branches, uses the FP64 pipe for 27 % of the time.",
    H200,
)
FP64_USED = Threshold(
    "fp64_used",
    0.005,
    "ratio",
    "At most 0.0007 in 145 recordings of programs without double precision. Memory keeps adding doubles, 24 "
    "bytes each, below 0.012 of an H200's FP64 pipe.",
    H200,
)
COMPUTE_WATCH = Threshold("compute_watch", 0.10, "ratio", "A tenth of the time and more.", "science: rule T1")
COMPUTE_BAD = Threshold("compute_bad", 0.30, "ratio", "Nearly a third of the time and more.", CHOICE)
TAIL_FULL = Threshold("tail_full", 0.95, "ratio", "All SMs but a handful have work.", CHOICE)
TAIL_LONGEST = Threshold(
    "tail_longest",
    200e-6,
    "seconds",
    "The last blocks of a kernel take as long as any, some 10 to 100 µs; longer dips are other kernels.",
    CHOICE,
)
TAIL_INFO = Threshold(
    "tail_info",
    0.05,
    "ratio",
    "Training loses 3 to 7 % so, a decode loop with kernels of 23 µs 14 %.",
    H200,
)
TAIL_WATCH = Threshold("tail_watch", 0.20, "ratio", "A fifth of all SM time is worth other tiles.", CHOICE)
LATENCY_WATCH = Threshold(
    "latency_watch", 0.25, "ratio", "A quarter of the time at no roof at all is worth a look.", CHOICE
)
FEW_WARPS = Threshold(
    "few_warps",
    0.15,
    "ratio",
    "Nine warps an SM, of 64. Products do with 0.08 to 0.14, for each of their warps asks for much at once; "
    "where nothing is at a roof so few are a reason.",
    H200,
)
SM_GOOD = Threshold("sm_good", 0.80, "ratio", "SM activity of 0.8 is necessary, though not sufficient.", DCGM)
SM_DOCUMENT = Threshold(
    "sm_document",
    0.70,
    "ratio",
    "Below 0.7 cycles_active/cycles_elapsed counts as moderately idle.",
    "the document that asked for this tool",
)
GR_GOOD = Threshold(
    "gr_good", 0.90, "ratio", "Active nine tenths of the time, see idle_watch.", NVIDIA_TRIAGE
)
WELL_TENSOR = Threshold(
    "well_tensor", 0.40, "ratio", "The tensor cores bind for the largest part of the time.", CHOICE
)
WELL_BOUND = Threshold(
    "well_bound", 0.60, "ratio", "Some resource is near its roof for most of the time.", NVIDIA_TRIAGE
)

# The map of the step: what each phase looks like. docs/step_map.md.
RESOLVES_KERNELS = Threshold(
    "resolves_kernels",
    100e-6,
    "seconds",
    "Samples up to this long mostly hold one kernel: 85 % of those of 50 µs in a ResNet-50 and a GPT.",
    H200,
)
PHASE_BUSY = Threshold(
    "phase_busy", 0.50, "ratio", "Where kernels run less than half of the time, the GPU waits.", CHOICE
)
PHASE_EMPTY = Threshold(
    "phase_empty",
    0.20,
    "ratio",
    "Kernels that fill less than a fifth of the SMs are too small for the GPU; 95 % of a GPT's fill more.",
    H200,
)
MATRIX_SEEN = Threshold(
    "matrix_seen",
    0.12,
    "ratio",
    "Tensor activity of a single kernel: of samples within matrix products 95 % read 0.14 and more, of those "
    "within others 95 % 0.03 and less.",
    H200,
)
MATRIX_MEAN = Threshold(
    "matrix_mean",
    0.40,
    "ratio",
    "Tensor activity over many kernels: good ones reach 0.8 to 0.95, so they run half of the time.",
    H200,
)
NO_MATRIX = Threshold(
    "no_matrix",
    0.05,
    "ratio",
    "Below, no kernel of note multiplies matrices: normalisations and optimizers read 0 to 0.03.",
    H200,
)
FMA_BESIDE = Threshold(
    "fma_beside",
    0.20,
    "",
    "FP32 work per tensor work of attention: 0.34, by its softmax; of matrix products 0.00 to 0.15.",
    H200,
)
FMA_OVER = Threshold(
    "fma_over",
    0.80,
    "",
    "With nearly as much FP32 work as tensor work it is no product: fused elementwise kernels read 2.",
    H200,
)
ATTENTION_FMA = Threshold(
    "attention_fma", 0.08, "ratio", "FP32 pipe within fused attention: 0.11 to 0.22.", H200
)
ATTENTION_LOW = Threshold(
    "attention_low", 0.25, "ratio", "Tensor activity within fused attention: 0.31 to 0.42.", H200
)
ATTENTION_ISSUE = Threshold(
    "attention_issue",
    0.25,
    "ratio",
    "Instructions issued within fused attention: 0.31 to 0.49; within large products 0.10 to 0.15.",
    H200,
)
ATTENTION_MEMORY = Threshold(
    "attention_memory",
    0.45,
    "ratio",
    "DRAM within fused attention: 0.19 to 0.38 of the roof; that is what it is fused for.",
    H200,
)
ATTENTION_MIXED = Threshold(
    "attention_mixed",
    0.30,
    "ratio",
    "The same over many kernels: products and elementwise kernels in turn read like attention but for the "
    "memory, of which they take 0.4.",
    H200,
)
MEMORY_HIGH = Threshold(
    "memory_high",
    0.40,
    "ratio",
    "Share of the DRAM roof of kernels that move data: optimizers and elementwise ones reach 0.5 to 1.",
    H200,
)
SOMETHING = Threshold(
    "something",
    0.12,
    "ratio",
    "Kernels that use neither the memory, nor the FP32 pipe, nor issue slots more than this do nothing that "
    "counters would tell apart.",
    CHOICE,
)
UPDATE_WRITES_LOW = Threshold(
    "update_writes_low",
    0.36,
    "ratio",
    "Share of writes of an optimizer: SGD with momentum reads three numbers per weight and writes two "
    "(0.40), Adam four and three (0.43).",
    "arithmetic; 0.40 to 0.46 on an H200",
)
UPDATE_WRITES_HIGH = Threshold(
    "update_writes_high", 0.47, "ratio", "Above, as much is written as read: copies and casts.", CHOICE
)
UPDATE_LONGEST = Threshold(
    "update_longest",
    0.30,
    "ratio",
    "An update that takes longer than this, as a share of the step, is more likely the step's own work.",
    CHOICE,
)
UPDATE_PRODUCTS = Threshold(
    "update_products",
    0.10,
    "ratio",
    "What of an optimizer's time looks like products is its edges; part of a ResNet-50's backward pass that "
    "moves as much has 0.13 and more.",
    H200,
)
UPDATE_EVEN = Threshold(
    "update_even",
    0.25,
    "ratio",
    "Spread of its DRAM traffic over its time: an optimizer does the same to every weight.",
    CHOICE,
)
DOMINANT = Threshold(
    "dominant", 0.50, "ratio", "A phase is named after what takes most of its time, or is mixed.", CHOICE
)
FINE_COVERS = Threshold(
    "fine_covers",
    0.50,
    "ratio",
    "Samples of bursts that cover half of a phase say what it is made of; less may be any part.",
    CHOICE,
)

# Power, links, neighbours.
CAPPED = Threshold("capped", 0.20, "ratio", "The cap acted in a fifth of the readings.", CHOICE)
HOT = Threshold("hot", 0.05, "ratio", "Thermal slowdown is never normal; 5 % excludes a glitch.", CHOICE)
CLOCK_LOW = Threshold(
    "clock_low", 0.95, "ratio", "Clock below 95 % of its maximum while busy.", "science: rule P1"
)
CLOCK_LOSS = Threshold("clock_loss", 0.05, "ratio", "Below 5 % of the time, lost clock is not felt.", CHOICE)
AT_ROOF = Threshold(
    "at_roof",
    0.50,
    "ratio",
    "A GPU at some roof half of the time that it works draws its power for good reason.",
    CHOICE,
)
CLOSE_CALL = Threshold(
    "close_call",
    0.05,
    "ratio",
    "Of two causes whose fixes save the same to within 5 points, both are told.",
    CHOICE,
)
SWITCHING = Threshold(
    "switching", 0.02, "ratio", "Context switches above 2 % mean a shared GPU.", "science: gate G1"
)
HEADROOM = Threshold(
    "headroom",
    0.45,
    "ratio",
    "Of the memory. With as much free a batch 1.8 times as large fits, if all that is in use grows with it: "
    "1 / (1 - 0.45). What the larger batch gains at least is told for one that fits.",
    CHOICE,
)

Pair: TypeAlias = tuple[float, float]
"""Low and high."""

# Priors of the gain model: which part of a class's time a fix usually recovers, low and high.
# They are assumptions until pairs of runs before and after have been collected; each gain names its own.

RECOVER_INPUT: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.80, 1.00)
"""Of idle time that waits for input: it keeps up, or nearly, once enough workers or a faster disk feed it."""

RECOVER_LAUNCH: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.70, 1.00)
"""Of the gaps between kernels that come from late launches: a graph takes most of them away."""

RECOVER_GRAPH: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.95, 1.00)
"""
The same of a step that is recorded whole, and the launch in each kernel as well: a decoder of 463 launches a
token took 6.5 ms and 1.3 with a graph on an H200, 50 small products 727 us and 96.
"""

RECOVER_FEWER: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.50, 0.95)
"""Of the gaps where fewer kernels are launched, not all at once: half of them may stay."""

RECOVER_SYNC: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.30, 0.95)
"""Of the idle time at waits: some can go, and some only move to where the result is needed."""

RECOVER_HOST: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.30, 0.95)
"""Of idle time with no narrower cause: a part of what the host does then can go or be done beside."""

RECOVER_HELD: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.80, 1.00)
"""
Of the idle time in which memory is cleared: the host has other work to do in it, but not much while a call
for memory lasts.
"""

RECOVER_QUEUE: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.20, 0.95)
"""Of the idle time in which submitted work waits: nothing says for what, so a fix may reach little."""

RECOVER_STALL: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.50, 0.95)
"""Of the time of stalls: moved to a thread they cost half at most, for some work stays."""

RECOVER_DOUBLE: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.60, 1.00)
"""Of the time in double precision: not all of its arithmetic need be meant to be float32."""

RECOVER_TAIL: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.00, 0.50)
"""Of SM time in tails: other tiles or other work may fill half of it, or none."""

RECOVER_COPY: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.60, 0.95)
"""Of the time of copies that need not be made, or can be overlapped with work."""

EXCHANGED: Annotated[int, Limit("count", ASSUMED)] = 4
"""Batches for one exchange with the host: as many as somebody adds up, so the gain is told for some."""

RECOVER_SELDOM: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.60, 0.80)
"""
Of the time of copies that `EXCHANGED` batches share: three quarters of it, a little more or less. Of
gradients of 2.1 GB that went to the host and back after each batch on an H200 it was 0.71.
"""

RECOVER_LESS: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.50, 1.00)
"""Of the time of copies, where less is copied: bfloat16 is half of float32; what stays on the GPU is all."""

RECOVER_STAGING: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.60, 1.00)
"""Of the time of pageable copies: pinned ones of 512 MiB took a step from 73-79 ms to 9 on an H200."""

RECOVER_KEPT: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.90, 1.00)
"""
Of the time of copies that fill the link: no host makes new data at 33 GB/s and more, so it lies there, and
where the GPU keeps it nothing is copied.
"""

RECOVER_MEMORY: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.15, 0.50)
"""Of the bytes of kernels at the memory's roof: a part can be fused away or halved in width."""

RECOVER_STREAM: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.15, 0.80)
"""
The same of kernels that hardly compute: five elementwise ones fused into one move 3 bytes instead of 12.
"""

RECOVER_PRECISION: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.40, 0.90)
"""Of the time of the FP32 pipe: as much of it may be products, which the tensor cores can take."""

RECOVER_MATRIX: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.95, 1.00)
"""The same where the pipe is so busy that all of it is matrix work."""

RECOVER_STARVED: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.15, 0.80)
"""
Of time in which tensor cores wait throughout: ResNet-50, NCHW to channels-last, took a step from 104 to 54
ms on an H200, which is 0.68 of it.
"""

RECOVER_SMALL: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.20, 0.80)
"""Of the time of grids that leave SMs empty: a part can be batched, overlapped or fused."""

RECOVER_LATENCY: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.10, 0.50)
"""Of the time of kernels at no roof: a part goes with kernels that hide their waits better."""

RECOVER_UNKNOWN: Annotated[float, Limit("ratio", ASSUMED)] = 0.95
"""
The most that goes of kernels that are slow for a reason nobody knows: of one serial one on an H200 0.88.
"""

RECOVER_COMM: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.30, 0.90)
"""Of the time of collectives: what can be hidden behind work."""

TENSOR_REACHED: Annotated[Pair, Limit("ratio", ASSUMED)] = (0.40, 0.75)
"""
Share of the tensor cores' peak, at the clock measured before the fix, that matrix products reach.

The upper end allows for a board that is not power-capped: on an H200 at its limit an 8192³ bf16 product
reached 659 of 1,070 TFLOP/s (0.62); shapes that fit badly take the rest.
"""

PINNED_REACHES: Annotated[float, Limit("ratio", ASSUMED)] = 0.5
"""Of the link's rate, by copies from pinned memory at least: by large ones all of it."""

STAGING_VARIES: Annotated[float, Limit("ratio", H200)] = 1.05
"""The rate at which one host staged the same copy changed by 3 % within a minute (H200)."""

CORE_SHARED: Annotated[float, Limit("ratio", H200)] = 0.6
"""
What a CPU core has left to give, per thread that is busy, when its second thread is busy too: together the
two do 1.2 to 1.3 times the work of one. On an H200's host with 16 threads, 14 loaders did 3.0 times the
work of 4, so 0.87 of 14/4.
"""

GRAPH_KERNEL_S: Annotated[float, Limit("seconds", H200_LOOKS)] = 1.68e-6
"""
From one kernel of a CUDA graph to the next: 593,000/s of 1.68 µs each on an H200 (d12 of docs/zoo.md), the
fastest seen; 535,000/s of 1.87 µs of another program.
"""

LAUNCH_RAMP_S: Annotated[float, Limit("seconds", H200)] = 1.4e-6
"""
Part of a kernel's active time that is its launch and not its work: the same tiny kernels were active for
3.2 µs each when launched one by one, and 1.9 µs in a graph (H200).
"""

LEAST_OF_RAMP: Annotated[float, Limit("ratio", H200_LOOKS)] = 0.5
"""
Of `LAUNCH_RAMP_S`, what a graph spares of each kernel at least: 0.8 to 0.96 in three programs that went on
with the same kernels, of 3.1, 3.8 and 7.6 µs on an H200. Longer ones may hide more of their launch.
"""

LARGER_BATCH: Annotated[float, Limit("ratio", ASSUMED)] = 4.0
"""
Times as many samples a step as now: a larger batch is as large as somebody makes it, so the gain is told for
one that a training of many small steps mostly bears.
"""

STEP_TAKES: Annotated[float, Limit("ratio", ASSUMED)] = 1.1
"""
How much longer a step of a larger batch takes at most where launches set its pace, for those stay. And how
much shorter at best: hosts change their pace by a tenth.
"""

TIER_CONFIDENCE: Annotated[Mapping[str, float], Limit("ratio", CHOICE)] = {"pm": 1.0, "gpm": 0.6, "nvml": 0.3}
"""How much a signal tier can prove: counters of samples, averages, or only that some kernel ran."""

THRESHOLDS: tuple[Threshold, ...] = tuple(t for t in list(globals().values()) if isinstance(t, Threshold))
