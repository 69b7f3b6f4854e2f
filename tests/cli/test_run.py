"""`perfzero run` from the command line: whose output goes where, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
FILES = {"report.json", "summary.csv", "report.html", "timeline.csv", "timeline.png"}

# GPM alone: no sampler process has to start, and its simulated figures are those of a real program.
GPM = ("--source", "gpm")

Perfzero = Callable[..., int]
Python = Callable[[str], tuple[str, str, str]]


@pytest.fixture
def run(perfzero: Perfzero, library: Any) -> Perfzero:
    """`perfzero run ARGS` beside a GPU whose tensor cores work 80 % of the time."""
    library.gpm_values = {1: 99.0, 2: 97.0, 5: 80.0, 10: 10.0, 12: 3.0}
    return lambda *arguments: perfzero("run", *arguments)


def folder(parent: Path) -> Path:
    """The only recording made below *parent*."""
    [found] = (parent / "perfzero-runs").iterdir()
    return found


def headline(recording: Path) -> str:
    """How the verdict on *recording* begins, short enough to stand in one line of the screen."""
    said = json.loads((recording / "report.json").read_text())["headline"]
    assert isinstance(said, str)
    return said[:30]


# --- whose output goes where -----------------------------------------------------------------


def test_the_program_keeps_its_output_and_its_exit_code_and_the_verdict_comes_on_stderr(
    run: Perfzero, python: Python, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    theirs = "import sys, time; print('out'); print('err', file=sys.stderr); time.sleep(0.9); sys.exit(5)"

    assert run(*GPM, "--", *python(theirs)) == 5

    told = capfd.readouterr()
    assert told.out == "out\n"
    assert told.err.startswith("err\n")
    assert headline(folder(tmp_path)) in told.err
    assert str(folder(tmp_path).relative_to(tmp_path)) in told.err
    assert {path.name for path in folder(tmp_path).iterdir()} >= FILES


def test_a_gpu_is_watched_for_as_long_as_asked_and_the_verdict_comes_on_stdout(
    sampler: Any, run: Perfzero, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("--gpu", "0", "--profiling-duration", "2") == 0

    told = capfd.readouterr()
    said = headline(folder(tmp_path))
    assert said in told.out
    assert said not in told.err
    assert "hardware counters sampled in one pass" in told.err
    assert json.loads((folder(tmp_path) / "manifest.json").read_text())["tiers"] == {"0": "pm"}


def test_json_is_all_there_is_on_stdout_when_a_gpu_is_watched(
    run: Perfzero, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(*GPM, "--gpu", "0", "--profiling-duration", "900ms", "--format", "json") == 0

    report = json.loads(capfd.readouterr().out)
    assert report == json.loads((folder(tmp_path) / "report.json").read_text())
    assert [seen["gpu"]["uuid"] for seen in report["gpus"]] == ["GPU-aaaa"]


def test_json_about_a_program_comes_on_stderr_and_quiet_leaves_nothing_beside_it(
    run: Perfzero, python: Python, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(*GPM, "--quiet", "--format", "json", "--", *python("print('out')")) == 0

    told = capfd.readouterr()
    assert told.out == "out\n"
    assert json.loads(told.err)["process"]["exit_code"] == 0


def test_quiet_writes_the_files_and_says_nothing(
    run: Perfzero, python: Python, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(*GPM, "--quiet", "--", *python("print('out')")) == 0

    assert capfd.readouterr() == ("out\n", "")
    assert {path.name for path in folder(tmp_path).iterdir()} >= FILES


def test_a_verdict_that_cannot_be_written_changes_nothing_for_the_program(
    run: Perfzero, python: Python, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("perfzero.report.analysis.write_whole", full)

    assert run(*GPM, "--", *python("import sys; print('out'); sys.exit(4)")) == 4
    told = capfd.readouterr()
    assert told.out == "out\n"
    assert "could not be written (No space left on device)" in told.err


def test_a_mistake_of_ours_in_the_analysis_changes_nothing_for_the_program(
    run: Perfzero, python: Python, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by naught")

    monkeypatch.setattr("perfzero.report.analysis.judge", broken)

    assert run(*GPM, "--", *python("import sys; print('out'); sys.exit(4)")) == 4
    told = capfd.readouterr()
    assert told.out == "out\n"
    assert "ZeroDivisionError: by naught" in told.err


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("by naught")


@pytest.mark.parametrize(
    "where",
    [
        "record.session.Recorder._open",
        "record.session.Recorder.watch",
        "record.session.Recorder._read_host",
        "record.session.Recorder._cost",
        "record.watch.GpuWatch.tick",
        "sources.host.Host.close",
        "report.terminal.show",
    ],
)
def test_a_mistake_of_ours_anywhere_leaves_the_program_its_time_and_its_exit_code(
    where: str,
    run: Perfzero,
    python: Python,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(f"perfzero.{where}", broken)

    assert run(*GPM, "--", *python("import time; time.sleep(0.5); print('out'); raise SystemExit(4)")) == 4
    told = capfd.readouterr()
    assert told.out == "out\n"
    assert "ZeroDivisionError: by naught" in told.err
    assert (folder(tmp_path) / "report.json").exists()
    assert json.loads((folder(tmp_path) / "manifest.json").read_text())["state"] == "complete"


def test_the_same_mistake_without_a_program_of_ours_is_a_failure(
    run: Perfzero, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfzero.record.session.Recorder.watch", broken)

    assert run(*GPM, "--gpu", "0") == 1
    assert "ZeroDivisionError: by naught" in capfd.readouterr().err


def test_json_about_a_program_has_standard_error_to_itself_unless_something_fails(
    run: Perfzero, python: Python, capfd: pytest.CaptureFixture[str]
) -> None:
    theirs = "import time; time.sleep(0.9); print('out')"
    assert run(*GPM, "--profiling-duration", "0.5", "--format", "json", "--", *python(theirs)) == 0
    assert json.loads(capfd.readouterr().err)["process"]["pid"]

    assert run(*GPM, "--format", "json", "--", "no-such-program") == 127
    assert capfd.readouterr().err == "perfzero: no-such-program: command not found\n"


def test_a_run_too_short_for_a_verdict_says_so_and_is_no_failure(
    run: Perfzero, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("--", "true") == 0
    assert headline(folder(tmp_path)).startswith("No verdict")
    assert headline(folder(tmp_path)) in capfd.readouterr().err


def test_numpy_is_not_loaded_before_its_threads_can_be_refused() -> None:
    """Its BLAS starts a thread per core when it is imported; they cost CPU and take up our signals."""
    code = (
        "import sys; from perfzero.cli import main; main.build_app(main.COMMANDS); "
        "print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


# --- how it ends, in a process of its own ----------------------------------------------------

DRIVER = f"""
import fcntl, sys, termios
sys.path.insert(0, {str(TESTS)!r})
import pynvml, simulated_nvml
if sys.stdin.isatty():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # take the terminal, as a shell's foreground job has it
pynvml.nvmlLib = simulated_nvml.Library(gpm_values={{1: 99.0, 2: 97.0, 5: 80.0, 10: 10.0, 12: 3.0}})
from perfzero.cli.main import script
"""

CLOSED = """
import os, sys
try:
    os.write(2, b"x")
except OSError:
    print("closed", flush=True)
sys.exit(7)
"""

SLOW_REPORT = """
import time
from perfzero.report import analysis
def slow(*_, **__):
    print("reporting", flush=True)
    time.sleep(30)
analysis.analyze = slow
"""

SLOW_END = """
import threading, time
from perfzero.record.session import Recorder
end = Recorder.end
def slow_end(self):
    print("ending", flush=True)
    time.sleep(0.4)
    return end(self)
Recorder.end = slow_end
"""

A_THREAD_OF_SOME_LIBRARY = """
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""

READY = "import signal, sys, time; print('ready', flush=True); "


@contextmanager
def at_a_terminal(
    *arguments: str, cwd: Path, setup: str = ""
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], None]]]:
    """`perfzero run ARGS` with its program at a terminal of their own; yields it and what presses Ctrl-C."""
    keyboard, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", f"{DRIVER}{setup}\nscript()", "run", *GPM, *arguments],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        start_new_session=True,
        # NumPy's threads would take up signals that are meant for the main thread.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    os.close(terminal)
    try:
        yield process, lambda: os.write(keyboard, b"\x03") and None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        os.close(keyboard)


def first_line(process: subprocess.Popen[str]) -> str:
    """What the program prints first."""
    assert process.stdout is not None
    return process.stdout.readline()


def test_ctrl_c_ends_the_program_as_it_would_without_us_and_the_report_follows(tmp_path: Path) -> None:
    program = (sys.executable, "-c", READY + "time.sleep(60)")
    with at_a_terminal("--", *program, cwd=tmp_path) as (process, press_ctrl_c):
        assert first_line(process) == "ready\n"
        press_ctrl_c()
        out, err = process.communicate(timeout=30)

    assert process.returncode == -signal.SIGINT
    assert out == ""
    assert "KeyboardInterrupt" in err  # the program's own last words
    assert "perfzero-runs/" in err
    assert {path.name for path in folder(tmp_path).iterdir()} >= FILES
    manifest = json.loads((folder(tmp_path) / "manifest.json").read_text())
    assert (manifest["state"], manifest["process"]["exit_code"]) == ("complete", -signal.SIGINT)


def test_a_program_that_handles_ctrl_c_gets_it_once_and_is_waited_for(tmp_path: Path) -> None:
    """A checkpoint is written on the first Ctrl-C; a second one would abandon it."""
    handles = """if True:
        import signal, sys, time
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        print("ready", flush=True)
        while not seen:
            time.sleep(0.01)
        time.sleep(0.5)
        print(len(seen))
        sys.exit(9)
    """
    program = (sys.executable, "-c", handles)
    with at_a_terminal("--", *program, cwd=tmp_path) as (process, press_ctrl_c):
        assert first_line(process) == "ready\n"
        press_ctrl_c()
        out, _ = process.communicate(timeout=30)

    assert (process.returncode, out) == (9, "1\n")


def test_ctrl_c_ends_the_watching_of_a_gpu_with_its_report(tmp_path: Path) -> None:
    with at_a_terminal("--gpu", "0", "-o", "here", cwd=tmp_path) as (process, press_ctrl_c):
        while not (tmp_path / "here" / "gpm-gpu0.arrow").exists():
            assert process.poll() is None
        press_ctrl_c()
        out, _ = process.communicate(timeout=30)

    assert process.returncode == 0
    assert headline(tmp_path / "here") in out
    assert {path.name for path in (tmp_path / "here").iterdir()} >= FILES


@pytest.mark.parametrize(
    "setup",
    [SLOW_END, SLOW_END + A_THREAD_OF_SOME_LIBRARY],
    ids=["alone", "beside a thread of some library"],
)
def test_ctrl_c_while_the_recording_is_being_closed_does_not_lose_it(setup: str, tmp_path: Path) -> None:
    with at_a_terminal("--", "true", cwd=tmp_path, setup=setup) as (process, press_ctrl_c):
        assert first_line(process) == "ending\n"
        press_ctrl_c()
        process.communicate(timeout=30)

    assert process.returncode == 0
    assert {path.name for path in folder(tmp_path).iterdir()} >= FILES


def test_a_program_that_is_killed_ends_us_the_same_way(tmp_path: Path) -> None:
    program = (sys.executable, "-c", "import os; print('out', flush=True); os.kill(os.getpid(), 15)")
    with at_a_terminal("--quiet", "--", *program, cwd=tmp_path) as (process, _):
        out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (-signal.SIGTERM, "out\n", "")
    assert {path.name for path in folder(tmp_path).iterdir()} >= FILES


def test_ctrl_c_during_the_report_ends_it_and_the_exit_code_is_still_the_programs(tmp_path: Path) -> None:
    program = (sys.executable, "-c", "raise SystemExit(6)")
    with at_a_terminal("--", *program, cwd=tmp_path, setup=SLOW_REPORT) as (process, press_ctrl_c):
        assert first_line(process) == "reporting\n"
        press_ctrl_c()
        _, err = process.communicate(timeout=20)

    assert process.returncode == 6
    assert "perfzero: interrupted\n" in err
    assert "perfzero analyze perfzero-runs/" in err


def in_a_shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`line` in a shell, its PERFZERO being `perfzero run` beside the simulated GPU."""
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHON": sys.executable, "DRIVER": f"{DRIVER}\nscript()", "CLOSED": CLOSED},
    )


RUN = f'"$PYTHON" -c "$DRIVER" run {" ".join(GPM)}'


def test_a_reader_of_standard_error_that_leaves_changes_nothing_for_the_program(tmp_path: Path) -> None:
    theirs = "import time; time.sleep(0.3); print('out'); raise SystemExit(9)"
    done = in_a_shell(f"""{RUN} -- "$PYTHON" -c "{theirs}" 2> >(exec true); echo $?""", tmp_path)

    assert (done.stdout, done.stderr) == ("out\n9\n", "")
    assert {path.name for path in folder(tmp_path).iterdir()} >= FILES


def test_with_standard_error_closed_nothing_of_ours_is_on_the_programs_output(tmp_path: Path) -> None:
    done = in_a_shell(f'{RUN} -- "$PYTHON" -c "$CLOSED" 2>&-; echo $?', tmp_path)
    assert done.stdout == "closed\n7\n"  # closed for the program, as without us


def test_with_standard_output_closed_a_gpu_is_watched_all_the_same(tmp_path: Path) -> None:
    done = in_a_shell(f"{RUN} --gpu 0 --profiling-duration 0.5 >&-; echo $? >&2", tmp_path)
    assert done.stderr == "0\n"
    assert {path.name for path in folder(tmp_path).iterdir()} >= FILES


UNSEEN = "The program's layers and lines are not told"


def test_what_is_not_told_without_a_program_is_said_where_it_would_have_been_told(
    run: Perfzero, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = (*GPM, "--gpu", "0", "--profiling-duration", "1s")
    assert run(*watch) == 0
    assert UNSEEN in " ".join(capfd.readouterr().out.split())
    assert run(*watch, "--no-agent", "--no-stacks", "--force") == 0
    assert UNSEEN not in " ".join(capfd.readouterr().out.split())
