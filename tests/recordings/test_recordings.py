"""
Real recordings from a GPU, each with the verdict that was written down before it was made.

Everything here holds on ids and relations, never on figures: the recordings are made anew when the
recorder changes. `README.md` beside this file says how.
"""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import step_log

from perfzero.diagnose.judge import judge
from perfzero.diagnose.thresholds import LOST_DOUBT, SHORTEST_LOOK
from perfzero.diagnose.verdict import Diagnosis, Finding
from perfzero.report.analysis import judged_report
from perfzero.report.terminal import words
from perfzero.store.reader import Recording, open_recording
from perfzero.values import Observation, Samples

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES: Mapping[str, Mapping[str, Any]] = json.loads((HERE / "expected.json").read_text())["cases"]

LIMIT_BYTES = 400_000
SEVERITIES = ("info", "watch", "bad")

HEALTHY = tuple(name for name, case in CASES.items() if case.get("highest_severity") == "info")
STEPLESS = ("variable_batches", "variable_batches_rounded", "never_steady", "two_processes")
"""Programs without a step time, or with that of two programs that take turns."""

BUSY = (
    "bf16_gemm_capped", "fp32_gemm", "tiny_kernels_graph", "elementwise_chain", "resnet50_nchw",
    "resnet50_channels_last", "transformer_healthy",
)  # fmt: skip
"""Cases in which a kernel runs nearly all the time, so that nvidia-smi calls the GPU busy."""

VAGUER = {
    "launch_bound": {"host_starved"}, "sync_bound": {"host_starved"}, "pageable_copies": {"transfer_bound"},
    "gpu_shared": {"well_used"}, "periodic_stall": {"host_starved"}, "debug_leftovers": {"host_starved"},
}  # fmt: skip
"""
What averages over 0.1 s can still say of a cause they cannot prove. Launches, the front end's queue and
context switches are not among GPM's counters; and a slow copy and one that ran part of the time look
alike, as do a stall between steps and a wait in each.
"""

SEEN_TWICE = {"periodic_stall"}
"""Rules about what comes back: half of a recording may show it once."""

FROM_GPM = {"fp64_path"}
"""Rules that rest on what only GPM measures: a half without any of its rows cannot have them."""


@dataclass(frozen=True)
class Kept:
    """One recording that is kept, and what is made of it."""

    recording: Recording
    seen: Observation
    diagnosis: Diagnosis

    @property
    def rule(self) -> str:
        """The verdict's id; the test fails where there is none."""
        assert self.diagnosis.verdict is not None, self.diagnosis.no_verdict
        return self.diagnosis.verdict.rule


@functools.cache
def _read(name: str) -> Kept:
    recording = open_recording(HERE / name)
    [gpu] = recording.gpus
    seen = recording.observation(gpu.index)
    return Kept(recording, seen, judge(seen))


def kept(name: str) -> Kept:
    """The recording of a case. A missing one is a failure of the first test, and told there once."""
    if not (HERE / name).is_dir():
        pytest.skip(f"{name} is missing; see the test that asks for every case")
    return _read(name)


def with_fields(**wanted: str) -> list[str]:
    """The cases of which expected.json says something under each of these names."""
    return [name for name, case in CASES.items() if all(field in case for field in wanted.values())]


every_case = pytest.mark.parametrize("name", CASES)


# --- what is kept ----------------------------------------------------------------------------


@every_case
def test_every_case_has_its_recording(name: str) -> None:
    assert (HERE / name / "manifest.json").is_file(), (
        f"python tools/make_recordings.py --out OUT --only {name}"
    )


def test_no_recording_is_kept_of_which_nothing_is_expected() -> None:
    assert {path.name for path in HERE.iterdir() if path.is_dir() and path.name[0] not in "._"} <= set(CASES)


@every_case
def test_a_recording_is_small_enough_to_keep(name: str) -> None:
    folder = kept(name).recording.path
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < LIMIT_BYTES


@every_case
def test_a_recording_says_which_command_made_it(name: str) -> None:
    recording = kept(name).recording
    typed = (recording.path / "command.txt").read_text().splitlines()[-1]
    ours, theirs = typed.split(" -- ", 1)
    _, *program = recording.manifest.process.command

    assert ours.startswith("perfzero run ")
    assert plain(shlex.split(theirs))[1:] == plain(program)
    assert any((ROOT / word).is_file() for word in program)


def plain(words: list[str]) -> list[str]:
    """A command line with every Python called just that, and without the log that the tool asks for."""
    words = words[: words.index("--log")] if "--log" in words else words
    return ["python" if word.startswith("python") else word for word in words]


@every_case
def test_a_recording_opens_whole_and_undoubted(name: str) -> None:
    recording = kept(name).recording
    assert recording.doubts == ()
    assert recording.complete
    assert recording.manifest.process.exit_code == (-9 if name == "killed" else 0)


@every_case
def test_a_recording_tells_nothing_of_whose_machine_it_was(name: str) -> None:
    folder = kept(name).recording.path
    told = "".join((folder / file).read_text() for file in ("manifest.json", "events.jsonl", "command.txt"))
    assert not [word for word in ("/home/", "/root/", "/tmp/", "hostname", "TOKEN") if word in told]


# --- what is made of it ----------------------------------------------------------------------


@every_case
def test_the_verdict_is_the_one_expected_beforehand(name: str) -> None:
    assert kept(name).rule in CASES[name]["verdict"]


@pytest.mark.parametrize("name", with_fields(wanted="findings"))
def test_what_else_was_expected_is_found(name: str) -> None:
    assert set(CASES[name]["findings"]) <= {finding.rule for finding in kept(name).diagnosis.findings}


@pytest.mark.parametrize("name", with_fields(wanted="highest_severity"))
def test_nothing_is_called_worse_than_it_is(name: str) -> None:
    allowed = SEVERITIES[: SEVERITIES.index(CASES[name]["highest_severity"]) + 1]
    assert {f.severity for f in kept(name).diagnosis.findings} <= set(allowed)


@pytest.mark.parametrize("name", with_fields(wanted="highest_confidence"))
def test_an_answer_from_less_data_is_less_sure(name: str) -> None:
    verdict = kept(name).diagnosis.verdict
    assert verdict is not None
    assert 0 < verdict.confidence <= CASES[name]["highest_confidence"]


@pytest.mark.parametrize("name", with_fields(wanted="doubt"))
def test_what_was_lost_is_named_as_a_doubt(name: str) -> None:
    assert [doubt for doubt in kept(name).diagnosis.doubts if CASES[name]["doubt"] in doubt]


@every_case
def test_losses_are_lamented_exactly_where_there_were_some(name: str) -> None:
    """A fraction of a thousandth may pass in silence."""
    seen, doubts = kept(name).seen, kept(name).diagnosis.doubts
    windows = [w for w in seen.windows if w.kind != "zoom"]
    share = sum(w.lost for w in windows) / max(1, sum(w.samples + w.lost for w in windows))

    assert any("lost" in doubt for doubt in doubts) == bool(seen.gaps or share > LOST_DOUBT.value)


@every_case
def test_the_time_is_shared_out_completely(name: str) -> None:
    shares = kept(name).diagnosis.shares
    assert sum(shares.values()) == 1.0
    assert all(0 <= share <= 1 for share in shares.values())


@every_case
def test_each_of_the_four_questions_is_answered(name: str) -> None:
    steps = kept(name).diagnosis.steps
    assert [step.number for step in steps] == [1, 2, 3, 4]
    assert not [step.question for step in steps if step.answer == "unknown" or not step.text]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_program_is_sold_nothing(name: str) -> None:
    diagnosis = kept(name).diagnosis
    screen = words(judged_report(kept(name).recording.path))

    assert diagnosis.verdict is not None
    assert (diagnosis.verdict.gain, diagnosis.verdict.remedies) == (None, ())
    assert "nothing: there is no cheap gain" in screen
    assert "expect" not in screen
    assert not [r.text for f in diagnosis.findings for r in f.remedies if r.text[:40] in screen]


@pytest.mark.parametrize("name", [n for n in CASES if n not in HEALTHY])
def test_a_program_in_trouble_is_told_a_way_out_and_what_it_gains(name: str) -> None:
    verdict = kept(name).diagnosis.verdict
    assert verdict is not None
    assert verdict.remedies
    assert verdict.gain is not None
    assert 1 <= verdict.gain.low <= verdict.gain.high


# --- the same programs, seen less well -------------------------------------------------------


def without_sampling(seen: Observation) -> Observation:
    """*seen* as if PM sampling had never come to be."""
    return replace(seen, pm=Samples.empty(), zoom=Samples.empty(), windows=())


@every_case
def test_without_hardware_sampling_the_cause_is_the_same_and_less_sure(name: str) -> None:
    """No verdict would do as well, and for some causes a vaguer one; a wrong one would not."""
    whole = kept(name)
    judged = judge(without_sampling(whole.seen))

    assert judged.tier == "gpm"
    if judged.verdict is None:
        assert judged.no_verdict
        return
    assert judged.verdict.rule in {whole.rule, *VAGUER.get(whole.rule, ())}
    if whole.diagnosis.tier == "pm":
        assert judged.verdict.confidence < sureness(whole.diagnosis)


def sureness(diagnosis: Diagnosis) -> float:
    """The confidence in the verdict, 0 where there is none."""
    return 0.0 if diagnosis.verdict is None else diagnosis.verdict.confidence


@every_case
def test_nvidia_smi_alone_names_no_cause_that_it_cannot_see(name: str) -> None:
    """It sees idle GPUs and clocks held down; how well a busy one is used it cannot say."""
    seen = replace(without_sampling(kept(name).seen), gpm=Samples.empty())
    judged = judge(seen)

    assert judged.tier == "nvml"
    assert judged.shares == {}
    if judged.verdict is None:
        assert judged.no_verdict
    else:
        assert judged.verdict.rule in {"host_starved", "power_capped", "thermal"}
        assert judged.verdict.confidence <= 0.3


# --- step times ------------------------------------------------------------------------------


def own_ms(name: str, spans_ns: Iterable[tuple[int, int]]) -> float:
    """The mean step within *spans_ns* by the program's own clock."""
    mean, _ = step_log.step_of(step_log.of_spans(step_log.unpack(HERE / name / "own_steps.npz"), spans_ns))
    return mean


@every_case
def test_a_step_time_is_that_of_the_programs_own_clock_or_not_told(name: str) -> None:
    """Of the steps that were seen; the mean over the whole stretch is in the interval, or as near to it."""
    judged = kept(name).diagnosis
    if judged.rhythm is None:
        return
    assert name not in STEPLESS
    rhythm, whole = judged.rhythm, (judged.steady.start_ns, judged.steady.end_ns)
    assert rhythm.step_s * 1e3 == pytest.approx(own_ms(name, rhythm.seen_ns), rel=0.02)
    assert rhythm.low_s * 1e3 * 0.98 <= own_ms(name, [whole]) <= rhythm.high_s * 1e3 * 1.02


def test_step_times_are_told_of_ten_programs_or_more() -> None:
    """Of one that accumulates gradients and one whose steps jitter by 15 %, too."""
    told = {name for name in CASES if kept(name).diagnosis.step_s is not None}

    assert len(told) >= 10
    assert {"gradient_accumulation", "jittered"} <= told


@pytest.mark.parametrize("half", ["first", "second"])
@every_case
def test_half_of_the_steady_samples_give_the_same_verdict(name: str, half: str) -> None:
    whole = kept(name)
    start, end = whole.diagnosis.steady.start_ns, whole.diagnosis.steady.end_ns
    middle = middle_of(whole.seen.pm if whole.diagnosis.tier == "pm" else whole.seen.gpm, start, end)
    part = between(whole.seen, *((start, middle) if half == "first" else (middle, end)))
    if whole.rule in FROM_GPM and not len(part.gpm):
        pytest.skip("GPM has no row in this half")
    if whole.diagnosis.tier == "pm" and float(np.sum(part.pm.duration_s)) < 1.2 * SHORTEST_LOOK.value:
        pytest.skip("half of the samples are too few to judge")
    judged = judge(part)

    assert judged.verdict is not None, judged.no_verdict
    vaguer = VAGUER[whole.rule] if whole.rule in SEEN_TWICE else set()
    assert judged.verdict.rule in {whole.rule} | vaguer


def middle_of(samples: Samples, start_ns: int, end_ns: int) -> int:
    """The time at which half of the samples between two times have begun."""
    return int(np.median(samples.between(start_ns, end_ns).start_ns))


def between(seen: Observation, start_ns: int, end_ns: int) -> Observation:
    """What was seen in [start_ns, end_ns), with the windows that have samples there cut to it."""
    tables = {n: getattr(seen, n).between(start_ns, end_ns) for n in ("pm", "zoom", "gpm", "board", "host")}
    windows = tuple(
        replace(w, start_ns=max(w.start_ns, start_ns), end_ns=min(w.end_ns, end_ns))
        for w in seen.windows
        if w.start_ns < end_ns and w.end_ns > start_ns
    )
    return replace(seen, **tables, windows=windows, start_ns=start_ns, end_ns=end_ns)


# --- the same programs, seen wrongly ---------------------------------------------------------


def zeroed(samples: Samples, *names: str) -> Samples:
    """*samples* with zeros in the columns *names*, where it has them; in all without a name."""
    columns = names or tuple(samples.columns)
    return samples.with_columns({n: np.zeros(len(samples)) for n in columns if n in samples.columns})


def told_nothing_but_why(diagnosis: Diagnosis) -> str:
    """The reason why there is no verdict; fails where anything is concluded all the same."""
    findings: tuple[Finding, ...] = diagnosis.findings
    assert (diagnosis.verdict, findings, dict(diagnosis.shares)) == (None, (), {})
    assert diagnosis.no_verdict is not None
    assert all(step.answer == "unknown" for step in diagnosis.steps)
    return diagnosis.no_verdict


@pytest.mark.parametrize("name", BUSY)
def test_an_activity_counter_that_died_gives_no_verdict(name: str) -> None:
    seen = kept(name).seen
    streams = {n: zeroed(getattr(seen, n), "gr_active") for n in ("pm", "zoom", "gpm")}

    assert told_nothing_but_why(judge(replace(seen, **streams)))


@pytest.mark.parametrize("name", BUSY)
def test_counters_that_all_died_are_called_dead(name: str) -> None:
    """After some Xid errors everything reads zero; GPM, another part of the chip, goes on here."""
    seen = kept(name).seen
    reason = told_nothing_but_why(judge(replace(seen, pm=zeroed(seen.pm), zoom=zeroed(seen.zoom))))

    assert "dead" in reason
    assert "Xid" in reason


@pytest.mark.parametrize("name", BUSY)
def test_activity_beyond_what_is_possible_gives_no_verdict(name: str) -> None:
    seen = kept(name).seen
    doubled = seen.pm.with_columns({"gr_active": seen.pm.column("gr_active") * 2 + 0.2})

    assert "impossible" in told_nothing_but_why(judge(replace(seen, pm=doubled)))


@every_case
def test_a_recording_in_which_nothing_ran_gives_no_verdict(name: str) -> None:
    """Zeros everywhere, nvidia-smi's figure too: a finished program, not a starved one."""
    seen = kept(name).seen
    streams = {n: zeroed(getattr(seen, n)) for n in ("pm", "zoom", "gpm", "board")}

    assert "no work" in told_nothing_but_why(judge(replace(seen, **streams)))
