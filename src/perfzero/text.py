"""
Numbers and messages to words that people read.

Machine files never pass through here: they keep base units and full precision. Numbers are
rounded to what a reader can use (two significant digits, or whole percents): 0.997 is "99.7 %",
0.0003 is "0.03 %". Counters are true to a few tenths of a percent, so from 99.95 % on it is
"100 %"; almost nothing is "< 0.01 %", because nothing at all is a finding. A missing value is "–".

Fixed phrases of the reports stand in one catalogue per language, so that a language is a
table to add. English is the only one there is; `catalogue` refuses any other by name.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence

MISSING = "–"

SURE = 0.8
LIKELY = 0.5
"""From these confidences on a verdict is called "sure" or "likely"; below it is "unsure"."""

GLUE = "\ue000"
"""Stands for a space that must not break; of private use, so `printable` lets none in from outside."""

_BEFORE_UNIT = re.compile(
    r"(?<=[0-9]) (?=%|°C|[kMGTmµn]?(?:B|B/s|FLOP/s|Hz|W|J|s|/s|h|min)\b)|(?<=[<>≤≥]) (?=[0-9])"
)

_MINUS = "−"
_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_TRACE = 1e-4
"""Less than this share is there, and no more can be said of it."""

_PLAIN_THRESHOLD = re.compile(r"\s*(<=|>=|[<>≤≥])\s*([0-9]+(?:\.[0-9]+)?)\s*\Z")

ENGLISH: Mapping[str, str] = {
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
    "layers": "Where {whose} time goes, by a look {how}:",
    "layers_here": "the GPU's",
    "layers_elsewhere": "GPU {gpus}'s",
    "layers_somewhere": "some GPU's",
    "looked_steps": "at {steps} of the program",
    "looked_unmarked": "of {length} at the program, in which no step was told",
    "layers_overlap": "Streams overlap, so shares add up to {sum}.",
    "needs": "{what} (provided: {needs})",
    "seen_channels_last": "NCHW in {rows}: {share} of the busy time, and transposes take {beside}.",
    "seen_alignment": "Not so in {rows}: {share} of the busy time.",
    "seen_fused_optimizer": "It launches many kernels, {share} of the busy time: {rows}.",
    "seen_fused_attention": "Attention step by step in {rows}: {share} of the busy time.",
    "seen_activations": "In float32 in {rows}: {share} of the busy time.",
    "seen_line": "It is {line}.",
    "seen_gain": "what a fused kernel leaves of attention elsewhere",
    "fused_gain": "from nothing to all that a compiler may fuse of the elementwise operators that were seen",
    "seen_half_precision": "In float32: {rows}, {share} of the busy time.",
    "seen_float64": "In float64: {rows}, {share} of the busy time.",
    "seen_tf32": "Without the tensor cores: {rows}, {share} of the busy time.",
    "seen_tensor_cores": "Beside the tensor cores: {rows}, {share} of the busy time.",
    "seen_tiny_kernels": "Short kernels make {share} of the launches: {rows}.",
    "seen_tiny_products": "Short kernels, mostly products, make {share} of the launches: {rows}.",
    "seen_chains": "Elementwise, one after another: {rows}, {share} of the busy time{spared}.",
    "spared": "; fused, up to {most} of their bytes go, where each works on the result of the one before",
    "fused_beside": "; other elementwise operators take {beside}",
    "traffic": "most bytes: {rows}{beyond}",
    "beyond": "; {share} of all bytes are more than operators have to move",
    "why_unaligned": "{number} is no multiple of 8",
    "why_tf32_off": "TF32 is off",
    "why_convolution_tf32_off": "TF32 is off in convolutions",
    "why_vector": "a vector",
    "why_depthwise": "channel by channel",
    "why_groups": "in {number} groups",
    "why_tiny": "{length} each",
    "why_streaming": "streaming",
    "why_poor_reuse": "{times} times what it has to",
    "why_from_l2": "in part from the L2",
    "expect": "expect {gain}",
    "nothing_to_do": "nothing: there is no cheap gain left to find here",
    "next_limit": "next limit: {limit}",
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

LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH}


def catalogue(language: str) -> Mapping[str, str]:
    """The fixed phrases of *language* by key; KeyError names the languages there are."""
    try:
        return LANGUAGES[language]
    except KeyError:
        raise KeyError(f"no messages in {language!r}; there are: {', '.join(LANGUAGES)}") from None


def percent(share: float) -> str:
    """
    0.58 -> "58 %"; one digit below 10 % and between 99 and 99.95 %; one significant digit below 1 %.

    What is not zero and less than 0.01 % is "< 0.01 %".
    """
    if not math.isfinite(share):
        return MISSING
    if 0 < abs(share) < _TRACE:
        return f"< {percent_number(_TRACE)} %"
    return f"{percent_number(share)} %"


def percent_number(share: float) -> str:
    """As `percent`, without the sign: for intervals such as "0.03 % ± 0.04"."""
    value = abs(share) * 100
    if value == 0:
        digits = "0"
    elif value < 1:
        digits = _plain(value, 1)
    elif value < 9.95 or 99 <= value < 99.95:
        digits = f"{value:.1f}".removesuffix(".0")
    else:
        digits = f"{value:.0f}"
    return (_MINUS if share < 0 and value > 0 else "") + digits


def duration(seconds: float, *, digits: int = 2) -> str:
    """0.081 -> "81 ms"; 130 -> "2 min 10 s"; 3900 -> "1 h 5 min". *digits* counts below 100 s."""
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 0:
        return _MINUS + duration(-seconds, digits=digits)
    if round(seconds) >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    if seconds >= 100:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    if seconds == 0:
        return "0 s"
    # Half a unit of the last digit shown: 0.9996 s is "1 s", not "1000 ms".
    fits = (unit for unit in _SMALL if seconds >= unit[0] * (1 - 0.5 * 10.0**-digits))
    scale, prefix = next(fits, _SMALL[-1])
    return f"{_plain(seconds / scale, digits)} {prefix}s"


def quantity(value: float, unit: str) -> str:
    """
    *value* in its base *unit* (a unit of `perfzero.counters`, or "bytes/s", "flop/s", "count/s") in words.

    1.9e12 bytes/s -> "1.9 TB/s"; 1.33e9 hertz -> "1.3 GHz"; 0.42 ratio -> "42 %". Decimal prefixes.
    """
    if not math.isfinite(value):
        return MISSING
    if unit == "ratio":
        return percent(value)
    if unit == "seconds":
        return duration(value)
    symbol = {
        "bytes": "B",
        "bytes/s": "B/s",
        "flop/s": "FLOP/s",
        "hertz": "Hz",
        "count/s": "/s",
        "count": "",
        "watts": "W",
        "joules": "J",
        "celsius": "°C",
        "hours": "h",
        "lanes": "lanes",
        "generation": "",
    }.get(unit, unit)
    if unit in ("celsius", "lanes", "generation", "hours"):
        return f"{_plain(value, 2)} {symbol}".rstrip()
    sign = _MINUS if value < 0 else ""
    size = abs(value)
    scale, prefix = 1.0, ""
    for limit, name in _SI:
        # 999.7e9 rounds to 1.0e12: choose the prefix by the rounded value.
        if size >= limit * 0.9995:
            scale, prefix = limit, name
            break
    number = _plain(size / scale, 2 if size / scale < 99.5 else 3)
    if symbol == "/s" and not prefix:
        return f"{sign}{number}/s"
    return f"{sign}{number} {prefix}{symbol}".rstrip()


def times(low: float, high: float) -> str:
    """An interval of speed-ups: (1.9, 2.3) -> "1.9–2.3×"; one number where both ends read the same."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return MISSING
    # Where all of it is small a second digit is the whole message: 1.02–1.06 is not 1.0–1.1.
    digits = 2 if high < 1.5 else 1
    first, last = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return f"{first}×" if first == last else f"{first}–{last}×"


def confidence_word(confidence: float) -> str:
    """The key of the word for *confidence* in [0, 1]: "sure", "likely" or "unsure" (NaN is unsure)."""
    if confidence >= SURE:
        return "sure"
    return "likely" if confidence >= LIKELY else "unsure"


def threshold_words(threshold: str, unit: str) -> str:
    """A ratio's threshold as people say it: "≥ 0.9" -> "≥ 90 %". Anything else stays as it is."""
    match = _PLAIN_THRESHOLD.match(threshold) if unit == "ratio" else None
    if match is None:
        return threshold
    sign = {"<=": "≤", ">=": "≥"}.get(match[1], match[1])
    return f"{sign} {percent(float(match[2]))}"


def margin_points(threshold: str, margin: float, unit: str) -> str | None:
    """
    How far a ratio is from its threshold, in whole points of percent; None for anything else.

    *margin* is the distance as a share of the threshold: ("≥ 0.9", -0.77, "ratio") -> "69".
    """
    match = _PLAIN_THRESHOLD.match(threshold) if unit == "ratio" else None
    if match is None or not math.isfinite(margin):
        return None
    return f"{abs(margin) * float(match[2]) * 100:.0f}"


def count(number: float) -> str:
    """A large number with two significant digits and its thousands apart: 6791 -> "6,800"."""
    if not math.isfinite(number):
        return MISSING
    return (
        f"{number:.2g}"
        if abs(number) < 99.5
        else f"{round(number, 1 - math.floor(math.log10(abs(number)))):,.0f}"
    )


def enumeration(items: Sequence[str]) -> str:
    """("a", "b", "c") -> "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def counted(number: int, noun: str) -> str:
    """1, "gap" -> "1 gap"; 3, "gap" -> "3 gaps"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def printable(text: str) -> str:
    """
    *text* on one line and without control characters.

    Words in a recording (commands, reasons) may come from anyone; none of them may move the
    cursor, recolour the terminal or hide what follows.
    """
    kept = (" " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c)[0] != "C")
    return " ".join("".join(kept).split())


def glued(text: str) -> str:
    """*text* with every number bound to its unit by `GLUE`, so that no line breaks between them."""
    return _BEFORE_UNIT.sub(GLUE, text)


def unglued(text: str) -> str:
    """*text* with plain spaces for `GLUE`."""
    return text.replace(GLUE, " ")


def _plain(value: float, digits: int) -> str:
    """*value* with *digits* significant digits, never in exponent form, without trailing zeros."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - exponent)
    exponent = math.floor(math.log10(abs(rounded)))
    decimals = max(0, digits - 1 - exponent)
    number = f"{abs(rounded):.{decimals}f}"
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return (_MINUS if value < 0 else "") + number
