"""Reports: fixed phrases of the screen, and what looks and stacks add to a verdict."""

from __future__ import annotations

from collections.abc import Mapping

REPORTS: Mapping[str, str] = {
    "sure": "sure",
    "likely": "likely",
    "unsure": "unsure",
    "no_verdict": "no verdict",
    "do": "Do",
    "or": "or",
    "then": "Then",
    "check": "Check",
    "also": "Also",
    "doubt": "Doubt",
    "more": "More",
    "time": "time",
    "host_lines": "What the GPU waits for while it is idle, by line of the program:",
    "host_lines_overlap": "What the GPU waits for while it is idle, by line of the program (shares overlap):",
    "activity.loader": "waits for the DataLoader",
    "activity.synchronising": "waits for the GPU",
    "activity.copying": "copies, and waits for it",
    "activity.garbage collection": "collects garbage",
    "activity.checkpoint": "saves a checkpoint",
    "activity.logging": "logs",
    "activity.tokenising": "tokenises",
    "activity.compiling": "compiles",
    "activity.allocator": "asks the GPU for memory",
    "activity.allocating": "asks for device memory or gives it back",
    "activity.lock": "waits for a lock or a thread",
    "activity.network": "waits for the network",
    "activity.disk": "reads or writes files",
    "activity.sleeping": "sleeps",
    "activity.launching": "launches kernels",
    "activity.starting workers": "starts and ends worker processes",
    "activity.python": "runs Python",
    "activity.gil": "holds the GIL, and the main thread waits for it",
    "stage.reading": "reading",
    "stage.decoding": "decoding",
    "stage.augmenting": "augmenting",
    "stage.tokenising": "tokenising",
    "stage.picking": "picking single samples",
    "stage.collating": "collating",
    "stage.pinning": "pinning",
    "stage.sending": "sending",
    "stage.other": "other",
    "host_line": "{does}, {share}{workers}",
    "host_line_does": "{line}: {does}",
    "host_line_share": "{share} of the idle time",
    "host_line_range": "{share} ({low} to {high})",
    "host_line_workers": "; making its batches: {told}",
    "host_line_stage": "{stage} {share}",
    "host_line_stage_at": "{stage} {share} ({place})",
    "layers": "Where {whose} time goes, by a look {how}:",
    "layers_here": "the GPU's",
    "layers_elsewhere": "GPU {gpus}'s",
    "layers_somewhere": "some GPU's",
    "looked_steps": "at {steps} of the program",
    "looked_unmarked": "of {length} at the program, in which no step was told",
    "layers_work": "Streams overlap: shares are of the work of all of them, {sum} of the busy time.",
    "layers_overlap": "Streams overlap, so shares add up to {sum}.",
    "row.optimizer": "optimizer",
    "row.collectives": "collectives",
    "row.graph replays": "graph replays",
    "row.outside modules": "outside modules",
    "row.unattributed": "unattributed",
    "layer_exposed": "{share} exposed",
    "layer_operator": "operator",
    "layer_replayed": "by replay",
    "layer_reads": "{share} of DRAM reads",
    "needs": "{what} (provided: {needs})",
    "seen_channels_last": "NCHW in {rows}: {share} of the busy time, and transposes take {beside}.",
    "seen_alignment": "Not so in {rows}: {share} of the busy time.",
    "seen_fused_optimizer": "It launches many kernels, {share} of the busy time: {rows}.",
    "seen_fused_attention": "Attention step by step in {rows}: {share} of the busy time.",
    "seen_activations": "In float32 in {rows}: {share} of the busy time.",
    "seen_pinned_source": "They come from pinned memory.",
    "seen_training": "The optimizer takes {share} of the busy time.",
    "seen_clears_gradients": "Gradients are filled with zeros: {share} of the busy time.",
    "seen_fills": "Filled with one value in {rows}: {share} of the busy time.",
    "compiled_already": (
        "it is compiled already: kernels that the compiler generated take {share} of the busy time"
    ),
    "seen_collections": (
        "Python collected all its garbage {count} times within {seconds} s, for {length} each at most."
    ),
    "seen_collection": (
        "Python collected all its garbage once within {seconds} s, for {length} at most: about as long as "
        "the stalls."
    ),
    "seen_line": "It is {line}.",
    "seen_behind": "What follows comes late for it: {line}.",
    "gain.in_turns": (
        "host and GPU work at once instead of in turns, so the slower of them sets the pace; it takes 0.9 to "
        "1.25 times as long"
    ),
    "gain.within_power": (
        "{assumption}; {allowed} times as fast the board is at its power limit, unless a lower clock takes "
        "less energy for the same work"
    ),
    "gain.without_collections": (
        "{share} of this time at most is the collector's, for what else holds Python's lock is in it; the "
        "rest takes 0.9 times as long or more"
    ),
    "seen_pauses_alike": (
        "{share} of this time lies in pauses as long as a collection of Python's garbage, at {line}, which "
        "takes a moment at other times"
    ),
    "gain.without_pauses": (
        "{least} to {share} of this time is the collector's, by the pauses that are as long as its "
        "collections; the rest takes 0.9 to 1.25 times as long"
    ),
    "gain.without_line": (
        "{share} of the idle time would be gone without the line, as far as the remedy takes it away; the "
        "rest takes 0.9 to 1.25 times as long"
    ),
    "gain.copied_beside": (
        "{share} of the idle time would be gone, and the same is copied beside the GPU's work, at the link's "
        "rate at best; the rest takes 0.9 to 1.25 times as long"
    ),
    "seen_gain": (
        "a fused kernel computes at 25 to 60 % of the tensor cores' peak, or leaves what it does elsewhere"
    ),
    "seen_allocates": (
        "It takes device memory from CUDA and gives it back {count} times a step: {share} of the time."
    ),
    "held_gain": (
        "from the time in these calls in which the GPU has nothing to do, to all of it, as far as the GPU's "
        "work leaves it"
    ),
    "seen_serial_gradient": "Equal indices one after another in {rows}: {share} of the busy time.",
    "seen_by_channel": "Channel by channel: {rows}, {share} of the busy time.",
    "seen_slow_convolutions": "By an FFT, or written out as a product, in {rows}: {share} of the busy time.",
    "narrower_gain": "half of the bytes, and of products twice the rate",
    "tf32_gain": (
        "the tensor cores multiply these shapes at 40 to 75 % of their peak, large ones that fit at 55 % or "
        "more"
    ),
    "timed_gain": "a twentieth to half of their time with the fastest algorithm",
    "seen_pairwise": "A block of threads for each pair in {rows}: {share} of the busy time.",
    "serial_gain": (
        "what goes in, at the rates of atomic additions, a twentieth to a seventh of the memory's roof, or "
        "summed up in pieces"
    ),
    "pairwise_gain": (
        "from all differences at half of the memory's roof to the points and distances alone at the roof"
    ),
    "aligned_gain": (
        "from the rate of the program's aligned products, or 40 % of the roof without any, to the roof of "
        "the tensor cores or of the memory"
    ),
    "fused_gain": (
        "from the reads between operators to all that elementwise operators and norms need not move, at the "
        "memory's roof"
    ),
    "seen_half_precision": "In float32: {rows}, {share} of the busy time.",
    "seen_float64": "In float64: {rows}, {share} of the busy time.",
    "seen_tf32": "Without the tensor cores: {rows}, {share} of the busy time.",
    "seen_tensor_cores": "Beside the tensor cores: {rows}, {share} of the busy time.",
    "seen_checks": "Results are asked for NaN one by one: {share} of the launches.",
    "seen_tiny_kernels": "Short kernels make {share} of the launches: {rows}.",
    "seen_tiny_products": "Short kernels, mostly products, make {share} of the launches: {rows}.",
    "seen_chains": (
        "Elementwise operators and norms, one after another: {rows}, {share} of the busy time{spared}."
    ),
    "spared": (
        "; fused, at least {least} and up to {most} of their bytes go, where each works on the result of the "
        "one before"
    ),
    "fused_beside": "; others take {beside}",
    "traffic": "most bytes: {rows}{beyond}",
    "beyond": "; {share} of all bytes are more than operators have to move",
    "traffic_row": "{name} {share}{why}",
    "seen_row": "{name}{why}",
    "seen_more": "{number} more",
    "seen_at": "{rows} ({file}:{line})",
    "why": " ({why})",
    "why_unaligned": "{number} is no multiple of 8",
    "why_tf32_off": "TF32 is off",
    "why_convolution_tf32_off": "TF32 is off in convolutions",
    "why_vector": "a vector",
    "why_groups": "in {number} groups",
    "why_by_group": "fused, {number} launches a step",
    "why_tiny": "{length} each",
    "why_streaming": "streaming",
    "why_poor_reuse": "{times} times what it has to",
    "why_from_l2": "in part from the L2",
    "expect": "expect {gain}",
    "nothing_to_do": "nothing: there is no cheap gain left to find here",
    "next_limit": "next limit: {limit}",
    "next_limit_after_other": "{first}; of the other remedy {limit}",
    "healthy": "healthy {threshold}",
    "short_by": "{threshold}, off by {points}",
    "to_spare": "{threshold}, {points} to spare",
    "held_time_memory": "memory",
    "held_time_copy": "copies",
    "held_time_communication": "links",
    "held_sm_active": "SMs",
    "held_dram_roof_share": "DRAM",
    "held_nearest_roof_share": "roof",
    "held_tensor_active": "tensor",
    "held_tensor_while_busy": "tensor",
    "held_l2_hit": "L2 hit",
    "held_pcie_link_share": "PCIe",
    "undecided": "But",
    "more_doubts": "{count} more in report.json",
    "ask_doctor": "perfzero doctor   says what this machine lets perfzero read, and what unlocks more",
    "smi_said": "nvidia-smi said {smi}.",
    "smi_unknown": "nvidia-smi's number could not be read.",
    "truth": "The SMs worked {sm} of the time, the tensor cores {tensor}.",
    "truth_memory": "DRAM ran at {memory}.",
    "roofs_calibrated": "Roofs calibrated on {date}.",
    "roofs_by_table": "Roofs by the table.",
    "truth_unknown": "What the SMs really did could not be read.",
    "neither_known": "Neither nvidia-smi's number nor what the SMs did could be read.",
    "watched": "Watched {duration}: {parts}.",
    "step": "step {step} ± {margin} %",
    "step_row": "step",
    "step_of": "{count} parts of {length}",
    "work_idle": "idle",
    "work_copy": "copy",
    "work_collective": "collective-like",
    "work_gemm": "GEMM-like",
    "work_attention": "attention-like",
    "work_fp32_gemm": "FP32 GEMM-like",
    "work_fp64": "FP64 pipe",
    "work_memory": "memory-bound",
    "work_elementwise": "elementwise",
    "work_optimizer": "optimizer-like",
    "work_tiny_kernels": "tiny kernels",
    "work_small_grids": "small grids",
    "work_mixed": "mixed",
    "work_unknown": "unknown",
    "phase_seen": "{name}: {seen}",
    "in_turn": "{count} times {kinds} in turn",
    "no_phases": "phases not told: {reason}",
    "shorter_phases": "{count} shorter ones in report.json",
    "at_times": "rare",
    "stalls": "stalls",
    "other_work": "other work",
    "event": "{nature} {share} of the time · {count} seen",
    "event_length": "{length} each",
    "event_period": "every {period}",
    "warm_up": "first {duration} dropped as warm-up",
    "fallback": "first {duration} dropped by default, no steady state was seen",
    "not_steady": "no steady state was found",
    "short": "too short to leave out the warm-up",
    "nothing_lost": "nothing lost",
    "lost": "{share} of the samples lost",
    "gaps": "{gaps} ({duration})",
    "cost": "Cost of watching {slowdown}.",
    "cost_interval": "{slowdown} ± {margin}",
    "cost_unmeasured": "Cost of watching: too little to compare in this run, {otherwise}.",
    "cost_unrecorded": "Cost of watching not recorded.",
    "cost_benchmarked": "benchmarked {slowdown} (at most {upper}; {hardware}, {date})",
    "cost_benchmarked_none": "benchmarked as none ({hardware}, {date})",
    "cost_not_benchmarked": "not benchmarked yet",
    "cost_cpu": "perfzero itself took {cpu} of CPU, start-up included ({share} of a core).",
    "cut_short": "recording cut short",
    "no_gpu": "No verdict: the recording holds no GPU.",
    "of_several": "GPU {index} of {count}: {headline}",
    "gpu": "GPU {index}",
    "idle": "idle",
    "copy": "copies",
    "communication": "communication",
    "memory": "memory",
    "tensor": "tensor cores",
    "fma": "FP32 pipe",
    "fp64": "FP64 pipe",
    "small_grid": "small grids",
    "latency": "latency",
}
