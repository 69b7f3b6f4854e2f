"""The whole way of a case, on a machine without a GPU: a recording stands in for one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "tests" / "recordings" / "gpm_only"
RUN = ROOT / "benchmarks" / "zoo" / "run.py"


def arguments(made_up: Path, tmp_path: Path, *more: str) -> list[str]:
    folders = ("--out", "out", "--kept", "kept", "--work", "work")
    return [
        *(str(tmp_path / word) if not word.startswith("-") else word for word in folders),
        "--zoo", str(made_up.parent), "--dry-run", str(RECORDING), "--dry-seconds", "0.2",
        "--turn", "0.7", "--rounds", "1", *more,
    ]  # fmt: skip


def test_a_case_is_measured_kept_and_scored_and_not_measured_again(
    scorer, made_up: Path, tmp_path: Path, capsys
) -> None:
    run, case = scorer("run"), scorer("case").read_case(made_up)
    code = run.main(arguments(made_up, tmp_path))
    kept = scorer("kept").Kept(tmp_path / "kept")
    [score] = json.loads((tmp_path / "out" / "zoo.json").read_text())["scores"]

    assert code == 0
    assert kept.gains(case).word == "step"
    assert 2 < score["gain"]["gain"] < 6
    assert (score["case"], score["verdict"], score["rank"]) == ("x01", "fp32_path", None)
    assert "sync_bound is not found" in (tmp_path / "out" / "zoo.txt").read_text()
    for version in ("base", "fixed"):
        assert (kept.recording(case, version) / "manifest.json").is_file()
        assert kept.checked(case, version).problems == ()
        assert kept.up_to_date(case, version)
    command = (kept.recording(case, "fixed") / "command.txt").read_text()
    assert command == "perfzero run -o x01 -- python zoo/x01/train.py --seconds 24 --fixed\n"
    with tarfile.open(tmp_path / "out" / "kept-1.tar") as file:
        names = set(file.getnames())
    assert {"x01/gains.json", "x01/base/manifest.json", "x01/fixed/kept.json"} <= names

    capsys.readouterr()
    begun = time.monotonic()
    assert run.main(arguments(made_up, tmp_path)) == 0
    assert time.monotonic() - begun < 1
    assert capsys.readouterr().out.count(" kept") == 3


def test_a_recording_by_another_recorder_is_made_anew_unless_it_is_said_to_do(
    scorer, made_up: Path, tmp_path: Path
) -> None:
    run, kept = scorer("run"), scorer("kept").Kept(tmp_path / "kept")
    case = scorer("case").read_case(made_up)
    with kept.room_for(case, "base") as room:
        scorer("kept").check_in(
            room, case, "base", whole=scorer("kept").Said(), trimmed=scorer("kept").Said()
        )
    noted = json.loads((kept.folder / "x01" / "base" / "kept.json").read_text())
    (kept.folder / "x01" / "base" / "kept.json").write_text(json.dumps({**noted, "recorder": "another"}))

    def is_kept(*more: str) -> bool:
        args = run.parser().parse_args(arguments(made_up, tmp_path, *more))
        args.out.mkdir(exist_ok=True)
        return run.Run(args, work=tmp_path, stop=None, beside=None)._is_kept(case, "base")

    assert kept.recording(case, "base") is not None
    assert not is_kept()
    assert is_kept("--any-recorder")
    made_up.joinpath("train.py").write_text("print()")
    assert not is_kept("--any-recorder")


def test_the_change_that_tempts_is_not_watched_for_a_healthy_case_has_no_next_limit(
    scorer, made_up: Path, tmp_path: Path
) -> None:
    case = scorer("case").read_case(made_up)
    healthy = replace(case, truth=replace(case.truth, healthy=True))
    stages_of = scorer("run").stages_of

    assert stages_of(healthy, ("base", "gain", "fixed")) == ["base", "gain"]
    assert stages_of(case, ("base", "fixed")) == ["base", "fixed"]


def test_what_does_not_fit_the_budget_is_not_begun_and_that_is_said(
    scorer, made_up: Path, tmp_path: Path
) -> None:
    assert scorer("run").main(arguments(made_up, tmp_path, "--budget", "1")) == 1
    failures = json.loads((tmp_path / "out" / "zoo.json").read_text())["failures"]

    assert failures == {"x01": [f"{stage}: not measured, out of time" for stage in ("base", "gain", "fixed")]}
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_program_that_fails_is_told_at_once_and_stops_nothing_else(
    scorer, made_up: Path, tmp_path: Path, capsys
) -> None:
    program = made_up / "train.py"
    program.write_text(program.read_text().replace("step, end", "assert not args.fixed, 'no fix'\nstep, end"))
    stages = "gain,fixed"
    assert scorer("run").main(arguments(made_up, tmp_path, "--stages", stages)) == 1
    gain, fixed = json.loads((tmp_path / "out" / "zoo.json").read_text())["failures"]["x01"]

    assert gain.startswith("gain: NoPace: the fixed program prints no progress")
    assert "no fix" in gain
    assert fixed.startswith("fixed: Failed: ended with 1")
    said = capsys.readouterr().out
    assert said.index(f"FAILED {gain}") < said.index("fixed  begins")
    with tarfile.open(tmp_path / "out" / "logs.tar.gz") as file:
        assert "x01/fixed.log" in file.getnames()


def test_of_a_case_that_cannot_be_watched_nothing_else_is_measured(
    scorer, made_up: Path, tmp_path: Path, capsys
) -> None:
    """It has to be repaired, and of another program what was measured does not count."""
    program = made_up / "train.py"
    program.write_text(program.read_text().replace("step, end", "assert args.fixed, 'too slow'\nstep, end"))
    assert scorer("run").main(arguments(made_up, tmp_path)) == 1
    [base] = json.loads((tmp_path / "out" / "zoo.json").read_text())["failures"]["x01"]

    assert base.startswith("base: Failed: ended with 1")
    assert "gain   begins" not in capsys.readouterr().out
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.timeout(300)
def test_a_benchmark_that_is_ended_leaves_no_program(made_up: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(RUN), *arguments(made_up, tmp_path, "--stages", "gain", "--turn", "10")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    me, deadline = psutil.Process(process.pid), time.monotonic() + 120
    try:
        while len(programs := running(me, made_up)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)

    assert code == 128 + signal.SIGTERM
    assert not [p for p in programs if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def running(process: psutil.Process, folder: Path) -> list[psutil.Process]:
    """Those of its programs that run; another child may end while it is asked for its words."""
    found = []
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is one, too
            if str(folder / "train.py") in child.cmdline():
                found.append(child)
    return found


def test_cases_run_at_once_one_on_each_gpu(scorer) -> None:
    lanes, stop = scorer("lanes"), scorer("programs").Stop()
    both = threading.Barrier(2, timeout=5)
    done: list[tuple[str, int]] = []

    def work(name: str, gpu: int) -> None:
        if name in "ab":
            both.wait()
        done.append((name, gpu))

    lanes.in_lanes("abcde", [0, 3], work, stop=stop)

    assert sorted(name for name, _ in done) == list("abcde")
    assert {gpu for _, gpu in done} == {0, 3}


def test_what_goes_wrong_in_one_lane_stops_the_others(scorer) -> None:
    lanes, stop = scorer("lanes"), scorer("programs").Stop()

    def work(name: str, gpu: int) -> None:
        if name == "b":
            raise ZeroDivisionError
        stop.rest(30)

    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        lanes.in_lanes("ab", [0, 1], work, stop=stop)
    assert time.monotonic() - begun < 5


def test_archives_are_whole_at_any_time_and_begun_anew_where_they_get_long(scorer, tmp_path: Path) -> None:
    root, out = tmp_path / "kept", tmp_path
    archive = scorer("archive").Archive(out, root=root, limit_bytes=100_000)
    for name, size in (("a", 10), ("b", 150_000), ("c", 10)):
        (root / name).mkdir(parents=True)
        (root / name / "data").write_bytes(b"x" * size)
        archive.add(root / name)

    def names(number: int) -> list[str]:
        with tarfile.open(out / f"kept-{number}.tar") as file:
            return [member.name for member in file if member.isfile()]

    assert (names(1), names(2)) == (["a/data", "b/data"], ["c/data"])
