"""Verdicts: what rules, gates and the four questions say, and what a gain rests on."""

from __future__ import annotations

from collections.abc import Mapping

VERDICTS: Mapping[str, str] = {
    "gain.from_disk": "the input keeps up, or nearly, once it comes from a faster disk or is read ahead",
    "launch.main_thread": ", main thread {main} of a core",
    "launch.threads": ", main thread {main} of a core, the program's threads in turns {together}",
    "launch.shorter": (
        "a kernel takes {kernel} on average, and to launch one takes a host {least} and more: so launches "
        "set the pace, though {ahead} of the time a kernel runs the next one waits already"
    ),
    "launch.paced": (
        "a kernel takes {kernel} on average, and the host launches one in {pace}: so launches set the pace, "
        "though {ahead} of the time a kernel runs the next one waits already"
    ),
    "launch.host_unknown": "; its host activity is unknown",
    "launch.title": "The GPU waits for kernel launches {idle} of the time.",
    "launch.rate": "{launches} kernels/s of {kernel} each{host}",
    "launch.fine_idle": "{fine_idle} of the idle time lies between kernels less than a millisecond apart",
    "launch.of_each_step": " of each step of {step}",
    "launch.none_queued": ", and none waits in the queue",
    "gain.gaps_there_shrink": "the gaps between the kernels there shrink by 70 % at least",
    "launch.in_part": (
        "in one part, {of_time}{step}, {launches} kernels/s of {kernel} each are launched one by one{queued}"
    ),
    "launch.elsewhere": "that part holds {of_idle} of the idle time; elsewhere the launches come in time",
    "gain.held": (
        "of the idle time in which memory is cleared four fifths go at least, and at most all idle time, "
        "with what that takes of DRAM beside kernels"
    ),
    "gain.waits_can_go": "between a third and nearly all of the waits can go",
    "sync.would_hide": (
        "kernels of {kernel} on average would hide their launches if the host ran ahead, yet gaps of "
        "less than a millisecond make {fine_idle} of the idle time"
    ),
    "sync.maybe_slow": ", waiting (spinning counts) or in slow host code",
    "sync.main_thread": "main thread {main} of a core{maybe}",
    "sync.seen": "at {wait} the host waits until the GPU has nothing left to do",
    "sync.emptied": (
        "at {wait} the host waits until the GPU has nothing left to do: what it launches after that finds an "
        "empty queue, and is late"
    ),
    "sync.in_turns": (
        "at {wait} the host waits until the GPU has nothing left to do, and only then comes to {late}: they "
        "work in turns"
    ),
    "sync.title": "Host and GPU wait for each other {idle} of the time.",
    "gain.queue_waits_can_go": "between a fifth and nearly all of the waits can be avoided or filled",
    "queue.title": "Work waits in the GPU's queue, and nothing runs, {share} of the time.",
    "queue.semaphore": (
        "the queue waited for a semaphore {waiting} of the time without a kernel, and no copy ran meanwhile"
    ),
    "queue.so_it_waits": (
        "so it waits for another stream, for a function that runs on the host, or for another GPU"
    ),
    "gain.cores_keep_up": "the input keeps up, or nearly, if the cores do",
    "gain.core_each": (
        "at best each process that waits for a core has one all along, and does nothing else than now"
    ),
    "gain.no_core_left": (
        "no core is left for more loaders, so the input keeps up only with less work per sample"
    ),
    "gain.quota_or_less": "the input keeps up, or nearly, with a higher CPU quota or less work per sample",
    "input.workers_busy": "meanwhile {workers} loader processes are at {cpu} of a core each",
    "input.blocked_on_disk": "the program is blocked on a disk {io} of the time",
    "input.reads_disk": "the program reads {disk} from disk",
    "input.at_loader": "meanwhile the main thread is in its data loader",
    "input.title": "The GPU waits for data {idle} of the time.",
    "input.main_thread": "{cause}, and the main thread uses only {main} of a core",
    "gain.idle_can_be_filled": "between a third and nearly all of the idle time can be filled",
    "starved.held_back": " while its host is held back",
    "starved.title": "The GPU has nothing to do {idle} of the time{why}.",
    "starved.no_kernel": "No kernel runs on the GPU {idle} of the time.",
    "starved.smi": "nvidia-smi's utilisation is {smi}",
    "gain.part_of_idle": "part of the idle time can be filled",
    "idle.queue_empty": "the GPU's queue was empty {empty} of the idle time: the host had submitted nothing",
    "idle.cleared": (
        "a copy engine clears memory {engine} of the time, {rate}, and copies nothing: the driver does that "
        "for cudaMalloc and cudaFree, with memory that the program takes from CUDA or gives back"
    ),
    "idle.host_ahead": (
        "the next command waits already {ahead} of the time a kernel runs: launches come in time"
    ),
    "idle.host_late": (
        "the next command waits only {ahead} of the time a kernel runs: it comes too late, or only when "
        "the last kernel has ended"
    ),
    "idle.in_pauses": (
        "{paused} of the idle time lies in pauses of {length} or more, which may be stalls between steps "
        "or a wait in each"
    ),
    "idle.in_each_step": " in each step of {step}",
    "idle.long_stretches": "active {active} of the time, and idle for milliseconds at a stretch{step}",
    "idle.active": "active {active} of the time{step}",
    "host.quota": "the container's CPU quota holds the program back {held} of the time",
    "host.waits_for_core": "the main thread waits for a free core {share} of the time",
    "host.unknown": "what the host did meanwhile is unknown",
    "host.maybe_busy": ": it computes, loads data itself, or spins",
    "host.main_busy": "the main thread is at {main} of a core{maybe}",
    "host.others_work": "other processes of the program work, the main thread is at {main} of a core",
    "host.maybe_waits": ": it waits for something outside, a lock or a sleep",
    "host.nobody_works": "the main thread is at {main} of a core and nobody else in the program works{maybe}",
    "gain.stalls_to_thread": "half to nearly all of the stalls can go to a thread",
    "stall.title": "The GPU stands still {share} of the time, in stalls between its usual steps.",
    "stall.at_least": "at least {length}",
    "stall.every_steps": ", every {steps} steps",
    "stall.one_every": ", one every {period}{steps}",
    "stall.seen": "{count} stalls of {length} were seen{often}",
    "stall.of_step": " of {step}",
    "stall.usual_step": "the usual step{step} leaves the GPU idle {rest} of the time only",
    "stall.beat": (
        "the work between them has a beat, but a wait in each step of very many beats looks the same"
    ),
    "stall.main_thread": "the main thread is at {main} of a core on average",
    "fp32.title": "The tensor cores rest while FP32 arithmetic takes {share} of the time.",
    "fp32.pipe": (
        "the FP32 pipe is at {pipe} of its peak and the tensor cores at {tensor}; normalisation and "
        "elementwise work stay far below that"
    ),
    "fp32.not_memory": "memory is not the reason: DRAM at {dram} of its practical roof",
    "fp64.pipe": "the FP64 pipe is at {pipe} of its peak",
    "fp64.by_tensor": "the tensor cores multiply float64 {share} of the busy time",
    "fp64.title": "Double-precision arithmetic takes {share} of the time.",
    "gain.fed_throughout": (
        "15 to 80 % of that time can be saved by kernels that feed the tensor cores better"
    ),
    "gain.fed_in_part": "10 to 50 % of that time can be saved by kernels that feed the tensor cores better",
    "starved_tensor.title": (
        "The tensor cores are kept waiting {share} of the time, and not by memory bandwidth."
    ),
    "starved_tensor.meanwhile": (
        "meanwhile the tensor cores reach {tensor} and DRAM {memory} of what they can, though {sm} of "
        "the SMs hold work"
    ),
    "starved_tensor.looks_like": (
        "that is what an unsuitable layout, unsuitable shapes, conversions between kernels, or small "
        "products look like"
    ),
    "gain.shared_tiles": (
        "tiles that run at once share what they read, and what is used most after the memory sets the "
        "pace, at 60 to 90 % of its roof"
    ),
    "gain.read_once": (
        "{requests} requests together read the weights once for all of them, in the time of one less a "
        "tenth to half as long again, as far as the rest that they use allows"
    ),
    "memory.read_again": (
        "a kernel reads more than all the memory that is in use, {used}, so the same data several times"
    ),
    "gain.spread": (
        "the kernels have work for all SMs, each works as fast as those that have some now, or up to the roof"
    ),
    "gain.under_way": (
        "the kernels have enough to do: with warps that are no longer few each works as fast as now, up to "
        "40 to 100 % of the roof of what they use most"
    ),
    "gain.spread_alone": (
        "a block alone may be one long chain, of whose time a tenth goes; if it has work for all SMs, all do "
        "what it does, up to the roof"
    ),
    "gain.batched": "20 to 80 % of that time can be batched, overlapped or fused",
    "small_grid.smi": "; nvidia-smi says {smi}",
    "small_grid.title": "The kernels are too small for this GPU {share} of the time.",
    "small_grid.sms": "kernels run, but only {sm} of the SMs have work in that time{myth}",
    "gain.tail_filled": "up to half of it can be filled by other work or other tiles",
    "tail.title": "SMs run out of work at the end of kernels: {lost} of their time is lost so.",
    "tail.zoom": "in the zoom bursts the number of busy SMs falls and rises again while a kernel runs",
    "gain.better_kernels": (
        "why these kernels are slow is not known: better ones may save 10 to 95 % of that time"
    ),
    "latency.title": "Kernels wait for their own latencies {share} of the time.",
    "latency.by_channel": (
        "convolutions channel by channel take {share} of the busy time: there is nothing in them for the "
        "tensor cores"
    ),
    "latency.between": (
        "kernels that multiply nothing and reach no roof take {share} of the busy time: there is nothing in "
        "them for the tensor cores"
    ),
    "latency.meanwhile": (
        "in that time DRAM is at {memory}, the tensor cores at {tensor} and the FP32 pipe at {fp32} of "
        "what they can, with {sm} of the SMs occupied"
    ),
    "well_used.title": "The GPU is well used: its tensor cores are the limit {tensor} of the time.",
    "well_used.because": (
        "active {active} of the time, the tensor cores at {busy} of what they reach in practice while active"
    ),
    "well_used.next": "the arithmetic itself: narrower types or a better algorithm",
    "power.title": "The board is at its power limit {capped} of the time.",
    "thermal.title": "The GPU slows itself down {hot} of the time, from heat or a power brake.",
    "thermal.temperature": "temperature {temperature} °C",
    "gain.full_clock": "the clock could rise to its maximum",
    "power.of_clock": " of {limit}",
    "power.clock": "SM clock {clock}{of}",
    "power.of_power": " of {limit} W",
    "power.board": "board power {power} W{of}",
    "leftover.is_on": "{name}: {what}",
    "leftover.title": "Left on for debugging: {names}.",
    "leftover.blocking": "{name} is set, and the GPU waits for its host {idle} of the time.",
    "leftover.gaps": "the gaps between kernels are shorter than a millisecond, and come after each of them",
    "memory.moves": (
        "DRAM moves {rate}, {share} of the {roof} it can in practice; the tensor cores work {tensor} of "
        "the time"
    ),
    "memory.l2_hit": "L2 hit {hit}",
    "memory.from_dram": "{share} of L2 bytes come from DRAM",
    "memory.little_reuse": (
        "little is used twice ({seen}): streaming, or a layout or tiling that defeats the L2"
    ),
    "memory.write_heavy": (
        "write-heavy, {times} times as many writes as reads: an optimizer, fills, or stored activations"
    ),
    "memory.only_writes": "write-heavy, nothing but writes: fills",
    "gain.fused_all": (
        "15 to 80 % of the traffic can be fused away, a range for kernels that hardly compute: how much of "
        "it here, counters do not tell"
    ),
    "gain.fused_or_halved": (
        "15 to 50 % of the traffic can be fused away or halved in width, a range for programs at large: how "
        "much of it here, counters do not tell"
    ),
    "memory.title": "Device memory is the limit {share} of the time.",
    "memory.read_only": "Memory is read at its limit {share} of the time, and hardly anything is written.",
    "memory.weights_read": (
        "only {written} of what is read is written: weights are read, and nothing is left to fuse"
    ),
    "memory.next": (
        "the bytes themselves: narrower weights, more requests for each time they are read, or one pass "
        "over them instead of several"
    ),
    "gain.stays_in_shared": "15 to 50 % of what the SMs ask of the L2 can stay in shared memory",
    "l2.title": "The L2 cache is the limit {share} of the time.",
    "l2.takes": "the SMs take {rate} from the L2, {share} of the {roof} it can in practice",
    "l2.dram": "DRAM is at {memory} of its roof",
    "gain.pinned": "copies run half as fast again from pinned memory, or at the link's {pcie}",
    "pageable.title": "The GPU waits for copies from ordinary memory {share} of the time.",
    "pageable.to_gpu": "copies to the GPU run at {rate} on a link that carries {roof}",
    "pageable.from_gpu": "copies from the GPU run at {rate} on a link that carries {roof}",
    "pageable.engine": "the copy engine works {engine} of that time; the rest goes into staging on the host",
    "transfer.link": "PCIe carries {share} of what it can over all time",
    "transfer.reads_host": (
        "kernels read host memory in place, at {rate}: the copy engine works {engine} of that time"
    ),
    "transfer.writes_host": (
        "kernels write to host memory in place, at {rate}: the copy engine works {engine} of that time"
    ),
    "transfer.to_gpu": "copies to the GPU run at {rate}",
    "transfer.from_gpu": "copies from the GPU run at {rate}",
    "gain.in_device_memory": "the data lies in device memory",
    "gain.not_copied": "the bytes need not be copied",
    "gain.exchanged": "copied once for {batches} batches",
    "gain.half_not_copied": "half of the bytes at least need not be copied, at most all",
    "gain.overlapped": "copies are overlapped with work",
    "transfer.title": "Copies between host and GPU hold it up {share} of the time.",
    "transfer.reading_title": "Kernels wait for host memory, which they read over PCIe, {share} of the time.",
    "transfer.writing_title": (
        "Kernels wait for host memory, which they write over PCIe, {share} of the time."
    ),
    "gain.hidden": "30 to 90 % of the communication can be hidden behind work",
    "comm.title": "Communication between GPUs takes {share} of the time with nothing beside it.",
    "comm.receives": "{link} receives {rate} while few SMs have work",
    "link.title": "The PCIe link runs at generation {generation} x{width} instead of {most} x{widest}.",
    "link.highest": "the highest generation and width NVML reported while the program ran",
    "shared.others": "other processes hold a context: pid {pids}",
    "shared.switching": "switching between programs takes {share} of the time; gr_active counts it as work",
    "shared.title": "The GPU is shared with other programs.",
    "gain.equal_turns": "one other program has work at least, all {programs} take equal turns at most",
    "rival.launch_bound": "Launches that come too late",
    "rival.sync_bound": "Waiting for results of the GPU",
    "rival.input_starved": "Waiting for data",
    "rival.host_starved": "A host held back by its quota or by other programs",
    "rival.debug_leftovers": "A debugging switch",
    "rival.without_quota": (
        "a run without the quota, or with cores of its own, decides: what stays idle then has the other cause"
    ),
    "rival.without_switch": "a run without CUDA_LAUNCH_BLOCKING decides",
    "rival.by_semaphore": (
        "queue_semaphore decides: while kernels run it is near 0 where launches come too late, and high "
        "where the host waits for results"
    ),
    "rival.may_explain": "{cause} may explain the same time; {decides}.",
    "question.idle": "idle?",
    "question.bound": "bound by",
    "question.level": "level",
    "question.tensor": "tensor",
    "class.communication": "links",
    "class.memory": "memory",
    "class.tensor": "tensor",
    "class.fma": "FP32 pipe",
    "class.fp64": "FP64 pipe",
    "class.small_grid": "small grids",
    "class.latency": "latency",
    "answer.unknown": "unknown",
    "answer.yes": "yes",
    "answer.no": "no",
    "answer.nothing": "nothing",
    "answer.none": "none",
    "answer.fine": "fine",
    "answer.unused": "unused",
    "answer.starved": "starved",
    "seen.share": "{what} {share}",
    "rows.dropped": "{count} {reason}",
    "rows.no_start": "no start stamp",
    "rows.no_length": "no length",
    "rows.too_long": "longer than its period",
    "rows.repeated": "repeated",
    "zoom.memory": "memory",
    "zoom.tensor": "tensor",
    "zoom.sm": "sm",
    "leftover.watched": "watches the program from outside",
    "answer.l2_misses": "DRAM, L2 misses",
    "steps.nothing_measured": "nothing was measured",
    "steps.smi": "nvidia-smi saw kernels {share} of the time; how busy they kept the GPU is unknown",
    "steps.sms": ", SMs {sm}",
    "steps.kernels": " · {rate} kernels/s of {length} each",
    "steps.active": "active {active} of the time{sms}{kernels}",
    "answer.small_load": "small load",
    "steps.small_kernels": "{text} · busy, but with small kernels",
    "steps.needs_counters": "needs hardware counters",
    "steps.never_active": "the GPU was never active",
    "answer.mostly": "mostly {what}",
    "steps.while_active": "while active: {names}",
    "steps.l2_hit": "L2 hit {hit}",
    "steps.dram": "DRAM {rate} of {roof}",
    "steps.pcie": "PCIe {rate} of {roof}",
    "steps.nvlink": "NVLink {rate}",
    "steps.no_memory_counter": "no memory counter here",
    "steps.tensor_unmeasured": "tensor activity was not measured",
    "answer.not_needed": "not needed",
    "steps.fp32_pipe": ", the FP32 pipe {share}",
    "steps.fp32_arithmetic": ", FP32 arithmetic {share}",
    "steps.tensor_in_use": "in use {share} of the busy time{pipe}",
    "steps.fp32_matrix_work": "{text} · FP32 matrix work {share} of the time",
    "steps.double_precision": "{text} · double precision {share} of the time",
    "steps.cannot_use_them": "{text} · most of what waits could not use them",
    "steps.nothing_for_them": "{text} · nothing seen that could use them",
    "steps.hardly_active": "the GPU is active only {active} of the time",
    "limit.memory": "memory bandwidth",
    "limit.tensor": "the tensor cores",
    "limit.fma": "the FP32 pipes",
    "limit.l2": "the bandwidth of the L2",
    "limit.pcie": "the PCIe link",
    "limit.cores": "the CPU cores of the host",
    "limit.copy": "the copies between host and GPU",
    "limit.communication": "communication between GPUs",
    "limit.small_grid": "the number of SMs the kernels fill",
    "limit.latency": "latency inside the kernels",
    "limit.idle": "the host",
    "gain.stopped": "{assumption}; {stopped} would stop it at {most}x",
    "gain.graph": (
        "the gaps shrink by 95 % at least, if the whole step is in it; at best kernels follow each other "
        "every {least}"
    ),
    "gain.graph_beside": "the launches go; up to {share} of the idle time stays, for no graph takes that in",
    "gain.fewer_launches": "half to nearly all of the gaps can go, and with them the launch in each kernel",
    "gain.larger_batch": (
        "a batch {times} times as large, or until the gaps are full and the SMs that have no work now"
    ),
    "gain.larger_batch_there": "a batch {times} times as large at least, at most until the gaps are full",
    "gain.launches_beside": "{assumption}; up to {share} of the idle time stays, for it is no launching",
    "gain.no_tensor_cores": "this GPU has no tensor cores for {dtype}",
    "gain.precision": (
        "{share} of that time or more is matrix work; the tensor cores do it at {low} to {high} in "
        "{dtype}, the FP32 pipe at {now}"
    ),
    "gain.peaks_unknown": "the peaks of this GPU are not known",
    "gain.float32": "float32 is {low} to {high} times as fast there, on 60 % of that time or more",
    "gate.nothing_measured": (
        "Nothing was measured on this GPU. `perfzero doctor` says what can be read here."
    ),
    "gate.too_short": "Only {sampled} of samples came in, too few to judge. Record longer.",
    "gate.untrusted": "The {stream} samples cannot be trusted: {reason}.",
    "gate.lost": (
        "{share} of the samples were lost. Sample less often: a longer --sample-period, or shorter windows."
    ),
    "gate.l2": (
        "The counters say the L2 delivered {delivered}, but it can deliver {limit} at most: the L2 or "
        "DRAM counters are broken."
    ),
    "gate.dram": (
        "DRAM is busy {share} of the time while the GPU is active only {active}: no engine could cause "
        "that, so a counter is broken."
    ),
    "gate.dead_activity": (
        "The counter of GPU activity reads zero, but nvidia-smi saw kernels {smi} of the time: it is "
        "dead, and nothing can be judged by it. Look for an Xid error with `dmesg | grep Xid`."
    ),
    "gate.dead": (
        "Every hardware counter reads zero while nvidia-smi saw kernels {smi} of the time: the counters "
        "are dead. Look for an Xid error with `dmesg | grep Xid`; a GPU reset helps."
    ),
    "gate.still": " Still, {rate} kernels came in: the host hardly uses the GPU.",
    "gate.no_work": (
        "The GPU had next to no work: active {active} of the time and no copies. It was idle, or the "
        "program had finished or not begun.{hint}"
    ),
    "doubt.cut_short": "The recording was cut short; what was written until then is judged.",
    "doubt.no_work": "No second with work was found, so the whole recording is judged.",
    "doubt.short": "Only {seen} seen, too short to tell warm-up from work. Record for a minute or more.",
    "doubt.never_settled": (
        "The program never settled; the first 30 s were dropped as warm-up for want of better."
    ),
    "doubt.still_changing": (
        "The program was still changing: its load moved by {moved} within the time judged."
    ),
    "doubt.windows_missed": "{missed}. Record for longer, or with --continuous.",
    "doubt.rests_on": "The verdict rests on {sampled} of samples.",
    "doubt.lost": "{share} of the samples were lost.",
    "doubt.impossible": "{count} impossible values of {name} ({stream}) were left out.",
    "doubt.no_single_kernels": "Single kernels could not be told apart: {reason}.",
    "doubt.disagree": "PM sampling and GPM disagree on GR activity by {share} at the same moments.",
    "doubt.smi_saw_less": (
        "nvidia-smi saw kernels for {smi} of the time, and the windows of hardware sampling for {active}: "
        "the program may stand still between them. Record for longer, or with --continuous."
    ),
    "doubt.gpm_only": "Judged from GPM's averages: no launches, no L2, no single kernels.",
    "doubt.nvml_only": "Only nvidia-smi's utilisation was available; it cannot see what the SMs do.",
    "doubt.stretch": "A stretch",
    "doubt.stretches": "{count} stretches",
    "doubt.lost_stretch": "{what} of {source} ({length}) was lost: {reason}.",
    "doubt.gpm_stands_in": "PM sampling saw too little of the steady stretch; GPM stands in.",
    "doubt.borrowed": "{names} from GPM's averages: PM sampling had no place for it.",
    "doubt.not_measured": "Not measured here: {names}. Time that belongs to them is called latency.",
    "doubt.others": "Other processes hold this GPU too (pid {pids}); counters cannot tell them apart.",
    "doubt.switching": "The GPU spent {share} of the time switching between programs.",
    "doubt.mig": "MIG is on: counters of shared units (L2, DRAM, PCIe) include the other instances.",
    "steady.slow_down": "; becoming slower since",
    "steady.cyclic": "; alternating, as training and evaluation do",
    "steady.never": "; changing all the time",
    "doubt.slow_down": (
        "The program becomes slower while it is watched: temperature, a leak, or growing work."
    ),
    "doubt.never": "The program never settles: the verdict is the mean of stretches that differ.",
    "doubt.close_call": "A close call: acting on the second finding may save as much.",
    "verdict.smi_only": (
        "nvidia-smi saw kernels {share} of the time; without hardware counters nobody can say how well "
        "they used the GPU. `perfzero doctor` says how to get counters."
    ),
    "verdict.unmeasured": "The GPU's activity was not measured.",
    "verdict.mixed": "No single cause stands out; the time goes to {mix}.",
    "verdict.none": "No verdict. {reason}",
    "steady.warm_up": "first {dropped} dropped as warm-up",
    "steady.from_start": "steady from the start",
    "steady.never_settled": "never settled: first {dropped} dropped",
    "steady.short": "too short to find the warm-up: first {dropped} without work dropped",
    "steady.no_work": "no second with work found",
    "no_map.few": (
        "Fewer than eight steps of about the same length were seen, too few to lay over each other."
    ),
    "no_map.halves": (
        "The first and the second half of the steps differ, so a mean step would be none of them."
    ),
    "seen.active": "active {active}",
    "seen.tensor": "tensor cores",
    "seen.writes": "writes {share} of that",
    "seen.to_gpu": "PCIe to the GPU",
    "seen.from_gpu": "PCIe from the GPU",
    "seen.launches": "{rate} kernels/s",
    "zoom.unsplit": "the time of this recording could not be split",
    "no_steps.hardware_only": "Only hardware sampling sees single steps.",
    "doubt.missed": (
        "The windows of hardware sampling missed what the program does (active {near} of the time in "
        "them, {far} in the averages over all of it), so the averages are judged"
    ),
    "no_steps.turns": "Another program takes turns on this GPU, and its turns look like steps.",
    "gate.time_stamps": "time stamps are broken: of {rows} rows, {reasons}",
    "gate.impossible": (
        "{name} is impossible (negative, or far above 100 %) in {count} of {rows} samples: the counter "
        "is broken or wrongly resolved"
    ),
    "zoom.little": "the zoom bursts saw only {seen} ms of work",
    "zoom.lacks": "the zoom bursts lack the counters for {what}",
    "zoom.other_work": "the zoom bursts saw other work: {what} at {near} there, at {far} over the whole",
    "fact.not_measured": "not measured here",
    "fact.of_roof": "of the practical roof",
    "fact.reuse": "bytes asked of the L2 per byte read from DRAM; 1 is streaming",
    "fact.queue_empty": "may only explain idle time, never prove it",
    "fact.smi": "some kernel was running, no more",
    "fact.of_peak": "of the peak at the highest clock",
    "fact.per_day": "per day at this rate: idle, copying or communicating",
    "fact.nearest": "use of the busiest of DRAM, tensor and FP32 pipes, as a share of its practical roof",
    "fact.fp32": "FP32 arithmetic alone, by GPM; fma_active also has the integer and FP16 work of that pipe",
    "fact.unused": "work that could use them does not",
    "fact.amplification": "DRAM bytes read per L2 byte",
    "fact.no_micro_step": "no part of a step repeats",
    "fact.no_gap": "no gap was as long as a sample",
    "fact.unresolved": "of the idle time, within samples in which kernels ran",
    "fact.prefill": "tensor cores busy, as when prompts are read",
    "fact.decode": "memory busy, as when tokens are written",
    "fact.sectors": "srcunit_tex sectors stand in for op_read, which PM sampling does not deliver",
    "fact.direction": (
        "{sectors}; high is good: 1/{bytes} is streaming, and low is bad only while DRAM is busy"
    ),
    "fact.stalled_warp": "a stalled warp counts as active; idleness is gr_active's to tell",
    "fact.smi_figure": "nvidia-smi's figure",
    "fact.tensor_never": "the tensor pipes were never active",
    "fact.second_pass": "not counted: it needs a second pass; the pipes were active {share} of the cycles",
    "leftover.launches": "every launch waits until its kernel has ended",
    "leftover.no_caching": "every tensor is allocated by cudaMalloc, and cudaFree waits for the GPU",
    "leftover.collectives": "the host waits for each collective",
    "leftover.checked": "every collective is checked by another one",
    "leftover.nccl_trace": "NCCL writes a line for each call",
    "leftover.no_tf32": "NVIDIA's libraries never use TF32, whatever the program allows",
    "leftover.dev_mode": "Python checks its own memory and warns",
    "leftover.malloc": "Python checks every allocation",
    "leftover.asyncio": "asyncio checks and logs every callback",
    "leftover.tracemalloc": "Python records where each allocation came from",
    "leftover.torch_logs": "PyTorch's compiler logs what it does",
    "leftover.compile_debug": "PyTorch's compiler writes out each of its stages",
    "leftover.no_dynamo": "torch.compile does nothing",
    "leftover.no_jit": "TorchScript runs as plain Python",
    "leftover.jax_no_jit": "JAX runs operation by operation",
    "leftover.jax_nans": "JAX reads every result back to look for NaN",
    "leftover.xla_dump": "XLA writes out each program it compiles",
    "leftover.no_cache": "kernels are compiled anew at each start",
    "leftover.waits_on_fault": "the program halts at a fault, for a debugger to attach",
    "leftover.nccl_info": "NCCL reports what it chose at the start",
    "leftover.injected": "a profiler is loaded into the program",
    "leftover.nvtx": "a profiler listens to the program's ranges",
    "leftover.nsys": "Nsight Systems started the program",
    "leftover.sanitizer": "a sanitizer checks every access to memory",
}
