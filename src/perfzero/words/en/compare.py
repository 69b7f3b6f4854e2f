"""Comparisons and the log of a project: what `compare`, `log` and `run --against` say."""

from __future__ import annotations

from collections.abc import Mapping

COMPARE: Mapping[str, str] = {
    "compare.faster": "{after} is {times} as fast as {before} ({interval}){promise}.",
    "compare.slower": "{after} is {share} slower than {before} ({interval}){promise}.",
    "compare.same": "{after} is as fast as {before}: no real difference ({interval}){promise}.",
    "compare.unknown": ("Whether {after} is faster than {before} cannot be told: it may be {interval}."),
    "compare.no_interval": (
        "{after} seems {times} as fast as {before}; too little was seen to say how sure that is."
    ),
    "compare.no_steps": (
        "How fast {after} is against {before} cannot be told: no step time was found in {where}."
    ),
    "compare.kept": ", as foreseen ({gain})",
    "compare.more": ", more than foreseen ({gain})",
    "compare.less": ", less than foreseen ({gain})",
    "compare.limit_came": "The limit is now {limit}, as foreseen.",
    "compare.limit_other": "The limit is now {limit}; foreseen was {foreseen}.",
    "compare.limit_now": "The limit is now {limit}.",
    "compare.to": "{low} to {high}",
    "compare.foresaw": "{before} foresaw {gain}: {remedy}",
    "compare.foresaw_limit": "Then the limit: {limit}.",
    "compare.column_change": "{after} against {before}",
    "compare.word_same": "no real difference",
    "compare.word_unknown": "cannot be told",
    "compare.word_faster": "faster",
    "compare.word_slower": "slower",
    "compare.points": "{number} points",
    "compare.times": "{number}×",
    "compare.group_speed": "Speed",
    "compare.group_gpu": "The GPU",
    "compare.group_bytes": "Per step",
    "compare.group_time": "Where a step's time goes",
    "compare.group_share": "Where the time goes",
    "compare.group_layers": "Layers, per step",
    "compare.unlike": "Unlike machines, compared all the same:",
    "compare.differs": "Not the same in all:",
    "compare.runs": "{count} runs",
    "compare.family": (
        "{confidence} intervals, differences between runs included; but for the step rate they hold for all "
        "{count} lines together. Within ±{margin} is no real difference."
    ),
    "compare.marks": "≈ is no real difference, ? cannot be told; files (-o) have the intervals.",
    "compare.record_longer": (
        "To be surer, record for longer, or several runs of each: perfzero compare A1,A2,A3 B1,B2,B3"
    ),
    "compare.metric.step_rate": "step rate",
    "compare.metric.step_time": "step time",
    "compare.metric.step_cycles": "step, in SM cycles",
    "compare.metric.step_energy": "energy per step",
    "compare.metric.idle": "idle",
    "compare.metric.gr_active": "GPU active",
    "compare.metric.sm_active": "SMs active",
    "compare.metric.tensor_active": "tensor cores",
    "compare.metric.fma_active": "FP32 pipe",
    "compare.metric.fp32_active": "FP32 arithmetic",
    "compare.metric.fp64_active": "FP64 pipe",
    "compare.metric.dram_active": "DRAM active",
    "compare.metric.dram_read": "DRAM reads",
    "compare.metric.dram_write": "DRAM writes",
    "compare.metric.l2_hit": "L2 hit rate",
    "compare.metric.pcie_rx": "PCIe to the GPU",
    "compare.metric.pcie_tx": "PCIe from the GPU",
    "compare.metric.nvlink_rx": "NVLink to the GPU",
    "compare.metric.nvlink_tx": "NVLink from the GPU",
    "compare.metric.launches": "kernels",
    "compare.metric.sm_clock": "SM clock",
    "compare.metric.power": "power",
    "compare.metric.temperature": "temperature",
    "compare.metric.memory_used": "memory in use",
    "compare.metric.smi_utilization": "nvidia-smi says",
    "compare.metric.step_dram_read": "read from DRAM",
    "compare.metric.step_dram_write": "written to DRAM",
    "compare.metric.step_pcie_rx": "over PCIe to the GPU",
    "compare.metric.step_pcie_tx": "over PCIe from it",
    "compare.metric.step_nvlink_rx": "over NVLink to the GPU",
    "compare.metric.step_launches": "kernels launched",
    "log.column_recording": "recording, verdict and notes",
    "log.column_step": "step",
    "log.column_before": "against the last",
    "log.column_first": "the first",
    "log.left_out": "{count} older recordings are left out: --last",
    "log.trouble": "It cannot be read: {why}",
    "log.no_step": "No step time was found, so its speed is not compared.",
    "log.machine": "Another machine, so its speed is not compared: {fact}",
    "log.note": "“{note}”",
    "log.stop_roof": "Stop here: the practical roof of {roof} is reached, and no cheap gain is left to find.",
    "log.stop_nothing": (
        "Nothing that is left to do has a gain that can be told. What takes most time is {roof}."
    ),
    "log.stop_little": "Stop here: what is left promises {gain}, which is below {below} in the middle.",
    "log.go_on": "Go on: {remedy}, expect {gain}.",
    "log.go_on_limit": "Then the limit would be {limit}.",
    "log.stop_unknown": "Whether to go on cannot be said: the last recording has no verdict.",
    "log.no_folder": (
        "There is no folder {folder}.\n"
        "Record something: perfzero run -- python train.py. Or name a folder of recordings."
    ),
    "log.empty": "{folder} holds no recording.\nRecord something: perfzero run -- python train.py",
    "log.is_recording": (
        "{folder} is a recording, and no folder of recordings.\nFor all beside it: perfzero log {parent}"
    ),
    "log.note_nowhere": (
        "{folder} is no recording: there is no manifest.json in it.\nName one: perfzero log --note TEXT DIR"
    ),
    "log.note_empty": 'The note has no text.\nGive it some: perfzero log --note "channels-last" DIR',
    "log.notes_full": "64 KB of notes are enough",
    "log.note_unwritten": "{file} could not be written: {why}. The note is lost.",
    "log.program": "Another program than the one before: {command}",
    "log.looks": "Close looks at a GPU (perfzero top) are no iterations; {count} are left out.",
    "compare.this_run": "this run",
    "compare.another_program": "That was another program: {command}",
    "compare.twice": "Given twice, and counted once: {paths}",
    "compare.mixed": (
        "The recordings of {name} are of several programs, and not several runs of one:\n{programs}\n"
        "Name them one by one to compare them. To take their mean all the same: --force"
    ),
    "compare.against_record": (
        "--against compares verdicts, and `record` makes none.\n"
        "Use perfzero run --against, or compare afterwards."
    ),
    "compare.against_nothing": (
        "--against {folder}: that is no recording.\n"
        "Name one, or the newest in ./perfzero-runs: --against last"
    ),
    "compare.unlike_refused": (
        "These recordings come from unlike machines:\n{facts}\n"
        "A difference between them need not be the program's. To look all the same: --force"
    ),
    "compare.too_few": (
        "A comparison takes two recordings or more.\n"
        "Name them in order: perfzero compare perfzero-runs/BEFORE perfzero-runs/AFTER"
    ),
    "compare.ending": "-o {file}: by its ending nobody knows what it shall hold.\nThere are: {endings}",
    "compare.exists": (
        "{file} exists already; nothing was written.\nName another file, or replace it: --overwrite"
    ),
    "compare.unwritten": "{file} could not be written: {why}.\nChoose another place with -o.",
    "compare.no_recording": (
        "{folder} holds no recording: there is no manifest.json in it, nor in a folder below it.\n"
        "Name a folder that `perfzero run` or `perfzero record` has written."
    ),
    "compare.not_watched": "{folder} holds nothing of GPU {gpu}. GPUs watched: {watched}.",
}
