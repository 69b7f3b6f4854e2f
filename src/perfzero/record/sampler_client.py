"""
The recorder's end of a sampler process: start it, command it, hear what it says.

A thread of this process reads the sampler's output and calls back; commands are written by
whoever calls. Where only root may read the counters and `sudo -n` is allowed, the sampler
alone is started through it.
"""

from __future__ import annotations

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
from perfzero.record.sampler import unpack
from perfzero.values import Gpu, Samples

GOODBYE_S = 3.0
"""How long a sampler may take to give the device back (80 ms on an H200) before it is killed."""

OnSamples = Callable[[int, str, Samples], None]
OnEvent = Callable[[int, Mapping[str, Any]], None]


def sampler_command(gpu: Gpu, *, hints: Sequence[str] = (), sudo: bool = False) -> list[str]:
    """The command line of a sampler; it works from a checkout as well as when installed."""
    package = str(Path(perfzero.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {package!r}); "
        "from perfzero.record.sampler import main; sys.exit(main())"
    )
    command = [sys.executable, "-I", "-c", code, "--gpu", str(gpu.index), "--uuid", gpu.uuid]
    for hint in hints:
        command += ["--hint", hint]
    return ["sudo", "-n", *command] if sudo else command


class SamplerClient:
    """
    A running sampler of one GPU.

    *on_samples(gpu, kind, samples)* and *on_event(gpu, event)* are called from the reading
    thread; the last event is "gone", with the exit code and what it wrote to standard error.
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
        self._process = subprocess.Popen(
            command or sampler_command(gpu, hints=hints, sudo=sudo),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Its own session: a Ctrl-C at the terminal must not reach it.
            start_new_session=True,
            env=_plain_environment(),
        )
        self._thread = threading.Thread(target=self._listen, name=f"sampler-{gpu.index}", daemon=True)
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

    def quit(self) -> None:
        """End the sampler: window, session and process. Returns when all it said has been heard."""
        try:
            self._tell(do="close")
            assert self._process.stdin is not None
            self._process.stdin.close()
        except OSError:
            pass  # it is gone already
        try:
            self._process.wait(GOODBYE_S)
        except subprocess.TimeoutExpired:
            # It may be root's, through sudo: then the end of its input has to do.
            try:
                self._process.kill()
            except PermissionError:
                return
            self._process.wait()
        self._thread.join(GOODBYE_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _tell(self, **command: Any) -> None:
        with self._lock:
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps(command).encode() + b"\n")
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # the listening thread reports that it is gone

    def _listen(self) -> None:
        out = self._process.stdout
        assert out is not None
        said = b""
        trouble = ""
        try:
            for line in iter(out.readline, b""):
                event = json.loads(line)
                if "cpu_s" in event:
                    self.cpu_s = float(event["cpu_s"])
                if event.get("event") == "samples":
                    table = np.lib.format.read_array(_Bytes(out), allow_pickle=False)
                    self._on_samples(self.gpu.index, str(event["kind"]), unpack(table))
                else:
                    self._on_event(self.gpu.index, event)
        except (ValueError, OSError, KeyError) as error:
            trouble = f"{type(error).__name__}: {error}"  # it died in the middle of a message
        assert self._process.stderr is not None
        said = self._process.stderr.read(65536)
        # The main thread may be reaping the process at the same time.
        for _ in range(100):
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        detail = trouble or said.decode("utf-8", "replace").strip()[-2000:]
        self._on_event(
            self.gpu.index, {"event": "gone", "exit_code": self._process.returncode, "detail": detail}
        )


class _Bytes:
    """A stream that is only read from: NumPy would seek in a real file, and a pipe cannot."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.read = stream.read


def _plain_environment() -> dict[str, str]:
    """Our environment without what would hide the device from the sampler or load code into it."""
    hide = ("CUDA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD")
    environment = {k: v for k, v in os.environ.items() if k not in hide}
    # NumPy's BLAS would start a thread per core, for arithmetic that never comes.
    return {
        **environment,
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
