"""Recordings that are kept, judged by the rules of today."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests" / "recordings"


@pytest.fixture
def birch(scorer, tmp_path: Path, made_up: Path):
    """A planted line as a case, its recording kept: sync_bound, in line 14."""
    folder = tmp_path / "zoo" / "x02"
    folder.mkdir()
    text = (made_up / "case.toml").read_text()
    text = text.replace("train.py", "birch.py").replace("time.sleep", "total += loss.item()")
    (folder / "case.toml").write_text(text)
    shutil.copy(ROOT / "benchmarks" / "planted" / "programs" / "birch.py", folder)
    found = scorer("case").read_case(folder)
    kept = scorer("kept")
    with kept.Kept(tmp_path / "kept").room_for(found, "base") as room:
        shutil.copytree(RECORDINGS / "_stacks" / "birch", room, dirs_exist_ok=True)
        kept.check_in(room, found, "base", whole=kept.Said(), trimmed=kept.Said(), problems=("trim: lost",))
    return found


def test_a_kept_recording_is_scored_by_the_rules_of_today(scorer, birch, tmp_path: Path, capsys) -> None:
    kept, pages, out = tmp_path / "kept", tmp_path / "docs", tmp_path / "out"
    pages.mkdir()
    folders = [
        "--kept",
        str(kept),
        "--zoo",
        str(birch.folder.parent),
        "--pages",
        str(pages),
        "--out",
        str(out),
    ]
    code = scorer("score").main([*folders, "--docs", "--jobs", "1"])
    [found] = json.loads((out / "zoo.json").read_text())["scores"]

    assert (found["named"], found["told"]) == (True, "birch.py:14")
    assert found["rank"] in (1, 2)
    assert found["promise"]["remedy"].startswith("Do not read")
    assert found["stable_s"] is not None
    assert "trim: lost" in found["misses"]
    assert code == 1
    assert "not measured: x01" in capsys.readouterr().out
    page = (pages / "zoo.md").read_text()
    assert "| `x02` |" in page
    assert "NVIDIA H200, driver 580.159.04, 16 CPU cores." in page
    assert (pages / "zoo_calibration.svg").is_file()
    assert '"x02"' in (kept / "verdicts.json").read_text()


def test_a_recording_of_another_program_is_not_scored(scorer, birch, tmp_path: Path) -> None:
    birch.path.write_text(birch.path.read_text() + "\n")
    assert scorer("score").scored(birch, kept=tmp_path / "kept", quick=True) is None


def test_a_folder_that_is_not_there_is_no_zoo_without_recordings(scorer, birch, tmp_path, capsys) -> None:
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "zoo.md").write_text("as it was")
    asked = ["--kept", str(tmp_path / "keptt"), "--zoo", str(birch.folder.parent), "--pages", str(pages)]

    assert scorer("score").main([*asked, "--docs", "--jobs", "1"]) == 2
    assert capsys.readouterr().err.startswith(f"There is no folder {tmp_path / 'keptt'}.")
    assert (pages / "zoo.md").read_text() == "as it was"


def test_what_is_damaged_is_said_in_a_sentence_and_nothing_written(scorer, birch, tmp_path, capsys) -> None:
    kept, out = tmp_path / "kept", tmp_path / "out"
    (kept / "x02" / "base" / "manifest.json").unlink()
    asked = ["--kept", str(kept), "--zoo", str(birch.folder.parent), "--out", str(out), "--jobs", "1"]
    code = scorer("score").main(asked)
    said = capsys.readouterr().err

    assert code == 2
    assert said.startswith("x02: what is kept of it cannot be read: ")
    assert "measure it again: benchmarks/zoo/run.py --only x02" in said
    assert not out.exists()


def test_a_verdict_is_stable_from_when_on_it_stays_the_same(scorer, monkeypatch) -> None:
    """By the whole recording, and with a judge that changes its mind 6 s after warm-up."""
    replayed = scorer("replayed")
    path = RECORDINGS / "fp32_gemm"
    assert replayed.stable_after_s(path) == 3.0

    judge = replayed.judge

    def hesitant(seen):
        found = judge(seen)
        if seen.end_ns - found.steady.start_ns < 6e9:
            return replace(found, verdict=replace(found.verdict, rule="memory_bound"))
        return found

    monkeypatch.setattr(replayed, "judge", hesitant)
    assert replayed.stable_after_s(path) == 8.0
    assert replayed.stable_after_s(path, cuts_s=(3.0, 5.0)) is None


def test_no_verdict_is_not_stable_nor_is_one_at_a_moment_that_was_not_recorded(scorer, monkeypatch) -> None:
    replayed = scorer("replayed")
    path = RECORDINGS / "fp32_gemm"
    judge = replayed.judge

    assert replayed.stable_after_s(path, cuts_s=(3.0, 500.0)) == 3.0
    assert replayed.stable_after_s(path, cuts_s=(500.0,)) is None
    for silent_before_s in (6.0, 500.0):

        def late(seen, silent_before_s=silent_before_s):
            found = judge(seen)
            silent = seen.end_ns - found.steady.start_ns < silent_before_s * 1e9
            return replace(found, verdict=None) if silent else found

        monkeypatch.setattr(replayed, "judge", late)
        assert replayed.stable_after_s(path, cuts_s=(3.0, 8.0)) == (8.0 if silent_before_s == 6.0 else None)


def test_a_recording_that_is_cut_holds_nothing_later(scorer) -> None:
    replayed = scorer("replayed")
    recording = replayed.open_recording(RECORDINGS / "_stacks" / "birch")
    seen = recording.observation(0)
    end_ns = seen.start_ns + 10_000_000_000  # in the midst of its window
    cut = replayed.until(seen, end_ns)

    assert 0 < len(cut.gpm) < len(seen.gpm)
    assert all(int(table.end_ns.max(initial=0)) <= end_ns for table in (cut.pm, cut.zoom, cut.gpm, cut.host))
    assert max([w.end_ns for w in cut.windows], default=0) <= end_ns
    assert cut.end_ns == end_ns
