"""Signals: why no steps are seen, and what of a look, of stacks or of a whole recording cannot be told."""

from __future__ import annotations

from collections.abc import Mapping

SIGNALS: Mapping[str, str] = {
    "trace.of": "{file}: {why}",
    "trace.unexpected": (
        "this trace could not be broken down ({kind}), which is a mistake in perfzero; all else is as "
        "without it."
    ),
    "refined.failed": (
        "What was seen beside the counters could not be held against the verdict ({step}: {kind}), which is "
        "a mistake in perfzero; all else is as without it."
    ),
    "trace.unsettled": (
        "what this trace shows of the remedies could not be told ({kind}), which is a mistake in perfzero; "
        "all else is as without it."
    ),
    "no_steps.groups": (
        "Beats differ in groups, but each group falls on the samples alike, so it may be the sampling "
        "that makes them differ."
    ),
    "no_steps.no_beginning": "Parts of a step repeat, but where the whole step begins cannot be told.",
    "no_steps.faster_between": (
        "The GPU waits at regular intervals, but something faster repeats between the waits, so these "
        "may come only every so many steps."
    ),
    "no_steps.too_fast": (
        "Something comes back every {length}, so fast that it may be a kernel, a wave of its blocks or a "
        "layer."
    ),
    "no_steps.vary": "The steps that were seen vary too much: their mean lies between {low} and {high}.",
    "no_steps.not_close": "Nothing was sampled closely enough to see single steps.",
    "no_steps.bursts_only": (
        "The bursts repeat themselves, but the longer windows would show steps of that length and do "
        "not, so the repetition may be only a part of a step."
    ),
    "no_steps.bursts_slower": (
        "The bursts repeat themselves, but the longer windows show slower changes beside that, so the "
        "repetition may be only a part of a step."
    ),
    "no_steps.differ": "The windows and the bursts tell of different steps; one of them is not the step.",
    "no_steps.holes": "Too few samples follow each other without a hole to see steps repeat.",
    "no_steps.no_change": "No counter changes enough to show where a step begins.",
    "no_steps.short": "Steps, or parts of them, are shorter than a few samples.",
    "no_steps.nothing": "Nothing in the counters comes back at regular intervals.",
    "no_steps.uneven": (
        "Something comes back at regular intervals, but the work between is uneven and does not repeat: "
        "it may be only a part of a step."
    ),
    "no_steps.alternate": "Longer and shorter beats take turns, so each may be only a part of a step.",
    "no_steps.timer": (
        "Something comes back at regular intervals, but now more and now less work is done in between: "
        "these may be the beats of a timer, such as that of a CPU quota, parts of a step, or steps of "
        "unequal work."
    ),
    "no_steps.drift": (
        "Something comes back at regular intervals, but the work in between becomes more or less with "
        "time, so that no one step time would be true."
    ),
    "layers.many_at_once": "More kernels ran at once, or in one sample, than counters can be shared out to.",
    "layers.seen": "Counters were sampled in {share} of the kernels' time",
    "layers.too_little": "{seen}, too little to be told by kernel.",
    "layers.like_it": "{seen}; the rest is taken to be like it.",
    "stacks.unexpected": (
        "What the GPU waits for could not be told by line ({kind}), which is a mistake in perfzero; all else "
        "is as without the lines."
    ),
    "stacks.too_many": "The host was seen at more different places than can be told apart.",
    "stacks.not_sampled": "The host was not sampled.",
    "stacks.no_counters": "No hardware counters were sampled while the host was.",
    "stacks.too_rarely": "The host was seen too rarely while the counters were sampled.",
    "stacks.not_worth": "The GPU is idle for too little of the time for a line to matter.",
    "stacks.hardly_idle": "The GPU was hardly idle while the host was sampled.",
    "layers.several_gpus": "The trace holds work of several GPUs, so counters are not shared out to it.",
    "layers.no_sample": "No sample of the GPU's counters lies in the trace.",
    "layers.clocks": (
        "The clocks of trace and counters could not be held against each other, and were taken as one."
    ),
    "layers.long_samples": (
        "The counters' samples are {length} ms long: modules can be trusted, single kernels less."
    ),
    "layers.no_work": "The trace holds no work of a GPU.",
    "layers.no_steps": "The trace marks no steps, so there is no time per step.",
    "look.ended_early": "it ended before its steps had",
    "look.other_worker": "it is a worker of another process",
    "look.nor": ", nor into {number} more",
    "look.not_all": "Not all layers are told",
    "look.none": "The program's layers are not told",
    "look.untold": "{lost}, for there is no look into process {pid}{more}: {why}.",
    "doubt.why": "{doubt}. Why: {reason}.",
    "write.unwritten": (
        "{folder}: {missing} could not be written ({why}).\nThe verdict above is complete; only the files "
        "are missing.\nMake room, or write elsewhere: perfzero analyze {recording} --output-dir DIR"
    ),
    "write.unmade": (
        "{folder}: {missing} could not be made ({why}).\nThe verdict above is complete; only what is named "
        "here is missing. This is a mistake in perfzero: please report it with this line."
    ),
    "write.taken": (
        "{folder} already holds {names}, and not of this recording.\nNothing was written. Choose another "
        "folder, or overwrite them: --force"
    ),
    "trace.first_read": "Of {count} looks inside the program the first {most} were read.",
    "trace.several_gpus": "it used several GPUs, so counters are not shared out to it.",
    "trace.shared": "others of its processes used the same GPU, so counters are not shared out to it.",
    "trace.another": "another program held its GPU, too, and what that read is counted as its own.",
}
