"""Real recordings as a machine without PM sampling would have made them: less is said, nothing wrong is."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from perfzero.diagnose.judge import judge
from perfzero.diagnose.verdict import Diagnosis
from perfzero.store.reader import open_recording
from perfzero.text import LIKELY
from perfzero.values import Samples

RECORDINGS = Path(__file__).parents[1] / "recordings"
CASES = json.loads((RECORDINGS / "expected.json").read_text())["cases"]
KEPT = [name for name in CASES if (RECORDINGS / name / "manifest.json").is_file()]


@functools.cache
def seen_twice(name: str) -> tuple[Diagnosis, Diagnosis]:
    """The diagnosis from everything recorded, and from what GPM, NVML and the host alone saw."""
    recording = open_recording(RECORDINGS / name)
    seen = recording.observation(recording.gpus[0].index)
    nothing = Samples.empty()
    return judge(seen), judge(replace(seen, tier="gpm", pm=nothing, zoom=nothing, windows=()))


@pytest.mark.parametrize("name", KEPT)
def test_no_cause_is_likely_that_sampling_would_not_have_found(name: str) -> None:
    whole, less = seen_twice(name)
    found = {f.rule for f in whole.findings} | set(CASES[name]["verdict"])
    if found & {"launch_bound", "sync_bound", "periodic_stall"}:
        # The same with less detail: GPM counts no launches, sees no queue, and no steps between stalls.
        found.add("host_starved")

    assert {f.rule for f in less.findings if f.severity != "info" and f.confidence >= LIKELY} <= found


@pytest.mark.parametrize("name", KEPT)
def test_what_could_not_be_seen_is_doubted_once(name: str) -> None:
    _, less = seen_twice(name)

    assert len([d for d in less.doubts if "GPM" in d]) == 1


@pytest.mark.parametrize("name", KEPT)
def test_half_of_the_counters_never_make_a_program_healthier(name: str) -> None:
    whole, less = seen_twice(name)
    assert whole.verdict is not None

    # Averages do not show turns: a GPU that two programs share is well used, by both.
    if whole.verdict.severity != "info" and whole.verdict.rule != "gpu_shared":
        assert less.verdict is None or less.verdict.severity != "info"
