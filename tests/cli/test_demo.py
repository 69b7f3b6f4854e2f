"""`perfzero demo`: a recording of a real GPU through the whole pipeline, on any machine."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perfzero.cli import demo as command
from perfzero.cli import main as main_module
from perfzero.errors import UsageError
from perfzero.store.reader import open_recording
from perfzero.store.writer import RecordingWriter
from perfzero.values import Gap, Gpu, Note, Process, Samples, Window

Run = Callable[..., int]

START = 1_796_000_000_000_000_000


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs `perfzero demo ARGS` to its exit code, without loading other commands."""
    monkeypatch.setattr(main_module, "COMMANDS", ("demo",))
    return lambda *arguments: main_module.main(["demo", *map(str, arguments)])


def test_the_package_ships_the_recording_that_the_demo_replays_by_default() -> None:
    assert command.DEFAULT in command.shipped_recordings(), (
        f"src/perfzero/data/demo/{command.DEFAULT}/ is missing: a recording from a real GPU belongs there"
    )


def test_the_demo_ends_in_the_verdict_of_its_recording(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.DEFAULT in command.shipped_recordings(), "no recording is shipped yet"
    out = tmp_path / "out"
    assert run("--speed", "inf", "-o", out) == 0
    report = json.loads((out / "report.json").read_bytes())
    assert report["gpus"][0]["verdict"]["rule"] == "input_starved"
    told = capsys.readouterr()
    assert report["headline"] in " ".join(told.out.split())
    assert "on a real NVIDIA" in told.err


def test_a_recording_that_is_not_shipped_is_refused_by_name(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--name", "nothing") == 2
    assert "no shipped recording 'nothing'" in capsys.readouterr().err


def test_a_speed_that_stands_still_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--speed", "0") == 2
    assert "above 0" in capsys.readouterr().err


def test_the_list_names_every_shipped_recording(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list") == 0
    assert capsys.readouterr().out.split() == list(command.shipped_recordings())


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """A recording with samples of three streams and every kind of event."""
    edges = START + np.arange(101, dtype=np.int64) * 10_000_000
    folder = tmp_path / "original"
    with RecordingWriter(
        folder,
        gpus=[Gpu(1, "GPU-1", "NVIDIA H200")],
        process=Process(7, ("python", "train.py"), 0),
        settings={"duration_s": 1.0},
        tiers={1: "pm"},
        tier_reasons={1: ""},
    ) as writer:
        writer.append("pm", 1, Samples(edges[:-1], edges[1:], {"sm_active": np.linspace(0, 1, 100)}))
        writer.append("board", 1, Samples(edges[:-1:50], edges[50::50], {"power": np.array([300.0, np.nan])}))
        writer.append("host", None, Samples(edges[:1], edges[-1:], {"host_cpu_busy": np.array([0.1])}))
        writer.window(Window(1, "dense", START, START + 10**9, 10_000_000, 100, 0))
        writer.gap(Gap(1, "pm", START, START + 5, "a reason"))
        writer.note(Note(START, "tier", "pm works", 1))
    return folder


def test_recording_a_replay_loses_and_invents_nothing(tmp_path: Path, original: Path) -> None:
    before = open_recording(original)
    told: list[float] = []
    command.rerecord(before, tmp_path / "copy", speed=math.inf, progress=told.append)
    after = open_recording(tmp_path / "copy")
    assert after.streams == before.streams
    for key in before.streams:
        a, b = before.samples(*key), after.samples(*key)
        assert a.start_ns.tolist() == b.start_ns.tolist()
        assert a.end_ns.tolist() == b.end_ns.tolist()
        for name in a.columns:
            np.testing.assert_array_equal(a.column(name), b.column(name))
    assert after.windows() == before.windows()
    assert after.gaps() == before.gaps()
    assert after.notes() == before.notes()
    assert after.manifest.created_ns == before.manifest.created_ns
    assert after.manifest.process == before.manifest.process
    assert after.complete
    assert told[-1] == 1.0


def test_a_replay_takes_the_time_that_its_speed_says(tmp_path: Path, original: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    recording = open_recording(original)
    command.rerecord(recording, tmp_path / "copy", speed=2.0, clock=lambda: now[0], sleep=sleep)
    assert now[0] == pytest.approx(0.5, abs=0.03)


def test_a_folder_in_use_is_not_written_to(tmp_path: Path, original: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        command.rerecord(open_recording(original), tmp_path / "copy")
    assert (tmp_path / "copy" / "thesis.txt").read_text() == "mine"


def test_the_demo_speaks_chinese_as_the_chinese_readme_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = "tmp-perfzero-demo-0123"  # as long as the one that is shown
    shown = (Path(__file__).parents[2] / "README.zh-CN.md").read_text()
    screen = shown.partition("<!-- demo: begin -->\n```\n")[2].partition("\n```\n<!-- demo: end -->")[0]
    assert main_module.main(["demo", "--speed", "inf", "-o", folder, "--lang", "zh"]) == 0
    said = capsys.readouterr()

    *told, _ = screen.replace("/tmp/perfzero-demo-...", folder).splitlines()  # the last line is the folder
    assert told == said.out.strip("\n").splitlines()[: len(told)]
    assert "一次性重放" in said.err
