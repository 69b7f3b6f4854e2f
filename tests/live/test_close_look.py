"""Close looks: the real recorder in its own process, on a simulated device, and what ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from perfzero.live import close_look
from perfzero.live.close_look import CloseLook, Looked, options, recorder_command
from perfzero.store.reader import open_recording
from perfzero.values import Gpu

GPU = Gpu(0, "GPU-aaaa", "Simulated H200")
TESTS = Path(__file__).parents[1]


def simulated_recorder(setup: str = "") -> list[str]:
    """`perfzero` with a simulated libnvidia-ml below it, and a simulated device below its sampler."""
    code = textwrap.dedent(
        f"""
        import sys
        sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent / "src")!r}]
        import pynvml
        from simulated_nvml import Library
        from simulated_sampler import simulated
        from perfzero.record import sampler_client, sampling
        pynvml.nvmlLib, pynvml._nvmlGetFunctionPointer_cache = Library(), {{}}
        pynvml.nvmlLib.gpm_values = {{1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}}
        real = sampler_client.SamplerClient
        sampling.SamplerClient = lambda gpu, **k: real(gpu, command=simulated({setup!r}), **k)
        from perfzero.cli.main import script
        script()
        """
    )
    return [sys.executable, "-c", code]


def hanging(*, ignoring: bool) -> list[str]:
    """A recorder that never ends by itself, and perhaps not when asked to either."""
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if ignoring else "pass"
    code = (
        f"import signal, sys, time; {ignore}; sys.stderr.write('begun'); sys.stderr.flush(); time.sleep(60)"
    )
    return [sys.executable, "-c", code]


def wait_for(what: Callable[[], object], *, at_most_s: float = 20.0) -> object:
    deadline = time.monotonic() + at_most_s
    while not (found := what()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return found


def ended(look: CloseLook) -> Looked:
    found = wait_for(look.ended)
    assert isinstance(found, Looked)
    return found


def test_a_look_leaves_a_recording_of_one_window_of_hardware_samples(tmp_path: Path) -> None:
    look = CloseLook(GPU, tmp_path / "r", length_s=1.0, command=simulated_recorder())

    assert ended(look) == Looked("recorded")

    recording = open_recording(tmp_path / "r")
    [window] = recording.windows()
    assert window.kind == "explicit"
    assert (window.end_ns - window.start_ns) / 1e9 == pytest.approx(1.0, abs=0.3)
    assert recording.manifest.tiers == {0: "pm"}
    assert not [note for note in recording.notes() if note.kind == "unseen"]


def test_a_busy_device_is_told_as_such_and_leaves_no_folder(tmp_path: Path) -> None:
    setup = "device.busy = True"
    look = CloseLook(GPU, tmp_path / "r", length_s=1.0, command=simulated_recorder(setup))

    looked = ended(look)

    assert looked.ending == "busy"
    assert looked.words
    assert "perfzero: " not in looked.words
    assert not (tmp_path / "r").exists()


def test_without_a_gpu_the_recorder_of_this_package_says_so(tmp_path: Path) -> None:
    look = CloseLook(Gpu(0, "GPU-none", "none"), tmp_path / "r", length_s=1.0)

    assert ended(look).ending == "refused"


def test_a_cancelled_look_leaves_neither_process_nor_folder(tmp_path: Path) -> None:
    look = CloseLook(GPU, tmp_path / "r", length_s=20.0, command=simulated_recorder())
    wait_for(lambda: (tmp_path / "r" / "pm-gpu0.arrow").exists())
    started = psutil.Process().children(recursive=True)
    assert len(started) >= 2, "the recorder and its sampler"

    look.cancel()
    look.cancel()

    wait_for(lambda: not any(p.is_running() for p in started), at_most_s=5.0)
    assert not (tmp_path / "r").exists()
    assert look.ended() == Looked("failed", "it was cancelled")


def test_a_recorder_that_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(close_look, "PATIENCE_S", 0.1)
    look = CloseLook(GPU, tmp_path / "r", command=hanging(ignoring=True))
    time.sleep(0.3)
    begun = time.monotonic()

    look.cancel()

    assert time.monotonic() - begun < 10.0
    assert not psutil.Process().children(recursive=True)


def test_a_recorder_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    now = [0.0]
    look = CloseLook(GPU, tmp_path / "r", command=hanging(ignoring=False), clock=lambda: now[0])
    assert look.ended() is None

    now[0] = 1000.0

    looked = look.ended()
    assert looked is not None
    assert looked.ending == "failed"


def test_a_recorder_does_not_outlive_whoever_started_it() -> None:
    """The starter is killed; the kernel asks its recorder to end."""
    beginning = recorder_command()[-1].partition("from perfzero")[0]
    code = f"{beginning}\nimport time; print(os.getpid(), flush=True); time.sleep(60)"
    starter = textwrap.dedent(
        f"""
        import os, subprocess, sys, time
        code = {code!r}.replace("{os.getpid()}", str(os.getpid()))
        subprocess.Popen([sys.executable, "-c", code])
        time.sleep(60)
        """
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        recorder = psutil.Process(int(process.stdout.readline() or 0))
        process.send_signal(signal.SIGKILL)

        wait_for(lambda: not recorder.is_running(), at_most_s=5.0)


def test_a_recorder_whose_starter_is_gone_already_does_nothing() -> None:
    code = recorder_command()[-1].replace(str(os.getpid()), "1")

    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (0, b"")


def test_what_is_asked_of_the_recorder_is_a_command_line_that_it_takes(tmp_path: Path) -> None:
    from perfzero.cli.main import main

    assert main([*options(GPU, tmp_path / "r", length_s=1.0), "--help"]) == 0


def test_the_recorder_is_asked_to_speak_the_language_of_the_display(tmp_path: Path) -> None:
    told = options(GPU, tmp_path, length_s=1.0, language="zh")

    assert told[told.index("--lang") + 1] == "zh"
    assert options(GPU, tmp_path, length_s=1.0)[told.index("--lang") + 1] == "en"


def test_what_a_recorder_says_is_in_the_language_of_the_display(tmp_path: Path) -> None:
    look = CloseLook(Gpu(0, "GPU-none", "none"), tmp_path / "r", length_s=1.0, language="zh")

    assert "驱动" in ended(look).words


def test_a_recorder_that_cannot_be_started_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "look"
    folder.mkdir()

    with pytest.raises(OSError):
        CloseLook(GPU, folder, command=["/nowhere/recorder"])

    assert list(tmp_path.iterdir()) == []
