"""The recorder: what it tells while it runs, why something was not seen, and what calibration says."""

from __future__ import annotations

from collections.abc import Mapping

RECORDER: Mapping[str, str] = {
    "progress.waiting for work": "waiting for work",
    "progress.warm-up": "warm-up",
    "progress.looking closely": "looking closely",
    "progress.watching": "watching",
    "choice.window_s": "windows of {length} ({why})",
    "choice.period_ns": "samples {length} apart ({why})",
    "choice.zoom_s": "a burst of {length} ({why})",
    "choice.zoom_period_ns": "its samples {length} apart ({why})",
    "choice.step": "{number} step",
    "choice.steps": "{number} steps",
    "sure.no_verdict": "there is no verdict",
    "sure.on_gpu": "GPU {gpu}: ",
    "unseen.layers": "layers",
    "unseen.lines": "lines",
    "stacks.off": "the host is not sampled: {why}",
    "stacks.was_off": "The host was not sampled: {why}.",
    "busy.process": "process {pid}",
    "busy.processes": "processes {pids}",
    "look.process": "process {pid}",
    "look.processes": "{count} processes",
    "tier.gpm_averages": "GPM averages",
    "look.too_short": "the recording ended before that",
    "unseen.not_entered": (
        "The program's layers are not told: process {pid} could not be looked into, as {why}. To see "
        "them start it with: perfzero run -- CMD"
    ),
    "unseen.not_asked": (
        "The program's layers are not told: it runs already, and is entered only with --agent (Python "
        "3.14 or later). To see them start it with: perfzero run -- CMD"
    ),
    "unseen.or_lines": ", or find its lines with: perfzero run --pid PID",
    "unseen.no_program": (
        "The program's {wanted} are not told: with --gpu no program is watched. To see them start it "
        "with: perfzero run -- CMD{other}"
    ),
    "unseen.no_process": "There is no process {pid} to attach to.",
    "calibrate.no_program": "There is no program {asked}.\nName a Python: --python /path/to/python",
    "calibrate.no_framework": (
        "Neither torch nor cupy is installed for {pythons}; one of them has to do the work.\nName the "
        "Python of an environment that has one: perfzero calibrate --python /path/to/python"
    ),
    "busy.can_compute": "{who} can compute on it",
    "busy.was_busy": "it was busy {share} of the time just now, though no process shows",
    "busy.in_use": (
        "GPU {gpu} is in use: {why}, and roofs measured beside it would come out too low.\nWait until it "
        "is idle, or measure all the same: perfzero calibrate --force"
    ),
    "calibrate.mig": (
        "GPU {gpu} is divided by MIG, and the peaks of its parts are not known.\nIts reports are held "
        "against the roofs of the table."
    ),
    "calibrate.none": (
        "No roof of GPU {gpu} could be measured.\nTry again when the GPU is idle: perfzero calibrate"
    ),
    "calibrate.too_long": (
        "The measurement on GPU {gpu} did not end within {seconds} s.\nSee whether this works: {python} "
        "-c 'import torch; torch.ones(1).cuda()'"
    ),
    "exit_code": "exit code {code}",
    "calibrate.broke_off": (
        "The measurement broke off in {python}: {why}.\nName a Python whose torch or cupy can use this "
        "GPU: perfzero calibrate --python /path/to/python"
    ),
    "calibrate.unmeasured": "{name} could not be measured: {why}",
    "calibrate.wrong": "{name} came out as {value}, which cannot be right, and is left out",
    "sure.nothing": "there was nothing to judge",
    "sure.failed": "the recording could not be judged",
    "sure.confidence": "{where}{rule} has a confidence of {confidence}{against}",
    "sure.not_long": "{where}{rule} has not been said for long enough",
    "sure.gain_moves": "{where}the gain of {rule} still moves by more than {moved}",
    "choice.holds": "a window holds {held} of {step}",
    "choice.longer": "a step of {step} is longer",
    "choice.samples": "a step of {step} has {samples} samples",
    "choice.covers": "the burst covers {held} of {step}",
    "choice.burst_samples": "the burst has {samples} samples",
    "cost.no_rate": "no steady rate of the program is visible from outside",
    "cost.few": "only {count} windows could be compared with their surroundings",
    "cost.varies": "the program's own rate varies too much (±{margin})",
    "roofs.no_home": (
        "Roofs are kept in the home directory, and user {user} has none.\nChoose a folder: "
        "XDG_CONFIG_HOME=/a/folder perfzero calibrate"
    ),
    "roofs.format": "its format {format} is not {ours}: another version of perfzero wrote it",
    "roofs.unreadable": (
        "The calibrated roofs in {path} cannot be read: {why}.\nRemove them and measure again: perfzero "
        "calibrate --forget; perfzero calibrate"
    ),
    "roofs.impossible": "its {kind}[{name}] cannot be a figure of a GPU",
    "roofs.not_plain": "it is no plain file",
    "roofs.too_large": "it is larger than {size} bytes",
    "roofs.refused": "calibrated roofs of GPU {gpu} that cannot be right are left out: {names}",
    "launch.not_found": "{name}: command not found",
    "launch.no_permission": "{name}: permission denied",
    "look.begins": "looking into {who} for a few steps, which run slower meanwhile (--no-agent: never)",
    "look.refused": "no look into process {pid}: {reason}",
    "look.could_not_tell": "it could not be told: {why}",
    "look.not_ready": "it was not ready for its look in time",
    "look.no_answer": "it did not answer in time",
    "look.cupti_stays": "CUPTI could not be taken out of process {pid}, which may stay slower for it",
    "look.done": "looked into process {pid}: it was held up for {seconds} s",
    "look.not_kept": "{name} could not be kept: {why}",
    "look.no_own_file": "it is no file of its own",
    "look.too_large": "{size} MiB are more than {most}",
    "enter.other_user": "it is another user's",
    "enter.several_users": "it has the rights of more than one user",
    "enter.container": "it runs in a container, and perfzero does not run in the same",
    "enter.ended": "it has ended, or is not ours to see",
    "enter.replaced": "its Python has been replaced since it began",
    "enter.part_of": "its Python {python} is part of another program",
    "enter.root": (
        "root runs no Python that others can change; run perfzero with Python {python}, or as the "
        "program's user"
    ),
    "enter.no_python": "it runs no Python that perfzero knows",
    "enter.old_python": "its Python is {python}, and only 3.14 or later lets somebody in",
    "enter.other_group": "it is another user's than the first one, or of another group",
    "enter.no_time": "it could not be asked in time",
    "enter.nothing": "it has imported nothing that can be looked into, or works for another process",
    "enter.one_call": "its main thread has been inside one call for {seconds} s",
    "enter.no_memory": "this user may not write to its memory{yama}",
    "enter.forbids": "it forbids that: PYTHON_DISABLE_REMOTE_DEBUG, or -X disable-remote-debug",
    "enter.without_way": "its Python was built without a way in",
    "enter.unasked_as": "it could not be asked: {last}",
    "enter.unasked": "it could not be asked",
    "enter.yama": " (kernel.yama.ptrace_scope is {scope})",
    "sampler.no_start": "The sampler cannot be started: {error}.",
    "sampler.silent": "it said nothing for {seconds} s",
    "sampler.library": "libcupti {version} from {path}",
    "sampler.slow": "It took {seconds} s to take the counters; no window began meanwhile.",
    "sampler.late": "the buffer was emptied {seconds} s late",
    "sampler.sudo": "the driver keeps the counters for root: starting the sampler alone through sudo",
    "sampler.retries": "GPU {gpu}: {first} Trying again every {seconds} s.",
    "sampler.ended": "The sampler ended unexpectedly ({detail}).",
    "look.no_memory": "less than {size} MiB of its GPU's memory were free",
    "gpu.none": "The driver lists no GPU.\nWhat can be read on this machine: perfzero doctor",
    "look.cannot": "the program cannot be looked into: {why}",
    "run.as_user": "the program runs as {user}, not as root",
    "sure.not_yet": "the first judgement was not there yet",
    "sure.never": "The verdict never became sure: {doubt}.",
    "write.not_all": "not everything could be written: {what}",
    "run.had_ended": "The program had ended before it could be looked at.",
    "run.processes_hidden": "the driver does not show whose processes use which GPU: watching all of them",
    "run.ids_hidden": "Process ids are hidden: all GPUs without any are watched.",
    "stacks.not_kept": "The host's stacks could not be kept: {why}.",
    "steps.unseen_yet": "no step time can be seen yet: windows keep their default spacing meanwhile",
    "steps.pauses": ", as windows need pauses ten times their length",
    "steps.every": "a step takes {length} ms: a window every {steps} steps{why}",
    "sure.goes_on": ", the program goes on",
    "sure.now": "The verdict is sure after {seconds}: sampling stops{goes_on}.",
    "tier.source": "--source {name}",
    "tier.counters": "hardware counters",
    "tier.no_window": (
        "no window of hardware sampling came to be: the GPU had nothing to do, or the run was short"
    ),
    "cost.no_gpu": "no GPU was watched",
    "cost.worst": "GPU {gpu}, the worst of {count} that could be measured",
    "gpu.twins": (
        "{one} and {other} are parts of the same GPU {gpu}, and one recording cannot hold both.\nRecord "
        "them one by one, each with a --gpu of its own."
    ),
    "stacks.process": "The host's process {pid} could not be sampled: {why}.",
    "stacks.no_python": "it runs no Python, or was not seen to",
    "counters.lent": "what GPM lent is sampled, since GPM delivers nothing any more",
    "counters.lean": (
        "all have seen the steady state: those of the L2 and the FP32 pipe, half the CPU, are left out"
    ),
    "counters.complete": "those that were left out are looked at again",
    "xid.times": " {count} times",
    "xid.reported": "The driver reported Xid {number}{times}; NVIDIA's Xid catalogue says what that means.",
    "xid.said": "GPU {gpu}: the driver reported an error, Xid {number}",
    "watch.warm": "GPU {gpu}: warm-up is over after {seconds} s, looking closely",
    "watch.settled_again": (
        "The program changed its level soon after it had settled, and settled again after {seconds} s."
    ),
    "watch.again": "GPU {gpu}: warm-up was over only after {seconds} s, looking closely again",
    "tier.one_pass": "{count} hardware counters sampled in one pass",
    "watch.apart": "Samples are {length} apart from now on: {why}.",
    "tier.board": "the board's own figures",
    "tier.instead": "{why} Watching with {instead} instead.",
    "watch.instead": "GPU {gpu}: {why} Watching with {instead} instead.",
    "folder.roots": "no folder in which only root can write",
    "folder.own": "no folder in which only its user can write",
}
