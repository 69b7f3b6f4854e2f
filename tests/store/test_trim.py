"""A trimmed recording is small, valid, and says what was taken away."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from perfzero.cli.trim import parse_size, register
from perfzero.counters import BOARD_COUNTERS, pm_counters
from perfzero.errors import NoRecording, UsageError
from perfzero.store import Recording, RecordingWriter, open_recording
from perfzero.store.trim import RELATIVE_ERROR, round_mantissa, trim
from perfzero.values import Gap, Gpu, Note, Process, Samples, Window

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
PM = [c.name for c in pm_counters()]


def noisy(rows: int, *, start_ns: int, period_ns: int, names: list[str], seed: int) -> Samples:
    """Values that no compressor makes small."""
    rng = np.random.default_rng(seed)
    start = start_ns + np.arange(rows, dtype=np.int64) * period_ns
    return Samples(start, start + period_ns, {name: rng.random(rows) for name in names})


@pytest.fixture(scope="module")
def long_one(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """60 s: a dense window at the start, a regular one of 0.5 s every 5 s, a zoom burst, and the board."""
    path = tmp_path_factory.mktemp("long") / "r"
    gpu = Gpu(0, "GPU-3f2a51c0-1111-2222-3333-444455556666", "NVIDIA H200")
    process = Process(7, ("python", "/home/ada/src/train.py"), threads_env={"CUDA_PATH": "/home/ada/lib"})
    with RecordingWriter(
        path, gpus=[gpu], process=process, settings={"gpu": gpu.uuid}, tiers={0: "pm"}, tier_reasons={}
    ) as writer:
        for i in range(12):
            at = START + 5 * i * SECOND
            writer.append("pm", 0, noisy(500, start_ns=at, period_ns=10**6, names=PM, seed=i))
            writer.window(Window(0, "regular" if i else "dense", at, at + SECOND // 2, 10**6, 500, 0))
        at = START + 32 * SECOND
        writer.append("zoom", 0, noisy(5_000, start_ns=at, period_ns=10**4, names=PM, seed=99))
        writer.window(Window(0, "zoom", at, at + 5 * 10**7, 10**4, 5_000, 10))
        board = [c.name for c in BOARD_COUNTERS]
        writer.append("board", 0, noisy(60, start_ns=START, period_ns=SECOND, names=board, seed=5))
        writer.gap(
            Gap(0, "pm", START + 20 * SECOND, START + 40 * SECOND, "another tool, /opt/dcgm, was busy")
        )
        writer.note(Note(START + 50 * SECOND, "tier", "late"))
    return open_recording(path)


def size_of(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.iterdir())


@pytest.mark.parametrize("limit", [60_000, 150_000, 400_000])
def test_the_size_is_kept_and_used(long_one: Recording, tmp_path: Path, limit: int) -> None:
    done = trim(long_one, to=tmp_path / "small", max_bytes=limit)
    small = open_recording(tmp_path / "small")

    assert size_of(tmp_path / "small") == done.size
    assert 0.6 * limit < done.size <= limit
    assert small.doubts == ()
    assert small.complete
    assert done.size_before == size_of(long_one.path)


def test_what_fits_is_kept_whole_and_close_to_what_was_measured(long_one: Recording, tmp_path: Path) -> None:
    trim(long_one, to=tmp_path / "small", max_bytes=10_000_000)
    before, after = long_one.observation(0), open_recording(tmp_path / "small").observation(0)

    assert before.windows == after.windows
    assert before.gaps == after.gaps
    assert before.notes == after.notes
    assert (before.start_ns, before.end_ns) == (after.start_ns, after.end_ns)
    for a, b in ((before.pm, after.pm), (before.zoom, after.zoom), (before.board, after.board)):
        assert_array_equal(a.start_ns, b.start_ns)
        for name in a.columns:
            assert_allclose(b.column(name), a.column(name), rtol=RELATIVE_ERROR * 1.001)


def test_whole_windows_survive_of_each_kind_and_hold_their_own_samples(
    long_one: Recording, tmp_path: Path
) -> None:
    trim(long_one, to=tmp_path / "small", max_bytes=150_000)
    small = open_recording(tmp_path / "small").observation(0)

    assert {"dense", "regular", "zoom"} == {w.kind for w in small.windows}
    assert 2 < len(small.windows) < 13
    for window in small.windows:
        table = small.zoom if window.kind == "zoom" else small.pm
        rows = table.between(window.start_ns, window.end_ns)
        assert window.samples == len(rows)
        if window.kind == "regular":  # the only one of a kind may be shortened
            assert window in long_one.windows()
    assert len(small.pm) == sum(w.samples for w in small.windows if w.kind != "zoom")
    assert len(small.zoom) == sum(w.samples for w in small.windows if w.kind == "zoom")
    assert len(small.board) == 60


def test_the_manifest_says_what_was_taken_away(long_one: Recording, tmp_path: Path) -> None:
    done = trim(long_one, to=tmp_path / "small", max_bytes=150_000)
    small = open_recording(tmp_path / "small")
    trimmed = small.manifest.trimmed

    assert trimmed is not None
    assert trimmed["rows_before"] == 11_060
    assert sum(len(small.samples(*s)) for s in small.streams) == trimmed["rows_after"]
    assert (13, len(small.windows())) == (trimmed["windows_before"], trimmed["windows_after"])
    assert trimmed["relative_error"] == RELATIVE_ERROR
    assert not trimmed["redacted"]
    assert any("rounded values to a relative error of 1.2e-04" in sentence for sentence in done.done)


def test_what_cannot_be_made_small_enough_is_refused_and_nothing_is_written(
    long_one: Recording, tmp_path: Path
) -> None:
    with pytest.raises(
        UsageError, match=r"(?s)cannot be made smaller than \d+ KB, and 3 KB.*--from and --to"
    ):
        trim(long_one, to=tmp_path / "small", max_bytes=3_000)
    assert not (tmp_path / "small").exists()


def test_a_cut_by_time_keeps_what_lies_inside(long_one: Recording, tmp_path: Path) -> None:
    """From 25.25 s, in the middle of a window of 500 samples, to 45 s."""
    trim(long_one, to=tmp_path / "small", from_s=25.25, until_s=45.0, max_bytes=10_000_000)
    small = open_recording(tmp_path / "small").observation(0)

    assert [(w.start_ns - START) / SECOND for w in small.windows] == [25.25, 30.0, 32.0, 35.0, 40.0]
    assert [w.samples for w in small.windows] == [250, 500, 5_000, 500, 500]
    assert len(small.pm) == 1_750
    assert len(small.board) == 19
    assert [(g.start_ns, g.end_ns) for g in small.gaps] == [(START + 101 * SECOND // 4, START + 40 * SECOND)]
    assert small.notes == ()


def test_a_cut_that_leaves_nothing_is_refused(long_one: Recording, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the recording lasts 60\.0 s"):
        trim(long_one, to=tmp_path / "small", from_s=100.0)
    with pytest.raises(UsageError, match=r"Nothing lies between 5 s and 5 s"):
        trim(long_one, to=tmp_path / "small", from_s=5.0, until_s=5.0)


def test_one_window_that_lasts_for_ever_is_thinned_in_pieces(tmp_path: Path) -> None:
    with RecordingWriter(
        tmp_path / "r", gpus=[Gpu(0, "u", "g")], process=Process(), settings={}, tiers={}, tier_reasons={}
    ) as writer:
        writer.append("pm", 0, noisy(20_000, start_ns=START, period_ns=10**6, names=PM[:4], seed=1))
        writer.window(Window(0, "continuous", START, START + 20 * SECOND, 10**6, 20_000, 40))
    trim(open_recording(tmp_path / "r"), to=tmp_path / "small", max_bytes=60_000)
    small = open_recording(tmp_path / "small").observation(0)

    assert 2 <= len(small.windows) < 20
    assert {(1_000, 2)} == {(w.samples, w.lost) for w in small.windows}
    assert 1_000 * len(small.windows) == len(small.pm)
    spread = small.windows[-1].start_ns - small.windows[0].start_ns
    assert spread > 10 * SECOND


def test_samples_outside_any_window_are_thinned_too(tmp_path: Path) -> None:
    with RecordingWriter(
        tmp_path / "r", gpus=[Gpu(0, "u", "g")], process=Process(), settings={}, tiers={}, tier_reasons={}
    ) as writer:
        writer.append("pm", 0, noisy(20_000, start_ns=START, period_ns=10**6, names=PM[:4], seed=1))
    trim(open_recording(tmp_path / "r"), to=tmp_path / "small", max_bytes=60_000)

    assert 1_000 < len(open_recording(tmp_path / "small").samples("pm", 0)) < 20_000


def test_a_redacted_recording_does_not_tell_whose_it_is(long_one: Recording, tmp_path: Path) -> None:
    trim(long_one, to=tmp_path / "small", max_bytes=400_000, redact=True)
    small = open_recording(tmp_path / "small")
    texts = (tmp_path / "small" / "manifest.json").read_text() + (
        tmp_path / "small" / "events.jsonl"
    ).read_text()

    assert small.manifest.process.command == ("python", "train.py")
    assert small.manifest.process.threads_env == {"CUDA_PATH": "lib"}
    assert "hostname" not in small.manifest.host
    assert re.fullmatch(r"\d+\.\d+", small.manifest.host["kernel"])
    assert small.gpus[0].uuid == small.manifest.settings["gpu"]
    assert small.gaps()[0].reason == "another tool, dcgm, was busy"
    for private in ("/home", "ada", "3f2a51c0", "/opt"):
        assert private not in texts


def test_a_recording_is_not_trimmed_onto_itself(long_one: Recording) -> None:
    with pytest.raises(UsageError, match="onto itself"):
        trim(long_one, to=long_one.path, force=True)
    assert len(open_recording(long_one.path).samples("pm", 0)) == 6_000


def test_a_recording_without_samples_cannot_be_trimmed(tmp_path: Path) -> None:
    RecordingWriter(
        tmp_path / "r", gpus=[], process=Process(), settings={}, tiers={}, tier_reasons={}
    ).close()
    with pytest.raises(UsageError, match="holds no samples"):
        trim(open_recording(tmp_path / "r"), to=tmp_path / "small")


def test_an_unfinished_recording_stays_unfinished_when_trimmed(long_one: Recording, tmp_path: Path) -> None:
    unfinished = Recording(
        long_one.path, manifest=replace(long_one.manifest, state="recording", ended_ns=None)
    )
    trim(unfinished, to=tmp_path / "small")
    assert not open_recording(tmp_path / "small").complete


@given(st.lists(st.floats(width=32, allow_subnormal=False), min_size=1, max_size=30))
def test_rounding_stays_within_its_error_and_is_done_once(values: list[float]) -> None:
    before = np.array(values)
    after = round_mantissa(before)

    representable = np.abs(before) < 3.4e38  # above, rounding up leaves float32
    assert_allclose(after[representable], before[representable], rtol=RELATIVE_ERROR, atol=0)
    assert_array_equal(np.isnan(before), np.isnan(after))
    assert_array_equal(after, round_mantissa(after))


@given(st.integers(-8192, 8192))
def test_small_counts_are_not_rounded(count: int) -> None:
    assert count == round_mantissa(np.array([float(count)]))[0]


# --- the command


@pytest.fixture
def app() -> typer.Typer:
    program = typer.Typer(pretty_exceptions_enable=False)
    program.callback()(lambda: None)
    register(program)
    return program


def test_the_command_says_what_it_did(
    app: typer.Typer, long_one: Recording, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "trim",
        str(long_one.path),
        "-o",
        str(tmp_path / "small"),
        "--max-size",
        "150KB",
        "--from",
        "10",
    ]
    assert app(arguments, standalone_mode=False) in (None, 0)
    out, err = capfd.readouterr()

    assert out == ""
    assert "Trimmed: kept 10 s to 60 s of 60.0 s.\n" in err
    assert "windows where there were 13.\n" in err
    assert open_recording(tmp_path / "small").complete


def test_the_command_leaves_errors_to_the_program(app: typer.Typer, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["trim", str(tmp_path / "nothing"), "-o", str(tmp_path / "small")])
    assert isinstance(done.exception, NoRecording)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("400KB", 400_000),
        ("2MB", 2_000_000),
        ("1.5 MiB", 1_572_864),
        ("300000", 300_000),
        ("64k", 64_000),
        ("7 b", 7),
    ],
)
def test_a_size_is_read_with_its_unit(text: str, size: int) -> None:
    assert size == parse_size(text)


@pytest.mark.parametrize("text", ["", "small", "-4KB", "0", "4TB", "4 K B", "1e6", "٤KB٤"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        parse_size(text)
