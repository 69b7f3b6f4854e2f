"""Each program with a known trouble gets its verdict, and none that it does not have."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from perfzero.diagnose.judge import judge
from perfzero.diagnose.rules import RULES
from perfzero.sources.synthetic import SECOND_NS, START_NS, Phase
from perfzero.values import Gap, Samples, jsonable

EXPECTED = json.loads((Path(__file__).parents[1] / "recordings" / "expected.json").read_text())["cases"]


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("bf16_gemm_capped", "well_used"),
        ("fp32_gemm", "fp32_path"),
        ("tiny_kernels", "launch_bound"),
        ("tiny_kernels_graph", "small_grid"),
        ("input_starved_resnet50", "input_starved"),
        ("pageable_copies", "pageable_copies"),
        ("elementwise_chain", "memory_bound"),
        ("resnet50_nchw", "tensor_starved"),
        ("transformer_healthy", "well_used"),
        ("synchronising", "sync_bound"),
        ("sleeping", "host_starved"),
        ("pinned_copies", "transfer_bound"),
        ("collectives", "comm_exposed"),
        ("double_precision", "fp64_path"),
        ("stalling", "latency_bound"),
        ("layer_norm", "memory_bound"),
    ],
)
def test_a_program_of_known_trouble_gets_its_verdict(program, name, verdict):
    diagnosis = judge(program(name, noise=0.02))

    assert diagnosis.verdict is not None, diagnosis.no_verdict
    assert verdict == diagnosis.verdict.rule
    assert diagnosis.headline == diagnosis.verdict.title
    assert diagnosis.verdict.confidence >= 0.45
    assert diagnosis.no_verdict is None


def test_the_expected_verdicts_of_the_recordings_are_rules_that_exist():
    names = {rule.__name__ for rule in RULES}

    for case in EXPECTED.values():
        assert set(case["verdict"]) <= names
        assert set(case.get("findings", [])) <= names


@pytest.mark.parametrize("name", ["bf16_gemm_capped", "transformer_healthy"])
def test_a_healthy_program_gets_no_finding_that_asks_for_anything(program, name):
    diagnosis = judge(program(name, noise=0.02))

    assert ["info"] * len(diagnosis.findings) == [f.severity for f in diagnosis.findings]
    assert all(not f.remedies for f in diagnosis.findings if f.rule in {"well_used", "power_capped"})


def test_a_power_cap_is_told_beside_the_healthy_verdict(program):
    assert "power_capped" in {f.rule for f in judge(program("bf16_gemm_capped")).findings}


def test_gpm_alone_gives_the_same_verdict_with_less_confidence(program):
    close, far = judge(program("fp32_gemm")), judge(program("fp32_gemm", tier="gpm"))

    assert far.tier == "gpm"
    assert far.verdict is not None
    assert close.verdict is not None
    assert far.verdict.rule == "fp32_path"
    assert far.verdict.confidence <= 0.6 < close.verdict.confidence
    assert any("GPM" in doubt for doubt in far.doubts)


def test_plain_nvml_says_idle_or_not_and_no_more(program):
    idle = judge(program("fp32_gemm", tier="nvml", board={"smi_utilization": 0.4}))
    busy = judge(program("fp32_gemm", tier="nvml", board={"smi_utilization": 1.0}))

    assert idle.verdict is not None
    assert idle.verdict.rule == "host_starved"
    assert idle.verdict.confidence <= 0.3
    assert idle.shares == {}
    assert busy.verdict is None
    assert "without hardware counters" in (busy.no_verdict or "")


def test_a_lost_window_is_a_doubt_with_its_reason_and_no_change_of_verdict(program):
    reason = "another tool holds the performance counters (pid 4242)"
    gap = Gap(0, "pm", START_NS + 10 * SECOND_NS, START_NS + 22 * SECOND_NS, reason)

    diagnosis = judge(program("elementwise_chain", gaps=[gap]))

    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "memory_bound"
    assert [d for d in diagnosis.doubts if reason in d and "12 s" in d and "lost" in d]


def test_the_warm_up_is_dropped_before_judging(program):
    """Twelve idle seconds at the start would make this program look starved."""
    diagnosis = judge(program("fp32_gemm", warm_up=[Phase(1.0)], warm_up_s=12.0))

    assert pytest.approx(diagnosis.steady.dropped_s, abs=1.0) == 12.0
    assert diagnosis.shares["idle"] < 0.01


def test_shares_add_up_to_exactly_one(program):
    for name in ("input_starved_resnet50", "transformer_healthy", "pageable_copies", "tiny_kernels"):
        assert sum(judge(program(name, noise=0.05)).shares.values()) == 1.0


def test_known_shares_are_found(program):
    shares = judge(program("input_starved_resnet50")).shares

    assert pytest.approx(shares["idle"], abs=0.01) == 0.55
    assert pytest.approx(shares["copy"], abs=0.01) == 0.05
    assert pytest.approx(shares["memory"], abs=0.01) == 0.40


def test_shifting_time_changes_nothing_else(program):
    def shifted(table: Samples) -> Samples:
        return Samples(table.start_ns + shift, table.end_ns + shift, table.columns)

    shift = 86_400 * SECOND_NS
    first = program("input_starved_resnet50", noise=0.02)
    later = dataclasses.replace(
        first,
        **{name: shifted(getattr(first, name)) for name in ("pm", "zoom", "gpm", "board", "host")},
        windows=tuple(
            dataclasses.replace(w, start_ns=w.start_ns + shift, end_ns=w.end_ns + shift)
            for w in first.windows
        ),
        start_ns=first.start_ns + shift,
        end_ns=first.end_ns + shift,
    )

    a, b = judge(first), judge(later)

    assert a.verdict == b.verdict
    assert a.shares == pytest.approx(b.shares)


def test_a_recording_of_half_a_second_is_judged_with_that_doubt(program):
    diagnosis = judge(program("fp32_gemm", seconds=1.5))

    assert diagnosis.verdict is not None
    assert diagnosis.verdict.rule == "fp32_path"
    assert diagnosis.steady.how == "short"
    assert any("too short" in doubt for doubt in diagnosis.doubts)
    assert diagnosis.verdict.confidence < 0.7


def test_a_recording_cut_short_is_judged_and_says_so(program):
    diagnosis = judge(dataclasses.replace(program("fp32_gemm"), complete=False))

    assert diagnosis.verdict is not None
    assert any("cut short" in doubt for doubt in diagnosis.doubts)


def test_nothing_measured_gives_no_verdict_and_no_crash(program):
    nothing = Samples.empty()
    bare = dataclasses.replace(
        program("fp32_gemm"), pm=nothing, zoom=nothing, gpm=nothing, board=nothing, host=nothing, windows=()
    )

    diagnosis = judge(bare)

    assert diagnosis.verdict is None
    assert "Nothing was measured" in (diagnosis.no_verdict or "")
    assert len(diagnosis.steps) == 4
    assert all(step.status == "unknown" for step in diagnosis.steps)


def test_the_host_unseen_makes_a_launch_bound_verdict_less_sure(program):
    seen, unseen = (program("tiny_kernels") for _ in range(2))
    unseen = dataclasses.replace(unseen, host=Samples.empty())

    sure, unsure = judge(seen).verdict, judge(unseen).verdict

    assert sure is not None
    assert unsure is not None
    assert unsure.rule == "launch_bound"
    assert unsure.confidence < sure.confidence


def test_a_diagnosis_survives_strict_json(program):
    text = json.dumps(jsonable(dataclasses.asdict(judge(program("pageable_copies")))), allow_nan=False)

    assert "pageable_copies" in text


def test_every_finding_is_fit_to_print(program):
    for name in ("tiny_kernels", "pageable_copies", "transformer_healthy", "collectives", "stalling"):
        for finding in judge(program(name)).findings:
            said = " ".join((finding.title, *finding.because))
            assert finding.because
            assert "nan" not in said
            assert 0.0 <= finding.confidence <= 1.0
            assert 0.0 <= finding.share <= 1.0
            if finding.gain is not None:
                assert 1.0 <= finding.gain.low <= finding.gain.high
                assert math.isfinite(finding.gain.high)


def test_two_of_the_same_judge_the_same(program):
    first, second = (judge(program("transformer_healthy", noise=0.03)) for _ in range(2))

    assert first.verdict == second.verdict
    assert first.shares == second.shares
