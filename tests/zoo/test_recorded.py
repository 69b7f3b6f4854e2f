"""What becomes of a whole recording: small, and as good as whole for whatever is scored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

RECORDINGS = Path(__file__).parents[1] / "recordings"


def test_where_the_smaller_recording_loses_what_is_scored_the_larger_is_kept(
    scorer, made_up: Path, tmp_path: Path, monkeypatch
) -> None:
    """The look of this one does not fit into 100 KB, with the samples beside it; it names a kernel."""
    recorded, kept = scorer("recorded"), scorer("kept").Kept(tmp_path / "kept")
    case = scorer("case").read_case(made_up)
    raw = RECORDINGS / "_looks" / "cupy"
    found = {}
    for kernel in ("sgemm|gemm|cutlass|sm90", "none of them"):
        named = replace(case, named=scorer("case").Named("operator", kernel))
        monkeypatch.setitem(recorded.SIZES, "base", (100_000, 300_000))
        checked = recorded.pack(named, "base", raw, kept=kept, reports=tmp_path / "reports")
        look = bool(list(kept.recording(case, "base").glob("look-*")))
        found[kernel] = (checked.size > 100_000, look, checked.problems)

    assert list(found.values()) == [(True, True, ()), (False, False, ())]


def test_what_even_the_larger_one_loses_is_a_problem_of_the_case(
    scorer, made_up: Path, tmp_path: Path, monkeypatch
) -> None:
    recorded, trimming = scorer("recorded"), scorer("trimming")
    kept, case = scorer("kept").Kept(tmp_path / "kept"), scorer("case").read_case(made_up)
    monkeypatch.setattr(trimming, "_of_fixed", lambda _whole, _trimmed: iter(["verdict: a to b"]))
    checked = recorded.pack(case, "fixed", RECORDINGS / "gpm_only", kept=kept, reports=tmp_path / "reports")

    assert checked.problems == ("trimming has changed verdict: a to b",)
    assert kept.checked(case, "fixed").problems == checked.problems


def test_what_is_said_of_a_recording_at_first_is_kept_and_no_later_one_replaces_it(
    scorer, made_up: Path, tmp_path: Path
) -> None:
    recorded, kept = scorer("recorded"), scorer("kept").Kept(tmp_path / "kept")
    case = scorer("case").read_case(made_up)

    def packed(version: str, raw: str):
        recorded.pack(case, version, RECORDINGS / raw, kept=kept, reports=tmp_path / "reports")
        return kept.checked(case, version).at_first

    first = packed("base", "gpm_only")
    assert (first.verdict, first.rank, first.acting[0]) == ("fp32_path", None, "fp32_path")
    assert packed("base", "write_heavy") == first
    assert packed("fixed", "gpm_only") is None
