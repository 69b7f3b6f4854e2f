"""The live view: labels, keys, what a close look costs and how it ended."""

from __future__ import annotations

from collections.abc import Mapping

TOP: Mapping[str, str] = {
    "top.too_small": "The terminal is too small for this.",
    "top.reading": "Reading the GPUs ...",
    "top.gpus": "{number} GPUs",
    "top.driver": "driver {version}",
    "top.every": "every {time}",
    "top.paused": "PAUSED",
    "top.row_gpu": "GPU",
    "top.row_doing": "does most",
    "top.row_sm": "SM",
    "top.row_tensor": "tens",
    "top.row_dram": "DRAM",
    "top.row_smi": "smi",
    "top.row_pcie": "PCIe",
    "top.row_nvlink": "NVL",
    "top.row_power": "power",
    "top.row_limit": "limit",
    "top.row_clock": "clock",
    "top.row_highest": "of MHz",
    "top.row_temperature": "temp",
    "top.row_memory": "mem",
    "top.row_total": "total",
    "top.row_processes": "pids",
    "top.row_held": "held by",
    "top.row_name": "model",
    "top.sm_busy": "SMs busy",
    "top.no_counters": "no counters",
    "top.lost": "lost: {why}",
    "top.card_memory": "memory {used} of {whole} GB",
    "top.card_clock": "clock {clock} of {highest} MHz",
    "top.card_power": "{power} of {limit} W",
    "top.last": "last {span}",
    "top.of_roof": "of its practical roof",
    "top.some_kernel": "some kernel was running",
    "top.held_by": "held down by",
    "top.held_and": " and ",
    "top.held_capped_power": "power cap",
    "top.held_capped_thermal": "heat",
    "top.held_capped_hardware": "hardware slowdown",
    "top.held_short_capped_power": "power",
    "top.held_short_capped_thermal": "heat",
    "top.held_short_capped_hardware": "slowed",
    "top.nvml_only": "nvidia-smi's number says that some kernel ran, and not how well it used the GPU.",
    "top.column_memory": "MEMORY",
    "top.column_pid": "PID",
    "top.column_user": "USER",
    "top.column_command": "COMMAND",
    "top.not_visible": "(not visible from here)",
    "top.processes_hidden": "The driver lists no process. It hides those outside of this container.",
    "top.no_process": "No process is on the GPU.",
    "top.no_process_anywhere": "No process is on a GPU.",
    "top.more": "{hidden} more",
    "top.more_keys": "{hidden} more: PgUp PgDn",
    "top.more_lines": "(PgUp PgDn: {more} more lines)",
    "top.key_gpu": "up/down GPU",
    "top.key_end": "q end",
    "top.key_look": "c close look",
    "top.key_sort": "s sort",
    "top.key_pause": "p pause",
    "top.key_write": "w write",
    "top.key_help": "? help",
    "top.key_close": "Esc close",
    "top.key_scroll": "PgUp/PgDn scroll",
    "top.title_help": "keys and figures",
    "top.keys_choose": "up, down, Tab",
    "top.does_choose": "choose a GPU",
    "top.does_look": "look at it closely, for a verdict",
    "top.does_sort": "sort processes",
    "top.does_pause": "pause: nothing is read meanwhile",
    "top.does_scroll": "scroll",
    "top.does_write": "write the screen into a file",
    "top.does_help": "this",
    "top.does_end": "end",
    "top.help_figures": (
        "SMs busy: a warp was resident; stalled ones count. tensor cores: share of their cycles. DRAM, "
        "PCIe and NVLink: share of what this GPU reaches in practice. nvidia-smi: some kernel was "
        "running, however little of the GPU it used."
    ),
    "top.help_time": (
        "last 60 s: where the time went, by what was used most. GPM averages over many kernels, so "
        "this is rougher than a close look."
    ),
    "top.title_look": "close look at GPU {gpu}",
    "top.look_takes": (
        "A close look samples the hardware counters of GPU {gpu} for {length} s, some {whole} s in "
        "all, and ends with a verdict."
    ),
    "top.look_costs": (
        "It holds up the programs there for about 10 ms, once; one at the power cap is 1 % slower meanwhile."
    ),
    "top.look_excludes": (
        "No other tool can sample that GPU until it is over: Nsight, DCGM's profiling fields, or "
        "another perfzero."
    ),
    "top.look_idle": "It has had no work in the last minute, so there is little to see.",
    "top.keys_asked": "Enter  look now        Esc  not now",
    "top.judging": "Judging what was seen of GPU {gpu}.",
    "top.seconds_more": "{left} s more",
    "top.closing": "closing the device",
    "top.sampling": "Sampling the hardware counters of GPU {gpu}: {when}.",
    "top.keys_looking": "Esc  end it and give the device back",
    "top.look_busy": (
        "Another tool holds the hardware counters of this GPU; only one can have them at a time."
    ),
    "top.look_refused": "The hardware counters cannot be read here.",
    "top.look_failed": "The look did not succeed.",
    "top.after_busy": "Nothing was disturbed. Try again when it has ended; who it may be: perfzero doctor",
    "top.after_refused": "What unlocks them: perfzero doctor",
    "top.recording": "The recording: perfzero analyze {folder}",
    "top.look_cancelled": "it was cancelled",
    "top.look_killed": "the recorder did not end, and was killed",
    "top.look_code": "the recorder ended with {code}",
    "top.ending": "Ending the close look ...",
    "top.ended": "The close look was ended, and the device is free again.",
    "top.no_look": "A recording has no GPU that could be looked at.",
    "top.one_there": "one of this second is there already",
    "top.written": "written: {path}",
    "top.unwritten": "{path} could not be written: {why}",
    "top.replayed": "A replay of what was measured on a real GPU: {path}",
    "top.recorded_without_gpm": "recorded without GPM",
}
