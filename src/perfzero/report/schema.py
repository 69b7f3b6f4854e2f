"""
What report.json looks like, as JSON Schema (draft 2020-12).

docs/report.schema.json is this, written out; a test keeps the two equal. Nothing may appear in
a report that is not described here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from perfzero.attribute.host_activity import Activity, Stage
from perfzero.diagnose.verdict import TIME_CLASSES, Status, WorkKind
from perfzero.report.benchmarked import PolicyKind
from perfzero.values import Tier

# Readers may rely on a version for ever: a field is only ever added within one. Removing or
# changing one makes the next version.
# 1 - first version
SCHEMA_VERSION = 1

Schema = dict[str, Any]


def schema() -> Schema:
    """The JSON Schema of report.json."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "perfzero report",
        "description": (
            "One recording, judged. Times are integer Unix nanoseconds, intervals half-open. Numbers are in "
            "base units: ratios from 0 to 1, bytes, seconds, hertz, watts. null is a number that is missing."
        ),
        **_object(
            {
                "schema": {"const": SCHEMA_VERSION},
                "perfzero": _text("version of perfzero that wrote this"),
                "recording": _text("folder of the recording"),
                "created_ns": _integer("when the recording was begun"),
                "start_ns": _integer("earliest moment watched"),
                "end_ns": _integer("end of the last moment watched"),
                "watched_s": _number("end_ns - start_ns in seconds"),
                "complete": _boolean("false: the recording was cut short"),
                "headline": _text("the first line of any report, over all GPUs"),
                "doubts": _texts("what weakens the recording as a whole"),
                "process": _process(),
                "cost": _or_null(_cost()),
                "next_command": _or_null(_text("what to type to check a fix; null where unknown")),
                "gpus": {"type": "array", "items": _gpu_report(), "description": "the worst first"},
            }
        ),
    }


def schema_text() -> str:
    """The content of docs/report.schema.json."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _gpu_report() -> Schema:
    return _object(
        {
            "gpu": _gpu(),
            "tier": {"enum": list(get_args(Tier)), "description": "how closely the GPU was watched"},
            "headline": _text("the verdict in a sentence"),
            "verdict": _or_null(_finding()),
            "no_verdict": _or_null(_text("why there is none, exactly when verdict is null")),
            "findings": {"type": "array", "items": _finding(), "description": "largest share of time first"},
            "steps": {"type": "array", "items": _step(), "description": "the four questions"},
            "time": {
                "type": "object",
                "description": "where the steady time went; adds up to 1",
                "propertyNames": {"enum": list(TIME_CLASSES)},
                "additionalProperties": _number_or_null("share of time"),
            },
            "time_intervals": {
                "type": "object",
                "description": "95 % interval of each share of the time, by resampled steps or blocks",
                "propertyNames": {"enum": list(TIME_CLASSES)},
                "additionalProperties": {
                    "type": "array",
                    "items": _number_or_null("end of the interval"),
                    "minItems": 2,
                    "maxItems": 2,
                },
            },
            "facts": {"type": "array", "items": _fact(), "description": "everything measured"},
            "doubts": _texts("what weakens this diagnosis"),
            "steady": _steady(),
            "step_s": _number_or_null("the program's step time"),
            "rhythm": _or_null(_rhythm()),
            "no_rhythm": _text("why no step time is given, empty where one is"),
            "step_map": _or_null(_step_map()),
            "no_step_map": _text("why there is no map of the step, empty where there is one"),
            "stages": {
                "type": "array",
                "description": "the phases of the whole recording, in order; like ones share a label",
                "items": _object(
                    {
                        "start_ns": _integer("begin"),
                        "end_ns": _integer("end"),
                        "label": _integer("counts up from 0 in order of appearance"),
                        "gr_active": _number_or_null("mean GR activity"),
                    }
                ),
            },
            "truth": _object(
                {
                    "smi_utilization": _number_or_null("what nvidia-smi called utilisation"),
                    "sm_active": _number_or_null("share of time in which the SMs held work"),
                    "tensor_active": _number_or_null("share of time in which the tensor pipes worked"),
                    "dram_roof_share": _number_or_null("device memory traffic, share of its practical roof"),
                }
            ),
            "windows": _integer("windows of PM sampling, zoom bursts among them"),
            "watched_s": _number("how long this GPU was watched"),
            "losses": _losses(),
            "host": _or_null(_host()),
            "extra": {"type": "object", "additionalProperties": _number_or_null("further figures by name")},
        }
    )


def _host() -> Schema:
    place = _object(
        {
            "file": _text("file of Python"),
            "line": _integer("its line, 0 where unknown"),
            "function": _text("function it belongs to"),
        }
    )
    return _object(
        {
            "idle": _number_or_null("share of the time that the GPU was idle while the host was sampled"),
            "seconds": _number("how long both were sampled"),
            "moments": _integer("how often the host was seen in that time"),
            "offset_s": _number("what was added to the clock of the stacks"),
            "told": _number("how much the lines tell of the idle time, in nats over all moments"),
            "reason": _text("why there are no causes, empty where there may be"),
            "causes": {
                "type": "array",
                "description": "lines of the program that the GPU waits for, the first to look at first",
                "items": _object(
                    {
                        "activity": {"enum": list(get_args(Activity)), "description": "what is done there"},
                        "file": _text("file of the program"),
                        "line": _integer("its line, 0 where unknown"),
                        "function": _text("function it belongs to"),
                        "text": _text("what stands there, empty where unknown"),
                        "share": _number(
                            "share of the idle time that would be gone without the line; "
                            "shares of several may add up to more than 1"
                        ),
                        "low": _number("lower end of its 95 % interval"),
                        "high": _number("upper end of its 95 % interval"),
                        "drained": _number(
                            "part of the share that comes after the line, for it waited "
                            "until the GPU had nothing left to do"
                        ),
                        "path": {"type": "array", "items": place, "description": "how the line is reached"},
                        "stages": {
                            "type": "array",
                            "description": "what the workers of the DataLoader did, where it is waited for",
                            "items": _object(
                                {
                                    "stage": {
                                        "enum": list(get_args(Stage)),
                                        "description": "part of the work",
                                    },
                                    "share": _number("share of the time in which they worked"),
                                    "file": _text("file of the program, empty where unknown"),
                                    "line": _integer("its line, 0 where unknown"),
                                    "text": _text("what stands there, empty where unknown"),
                                }
                            ),
                        },
                    }
                ),
            },
        }
    )


def _gpu() -> Schema:
    return _object(
        {
            "index": _integer("NVML's index, not CUDA's"),
            "uuid": _text("the driver's identifier"),
            "name": _text("marketing name"),
            "chip": _or_null(_text("CUPTI's name of the chip")),
            "compute_capability": _or_null(
                {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
            ),
            "sm_count": _number_or_null("streaming multiprocessors"),
            "sm_clock_max_hz": _number_or_null("highest SM clock"),
            "memory_clock_max_hz": _number_or_null("highest memory clock"),
            "memory_bus_bits": _number_or_null("width of the memory bus"),
            "memory_bytes": _number_or_null("device memory"),
            "l2_bytes": _number_or_null("L2 cache"),
            "power_limit_w": _number_or_null("enforced power limit"),
            "pcie_generation_max": _number_or_null("highest PCIe generation of the link"),
            "pcie_width_max": _number_or_null("most PCIe lanes of the link"),
            "driver": _or_null(_text("driver version")),
            "mig": _boolean("MIG mode is on"),
            "calibrated": {
                "type": "object",
                "description": "practical roofs that perfzero calibrate measured; empty: by the table",
                "additionalProperties": _number_or_null("roof by name, see docs/calibrate.md"),
            },
        }
    )


def _rhythm() -> Schema:
    return _object(
        {
            "step_s": _number("mean length of a step"),
            "low_s": _number("lower end of its 95 % interval"),
            "high_s": _number("upper end of its 95 % interval"),
            "jitter": _number("standard deviation of single steps, as a share of the mean"),
            "count": _integer("whole steps seen"),
            "micro_s": _number_or_null("length of the parts that a step repeats"),
            "micro_per_step": _number_or_null("how many of them make a step"),
            "parts": {
                "type": "array",
                "description": "what the mean step consists of, in its order: name and share of the step",
                "items": {"type": "array", "minItems": 2, "maxItems": 2},
            },
            "seen_ns": {
                "type": "array",
                "description": "start and end of each time in which steps were seen, Unix ns",
                "items": {"type": "array", "minItems": 2, "maxItems": 2},
            },
            "events": {
                "type": "array",
                "description": "what happens in some steps only",
                "items": _object(
                    {
                        "nature": {"enum": ["stall", "other work"], "description": "whether the GPU rests"},
                        "count": _integer("how many were seen"),
                        "share": _number("share of the steady time"),
                        "length_s": _number_or_null("how long, beyond a usual step"),
                        "period_s": _number_or_null("from one to the next"),
                        "period_steps": _number_or_null("the same in steps"),
                    }
                ),
            },
        }
    )


def _step_map() -> Schema:
    kinds = {"enum": list(get_args(WorkKind)), "description": "what it looks like, see docs/step_map.md"}
    return _object(
        {
            "step_s": _number("median length of the steps that were laid over each other"),
            "steps": _integer("how many these are"),
            "left_out": _integer("steps that were too long or too short for that"),
            "sample_s": _number("length of the samples that the phases were cut by"),
            "fine_s": _number("seconds of finer samples that found their place in the step"),
            "phases": {
                "type": "array",
                "description": "in their order; where the program itself begins its step is not known",
                "items": _object(
                    {
                        "kind": kinds,
                        "confidence": _number("from 0 to 1: sure from 0.8 on, likely from 0.5 on"),
                        "start": _number("begin, with the whole step as 1"),
                        "end": _number("end"),
                        "seconds": _number("how long it takes"),
                        "because": _texts("the counters that say so"),
                        "made_of": {
                            "type": "object",
                            "description": "share of its time by kind, the largest first",
                            "propertyNames": {"enum": list(get_args(WorkKind))},
                            "additionalProperties": _number("share"),
                        },
                        "resolved": _boolean("the shares are of samples that hold single kernels"),
                        "seen": _number_or_null("share of the single steps that show it"),
                        "levels": {
                            "type": "object",
                            "description": "mean of each counter by its name, amounts per second",
                            "additionalProperties": _number_or_null("mean"),
                        },
                    }
                ),
            },
        }
    )


def _process() -> Schema:
    return _object(
        {
            "pid": _or_null(_integer("process id")),
            "command": _texts("the program's command line, secrets removed"),
            "exit_code": _or_null(_integer("what the program returned")),
        }
    )


def _cost() -> Schema:
    return _object(
        {
            "slowdown": _number_or_null("effect of watching on the program's speed (0.001 = 0.1 %)"),
            "margin": _number_or_null("half of its 95 % interval, the wider side"),
            "reason": _text("why the effect could not be measured"),
            "cpu_s": _number_or_null("CPU time of sampler and recorder, start-up included, in seconds"),
            "cpu_share": _number_or_null("CPU time of sampler and recorder, in cores"),
            "pm_duty": _number_or_null("share of time in which PM sampling ran"),
            "sessions": _integer("how often a PM sampling session was opened"),
            "policy": {"enum": list(get_args(PolicyKind)), "description": "how closely this run was watched"},
            "benchmark": _or_null(
                _object(
                    {
                        "slowdown": _number("what a benchmark of the same policy found"),
                        "upper": _number("upper end of its 95 % interval"),
                        "hardware": _text("the GPU it ran on"),
                        "date": _text("when, ISO 8601"),
                    }
                )
            ),
        }
    )


def _finding() -> Schema:
    return _object(
        {
            "rule": _text("stable id of the cause, see docs/rules.md"),
            "title": _text("the cause in a sentence"),
            "severity": {"enum": ["info", "watch", "bad"]},
            "share": _number_or_null("share of steady time concerned"),
            "confidence": _number_or_null("from 0 to 1: sure from 0.8 on, likely from 0.5 on"),
            "because": _texts("the evidence"),
            "gain": _gain("of the finding's first remedy"),
            "remedies": {
                "type": "array",
                "items": _object(
                    {
                        "text": _text("what to do"),
                        "needs": _texts("what must hold first"),
                        "verify": _text("how to see that it worked"),
                        "gain": _gain("its own, null where it is that of the finding or unknown"),
                        "topic": _text("what a look inside the program can tell of it, else empty"),
                        "seen": _text("what a look told of layers, or stacks of a line; else empty"),
                        "next_limit": _or_null(_text("what limits next, null where as after the first")),
                    }
                ),
            },
            "next_limit": _or_null(_text("what limits the program next")),
            "undecided": _text("what may explain the same time instead, and what would decide; else empty"),
        }
    )


def _gain(whose: str) -> Schema:
    return _or_null(
        _object(
            {
                "low": _number_or_null(f"least expected speed-up, as a factor; {whose}"),
                "high": _number_or_null("greatest expected speed-up, as a factor"),
                "assumption": _text("what the interval rests on"),
            }
        )
    )


def _step() -> Schema:
    return _object(
        {
            "number": {"enum": [1, 2, 3, 4]},
            "question": _text("the question"),
            "answer": _text("one or two words"),
            "status": _status(),
            "text": _text("the evidence in one line"),
            "facts": {"type": "array", "items": _fact()},
        }
    )


def _fact() -> Schema:
    return _object(
        {
            "name": _text("name of the row in summary.csv"),
            "value": _number_or_null("null where it could not be measured; then text says why"),
            "unit": _text("base unit"),
            "status": _status(),
            "threshold": _or_null(_text("what it is held against, in words")),
            "margin": _number_or_null(
                "distance from the threshold as a share of it, positive on the good side"
            ),
            "text": _text("remark"),
        }
    )


def _steady() -> Schema:
    return _object(
        {
            "start_ns": _integer("begin of the stretch that was judged"),
            "end_ns": _integer("its end"),
            "dropped_s": _number("what was left out before it, in seconds"),
            "how": {"enum": ["stable", "fallback", "short", "none"]},
            "text": _text("how it was found"),
            "kind": {"enum": ["steady", "slow_down", "cyclic", "never"], "description": "what it is like"},
        }
    )


def _losses() -> Schema:
    return _object(
        {
            "samples": _integer("samples kept in all windows"),
            "lost": _integer("samples that should have come and did not"),
            "lost_share": _number_or_null("lost / (samples + lost)"),
            "gaps_s": _number("total length of the gaps"),
            "gaps": {
                "type": "array",
                "items": _object(
                    {
                        "source": _text("which stream has the gap"),
                        "start_ns": _integer("begin"),
                        "end_ns": _integer("end"),
                        "reason": _text("why"),
                    }
                ),
            },
        }
    )


def _object(properties: Mapping[str, Schema]) -> Schema:
    """An object with exactly these fields, all of them always present."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _status() -> Schema:
    return {"enum": list(get_args(Status))}


def _or_null(of: Schema) -> Schema:
    return {"anyOf": [of, {"type": "null"}]}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _texts(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _integer(description: str) -> Schema:
    return {"type": "integer", "description": description}


def _number(description: str) -> Schema:
    return {"type": "number", "description": description}


def _number_or_null(description: str) -> Schema:
    return {"type": ["number", "null"], "description": description}


def _boolean(description: str) -> Schema:
    return {"type": "boolean", "description": description}
