"""
The recorder's end of a sampler process: start it, command it, hear what it says.

A thread of this process reads the sampler's output and calls back; commands are written by
whoever calls. Where only root may read the counters and `sudo -n` is allowed, the sampler
alone is started through it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

import perfzero
from perfzero.record.children import plain_environment
from perfzero.record.messages import MESSAGE_LIMIT, unpack
from perfzero.values import Gpu, Samples

GOODBYE_S = 3.0
"""How long a sampler may take to give the device back (80 ms on an H200) before it is killed."""

KILLED_S = 1.0
"""How long a killed process is waited for; one that hangs in the driver is left to the system."""

STDERR_KEPT = 65536
"""How many of the last bytes that a sampler wrote to standard error are kept."""

PASSED_ENVIRONMENT = ("PERFZERO_CUPTI", "CUDA_HOME", "CUDA_PATH")
"""Where a libcupti lies; sudo would take these away, so they come in the argument."""

OnSamples = Callable[[int, str, Samples], None]
OnEvent = Callable[[int, Mapping[str, Any]], None]


def sampler_command(gpu: Gpu, *, hints: Sequence[str] = (), sudo: bool = False) -> list[str]:
    """The command line of a sampler; it works from a checkout as well as when installed."""
    package = str(Path(perfzero.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {package!r}); "
        "from perfzero.record.sampler import main; sys.exit(main())"
    )
    passed = {name: value for name in PASSED_ENVIRONMENT if (value := os.environ.get(name))}
    options = {"gpu": gpu.index, "uuid": gpu.uuid, "hints": list(hints), "environment": passed}
    command = [sys.executable, "-I", "-c", code, json.dumps(options)]
    return ["sudo", "-n", *command] if sudo else command


class SamplerClient:
    """
    A running sampler of one GPU. Raises OSError when the process cannot be started.

    *on_samples(gpu, kind, samples)* and *on_event(gpu, event)* are called from the reading
    thread; the last event is "gone", with the time, the exit code and what it wrote to standard error.
    One that says what cannot be understood is killed.
    """

    def __init__(
        self,
        gpu: Gpu,
        *,
        on_samples: OnSamples,
        on_event: OnEvent,
        hints: Sequence[str] = (),
        sudo: bool = False,
        command: Sequence[str] | None = None,
    ) -> None:
        self.gpu = gpu
        self.cpu_s = 0.0
        self._on_samples = on_samples
        self._on_event = on_event
        self._lock = threading.Lock()
        self._asked_to_leave_at: float | None = None
        self._said = b""
        self._process = subprocess.Popen(
            command or sampler_command(gpu, hints=hints, sudo=sudo),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Its own session: a Ctrl-C at the terminal must not reach it.
            start_new_session=True,
            env=plain_environment(),
        )
        name = f"sampler-{gpu.index}"
        self._stderr = threading.Thread(target=self._read_stderr, name=f"{name}-stderr", daemon=True)
        self._stderr.start()
        self._thread = threading.Thread(target=self._listen, name=name, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process id of the sampler (of sudo, where that is between)."""
        return self._process.pid

    def open(self, *, period_ns: int, drain_s: float, counters: Sequence[str] | None = None) -> None:
        """Take the counters; answered by "opened" or "error"."""
        names = None if counters is None else list(counters)
        self._tell(do="open", period_ns=period_ns, drain_s=drain_s, counters=names)

    def start(self, *, kind: str, duration_s: float | None = None) -> None:
        """Begin a window that ends by itself after *duration_s*, or with `stop`."""
        self._tell(do="start", kind=kind, duration_s=duration_s)

    def stop(self) -> None:
        """End the window now."""
        self._tell(do="stop")

    def close(self) -> None:
        """Give the counters back; the process stays."""
        self._tell(do="close")

    def leave(self) -> None:
        """Tell it to end window, session and process; `quit` waits for that."""
        if self._asked_to_leave_at is not None:
            return
        self._asked_to_leave_at = time.monotonic()
        self._tell(do="close")
        self._end_input()

    @property
    def left(self) -> bool:
        """Whether `quit` would return at once: all it said has been heard, or it was given up."""
        asked = self._asked_to_leave_at
        return not self._thread.is_alive() or (asked is not None and time.monotonic() > asked + GOODBYE_S)

    def kill(self) -> None:
        """End it now; the driver frees the device. One of root's, through sudo, loses its input instead."""
        self._asked_to_leave_at = self._asked_to_leave_at or time.monotonic()
        with contextlib.suppress(PermissionError):
            self._process.kill()
        self._end_input()

    def quit(self) -> None:
        """End the sampler. Returns when all it said has been heard, or some `GOODBYE_S` after `leave`."""
        self.leave()
        assert self._asked_to_leave_at is not None
        patience = self._asked_to_leave_at + GOODBYE_S
        self._wait_until(patience)
        if self._process.poll() is None:
            self.kill()
            self._wait_until(patience + KILLED_S)
        for thread, pipe in (
            (self._thread, self._process.stdout),
            (self._stderr, self._process.stderr),
        ):
            thread.join(max(0.1, patience + KILLED_S - time.monotonic()))
            if pipe is not None and not thread.is_alive():
                pipe.close()

    def _wait_until(self, moment_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, moment_s - time.monotonic()))

    def _end_input(self) -> None:
        assert self._process.stdin is not None
        with self._lock, contextlib.suppress(OSError):  # what was written last finds nobody
            self._process.stdin.close()

    def _tell(self, **command: Any) -> None:
        with self._lock:
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps(command).encode() + b"\n")
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # the listening thread reports that it is gone

    def _read_stderr(self) -> None:
        # All the time: a full pipe would stop the sampler.
        assert self._process.stderr is not None
        while data := os.read(self._process.stderr.fileno(), 65536):
            self._said = (self._said + data)[-STDERR_KEPT:]

    def _listen(self) -> None:
        trouble = ""
        try:
            self._hear_out()
        except Exception as error:  # noqa: BLE001 - whatever it said, it must not be waited for in vain
            trouble = f"{type(error).__name__}: {error}"
            self.kill()
        gone_ns = time.time_ns()
        # The main thread may be reaping the process at the same time.
        for _ in range(100):
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        self._stderr.join(KILLED_S)
        detail = trouble or self._said.decode("utf-8", "replace").strip()[-2000:]
        gone = {"event": "gone", "time_ns": gone_ns, "exit_code": self._process.returncode, "detail": detail}
        self._on_event(self.gpu.index, gone)

    def _hear_out(self) -> None:
        """Pass on all it says, until it says no more."""
        out = self._process.stdout
        assert out is not None
        while line := out.readline(MESSAGE_LIMIT):
            event = json.loads(line)
            if "cpu_s" in event:
                self.cpu_s = float(event["cpu_s"])
            if event["event"] == "samples":
                table = np.lib.format.read_array(_Bytes(out), allow_pickle=False)
                self._on_samples(self.gpu.index, str(event["kind"]), unpack(table))
            else:
                self._on_event(self.gpu.index, event)


class _Bytes:
    """A stream that is only read from: NumPy would seek in a real file, and a pipe cannot."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.read = stream.read
