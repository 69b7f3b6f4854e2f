"""The command line: what commands print, what they ask for, and what is wrong with what was typed."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "doctor.everything": "everything",
    "doctor.averages": "averages",
    "doctor.little": "little",
    "doctor.no_gpu": "No NVIDIA GPU can be read here: {why}",
    "doctor.more": "More: {gain}",
    "doctor.readable": "can be read:",
    "doctor.because": "because:",
    "doctor.programs_hidden": "programs on it: the driver does not tell",
    "doctor.programs": "programs on it: {pids}",
    "doctor.library": "{path} ({origin})",
    "doctor.driver": "driver",
    "doctor.no_capability": "no CAP_SYS_ADMIN",
    "origin.package": "Python package",
    "origin.toolkit": "CUDA toolkit",
    "origin.system": "system package",
    "main.interrupted": "interrupted",
    "run.recorded": "recorded in {path}\n          perfzero analyze {again}",
    "run.was_recorded": "what was recorded is in {path}\n          perfzero analyze {again}",
    "demo.none_there": "none; this installation of perfzero is incomplete",
    "demo.no_recording": "There is no shipped recording {name}.\nThere are: {names}.",
    "demo.a_gpu": "a GPU",
    "demo.at_once": "at once",
    "demo.pace": "{speed} times as fast",
    "demo.introduction": "A recording of {name} on a real {gpus}, taken {day}, replayed {pace}.",
    "progress.step": "step {length}",
    "progress.samples": "{count} samples",
    "progress.lost": "{count} lost",
    "progress.lost_none": "none lost",
    "progress.capped": "at the power cap",
    "doctor.pm": "hardware counters sampled inside the GPU, down to microseconds",
    "doctor.gpm": "hardware counters averaged over 0.1 s and more",
    "doctor.nvml": "the state of the board only",
    "doctor.capability": "compute capability {major}.{minor}",
    "doctor.mig": "divided by MIG",
    "doctor.virtual": "virtualised: {how}",
    "doctor.no_gpm": "no NVML GPM",
    "doctor.none_found": "none found",
    "doctor.holder": "{tool} ({name}, process {pid})",
    "doctor.nobody": "nobody seen",
    "doctor.cuda": "CUDA of the driver",
    "doctor.counters_for": "counters are for",
    "doctor.this_user": "this user is",
    "doctor.may_hold": "may hold the counters",
    "doctor.container": "a container ({which})",
    "doctor.mps": "MPS: programs share the GPU, and device-wide counters cannot tell them apart",
    "doctor.around": "around it",
    "doctor.unknown_who": "unknown: the driver shows no RmProfilingAdminOnly here",
    "doctor.everybody": "everybody (RmProfilingAdminOnly 0)",
    "doctor.is_one": "this user is one",
    "doctor.is_none": "this user is none",
    "doctor.admins": "administrators (RmProfilingAdminOnly 1); {may}",
    "doctor.sudo": "no root, but sudo works without a password",
    "doctor.no_root": "no root",
    "usage.until_sure": (
        "{option} takes its confidence with an equals sign: {again}={number}\nTo start a program of the "
        "name {program}, put -- before it."
    ),
    "usage.confidence": (
        "{option} takes a confidence from {least} to {most}, such as {again}=0.9; got {text}."
    ),
    "usage.either": "Either start a program (-- CMD) or attach to one (--pid), not both.",
    "usage.nothing": (
        "Nothing to watch. Start a program:  perfzero run -- python train.py\nattach to one:  perfzero "
        "run --pid 4711   or watch a GPU:  perfzero run --gpu 0"
    ),
    "usage.gpu": "--gpu takes indices or UUIDs as nvidia-smi -L lists them, e.g. --gpu 0,1",
    "usage.source": "--source {source} opens no sampling session: it has no {option}.",
    "usage.continuous": "--continuous samples all the time: it has no --window and no --every.",
    "usage.continuous_zoom": "--continuous keeps one session open: it has no --zoom.",
    "usage.interval": "--profiling-interval takes a number of steps, 1 or more.",
    "usage.window": "--window is longer than --every; to sample all the time use --continuous.",
    "usage.few_samples": (
        "A window of {window} holds fewer than {least} samples {period} apart.\nMake it longer, --window "
        "{longer}, or use --continuous."
    ),
    "main.mistake": "this is a mistake in perfzero: {kind}: {error}",
    "usage.speed": "--speed {speed}: a recording is replayed at a speed above 0.",
    "trim.doubt": "Doubt: {doubt}",
    "trim.done": "Trimmed: {sentence}.",
    "trim.size": "{path}: {size} KB, was {before} KB.",
    "usage.size": "{text} is no size.\nGive one like this: --max-size 400KB",
    "usage.chip_or_find": "--chip and --find answer different questions: ask one at a time.",
    "metrics.nearest": "Nearest: {names}",
    "metrics.all": "See all: perfzero metrics",
    "metrics.no_counter": "no counter is called {asked}.\n{nearest}",
    "metrics.known": "Known: {names}",
    "metrics.no_chip": "no chip is called {chip}.\n{hint}",
    "usage.twice": (
        "The recording is named twice: {directory} and --input-dir {input_dir}.\nName it once, either way."
    ),
    "file.no_runs": (
        "There is no recording in ./{runs}.\nName one: perfzero analyze DIR. Or make one: perfzero run -- "
        "python train.py"
    ),
    "usage.duration": "{option} takes a duration from {least} to {most}, such as 500ms or 10s; got {text}.",
    "main.see_help": "{message}\nSee `{command} --help`.",
    "main.report": "Please report it with the traceback above and the output of `perfzero doctor`.",
    "main.for_traceback": (
        "For the traceback, run the same command with {variable}=1; please report it with that and the "
        "output of `perfzero doctor`."
    ),
    "main.mistake_hint": "this is a mistake in perfzero: {kind}: {error}\n{hint}",
    "roof.dram": "device memory, c = a + s b",
    "roof.copy": "device memory, copy",
    "roof.l2": "L2, row sums",
    "roof.pcie_to": "PCIe to the GPU",
    "roof.pcie_from": "PCIe from the GPU",
    "roof.bf16": "bf16 product",
    "roof.fp16": "fp16 product",
    "roof.tf32": "tf32 product",
    "roof.fp32": "fp32 product",
    "usage.show_forget": "--show and --forget exclude each other.\nUse one of them.",
    "calibrate.forgotten": "Forgotten: {count}.",
    "calibrate.nothing": "No GPU has been calibrated here. To do so: perfzero calibrate",
    "calibrate.measured": "  measured {day} UTC with {framework}, driver {driver}",
    "calibrate.of_link": "   {share} of the link",
    "calibrate.of_peak": "   {share} of the peak at {clock} GHz",
    "calibrate.sudo": (
        "Through sudo the Python of {user} would run as root, and write a file of root's.\nIt needs no "
        "root, so run it without sudo: perfzero calibrate"
    ),
    "calibrate.measuring": "Measuring GPU {index}, {name}, with {chosen} ...",
    "calibrate.kept": "Kept in {path}; recordings from now on are held against it.",
    "calibrate.not_kept": (
        "The roofs cannot be kept in {path}: {why}.\nChoose another folder: XDG_CONFIG_HOME=/a/folder "
        "perfzero calibrate"
    ),
    "unlock.libcupti": "hardware counters: they need a libcupti of CUDA 12.6 or later",
    "unlock.libcupti_note": (
        "torch and every CUDA toolkit bring one too; PERFZERO_CUPTI=/path/to/libcupti.so.13 names it"
    ),
    "unlock.mig": "counters of the whole GPU: it is divided by MIG, which offers none",
    "unlock.mig_note": "whoever administers the GPU can undivide it; MIG devices get the board's state only",
    "unlock.vgpu": "hardware counters in this virtual machine",
    "unlock.vgpu_note": (
        "on the hypervisor: set the vGPU plugin parameter enable_profiling=1 and restart the machine"
    ),
    "unlock.processes": "which processes use the GPU: a container shows only its own",
    "unlock.wsl": "the GPU: it comes with the NVIDIA driver of Windows",
    "unlock.container": "the GPU: this container was started without it",
    "unlock.driver": "the GPU: no driver answers",
    "unlock.driver_note": "see what it says; without a GPU: perfzero demo",
    "unlock.admins": "hardware counters: the driver keeps them for administrators",
    "unlock.gvisor": "hardware counters: the sandbox (gVisor) lets them through only where it is told to",
    "unlock.gvisor_note": "and NVIDIA_DRIVER_CAPABILITIES=all (or ...,profiling) in the container",
    "unlock.perfmon": (
        "newer drivers are content with --cap-add PERFMON; in Kubernetes: securityContext.capabilities.add"
    ),
    "unlock.on_host": "and for all users of the host, on the host",
    "unlock.for_all": "for all users",
    "unlock.this_run": "for this run",
    "unlock.for_good": "hardware counters without root, for good, {whom}",
    "unlock.for_good_note": (
        "then reboot, or unload and load the nvidia modules; on Debian and Ubuntu first: sudo "
        "update-initramfs -u"
    ),
    "unlock.busy": "hardware counters: another tool holds them",
    "unlock.dcgm_note": "and afterwards: dcgmi profile --resume",
    "unlock.perhaps": "{what} (perhaps {tool}, process {pid})",
    "unlock.wait": "wait until it has ended",
    "unlock.dcgm_outside": "if DCGM runs outside this container or on the host",
    "doctor.through_sudo": "through sudo, for the sampler alone",
    "doctor.can": "hardware counters can be sampled",
    "doctor.busy": "another tool holds the hardware counters",
    "doctor.denied": "the driver keeps the hardware counters for administrators",
    "doctor.no_usable": "there is no usable libcupti",
    "doctor.untried": "hardware counters were not tried",
    "doctor.cannot": "hardware counters cannot be sampled",
    "doctor.averages_only": "{why}; NVML GPM gives averages",
    "doctor.no_gpm_either": (
        "{why}, and this GPU has no GPM: only clocks, power and nvidia-smi's number are left"
    ),
    "doctor.shows_none": "the driver shows no GPU",
    "doctor.try_no_end": "the try of PM sampling did not end: {name}",
    "doctor.try_broke_off": "the try of PM sampling broke off: {last}",
    "roof.l2_chain": "L2, elementwise",
    "main.says": "perfzero: {said}",
    "unlock.dcgm": "{what} (DCGM)",
    "fail_if.checked": "perfzero: --fail-if {condition}: {outcome}. {text}",
    "fail_if.holds": "holds",
    "fail_if.does not hold": "does not hold",
    "fail_if.cannot be told": "cannot be told",
    "export.program": "the program",
    "export.look": "the look inside process {pid}",
    "export.stacks": "the stacks",
    "export.judging": "judging",
    "export.exporting": "perfzero: exporting, {what}",
    "top.without": "Without a GPU: perfzero top --replay DIR, or perfzero demo",
    "fail_if.no_condition": (
        "--fail-if {typed} is no condition.\nIt names a metric, < or >, and a number: --fail-if "
        '"throughput < -2%" or "step_time > 120ms"'
    ),
    "fail_if.near": " Did you mean {near}?",
    "fail_if.no_metric": "--fail-if knows no metric {metric}.{hint}\nThere are: {names}",
    "fail_if.is_share": (
        "--fail-if {typed}: {metric} is a share of the time, whose change is told in points.\nType it "
        'like this: --fail-if "{name} {sign} {number} points"'
    ),
    "fail_if.no_share": (
        "--fail-if {typed}: {metric} is no share of the time, and has no points.\nType it like this: "
        '--fail-if "{name} {sign} {number}%"'
    ),
    "fail_if.never": (
        "--fail-if {typed}: a number without % or points is the value itself, and {metric} is never below "
        '0.\nFor its change: --fail-if "{like}"'
    ),
    "fail_if.no_change": (
        "--fail-if {typed}: a change of {metric} as a share means nothing.\nIts value can be asked for: "
        '--fail-if "{name} > 80C"'
    ),
    "fail_if.was_none": "{metric} was nothing in {first}, of which there is no share",
    "fail_if.unknown_of_what": (
        "--fail-if-unknown is about conditions, and there is none.\nGive one, too: --fail-if "
        '"throughput < -2%"'
    ),
    "main.unwritten": "The output could not be written: {why}.",
    "fail_if.plain_number": "a plain number",
    "fail_if.no_unit": (
        "--fail-if {typed}: {metric} has no unit {unit}.\nIts values take {units}; its change takes {change}."
    ),
    "fail_if.seen_nowhere": "{metric} was seen in none of the recordings",
    "fail_if.not_in_both": "{metric} was not seen in both {first} and {last}",
    "fail_if.points": "{value} points",
    "fail_if.span": "{low} to {high}",
    "fail_if.no_interval": "no interval",
    "fail_if.change": "{metric} of {last} against {first}: {share} ({span})",
    "fail_if.no_difference": "{change}, no real difference",
    "fail_if.not_in_last": "{metric} was not seen in the last recording",
    "fail_if.is": "{metric} is {value}",
    "fail_if.is_between": "{is_so} ({low} to {high})",
    "usage.every_sample": "--every-sample is for Perfetto: {kind} has every sample anyway.\nLeave it out.",
    "export.not_written": (
        "{to} could not be written: {why}. Nothing was left there.\nMake room, or write elsewhere: "
        "perfzero export {path} --format {kind} -o OUT"
    ),
    "export.perfetto": "{to}: {size}, {slices} slices and {values} values of counters.",
    "export.merged": (
        "A value stands for up to {merged} samples ({bursts} in bursts), so that a browser can open it; "
        "--every-sample keeps them apart."
    ),
    "export.open": "Open it in ui.perfetto.dev; it stays on your machine.",
    "export.files": "{to}: {files} files, {size} MB.",
    "export.link": "{to} is a link, and links are not followed.\nName the place itself with -o.",
    "export.strange": (
        "{to} holds {strange}, which is no part of an export, and nothing is removed that perfzero did "
        "not write.\nChoose another folder with -o."
    ),
    "export.is_folder": "{to} is a folder, and {kind} is written to a file.\nName one with -o.",
    "export.taken": (
        "{to} is there already, and not of this recording.\nNothing was written. Choose another place "
        "with -o, or overwrite it: --force"
    ),
    "export.not_ours": (
        "{to} is there already, and `perfzero export` did not write it; --force does not replace it either."
        "\nChoose another place with -o."
    ),
    "export.own_file": (
        "{to} is a file of the recording in {folder}, or would be taken for one; exports never go there."
        "\nChoose another place with -o."
    ),
    "export.no_file": (
        "{to} is neither a file nor a folder, and {kind} is written to a file, whole or not at all."
        "\nName one with -o."
    ),
    "export.no_folder": "{to} is no folder, and {kind} is written to a folder.\nName one with -o.",
    "export.unreadable": (
        "{to} is there already and cannot be read: {why}.\nNothing was written. Choose another place with -o."
    ),
    "usage.gpu_or_replay": "Either the GPUs of this machine (--gpu) or a recording (--replay), not both.",
    "sets.unusable": (
        "The table of checked metric sets cannot be used: {why}.\nIt is part of perfzero, so this "
        "installation is incomplete. Install perfzero again."
    ),
}
