"""
The sampler: a process of its own that holds the hardware counters of one GPU.

It is told what to do and answers as `perfzero.record.messages` says.
It is apart from the recorder because leaving PM sampling finalises CUPTI in its process, because
decoding costs CPU, because it alone may need privileges, and because a crash in here must reach
nobody. The end of its input ends it, so it cannot outlive a recorder that was killed, not even
when it runs as root and the recorder does not.

It starts with one argument, a JSON object:

    {"gpu": 0, "uuid": "GPU-...", "hints": ["/folder", ...], "environment": {"CUDA_HOME": ...}}

where hints are folders in which a libcupti may lie, and the environment is what sudo takes away.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

from perfzero.counters import BY_NAME
from perfzero.errors import PerfzeroError, SourceError
from perfzero.record.children import stay_behind
from perfzero.record.messages import MESSAGE_LIMIT, pack, say
from perfzero.sources.cupti import CuptiDevice, PmSampler
from perfzero.values import Samples

CONTINUOUS_WINDOW_S = 60.0
"""A window without end is written down as windows of this length, so that little is lost with us."""


class Sampler:
    """Obeys commands, drains the counters in time, and says what happens."""

    def __init__(self, pm: PmSampler, gpu: int, out: IO[bytes]) -> None:
        self._pm = pm
        self._gpu = gpu
        self._out = out
        self._kind = ""
        self._drain_s = 0.5
        self._begun_ns = self._ended_ns = 0
        self._count = self._lost = self._reported = 0
        self._late_s = 0.0  # by how much a drain of the window came too late, at worst
        self._drain_at = self._stop_at = self._roll_at = float("inf")

    def say(self, event: str, **fields: Any) -> None:
        """One event to the recorder."""
        say(self._out, event, **fields)

    def fail(self, error: PerfzeroError) -> None:
        """Report *error* and give the device back."""
        self._end_window()
        self._pm.close()
        self.say("error", type=type(error).__name__, text=str(error))

    def obey(self, command: Mapping[str, Any]) -> None:
        """Carry out one command."""
        verb = command.get("do")
        try:
            if verb == "open":
                self._open(command)
            elif verb == "start" and self._pm.is_open and not self._pm.running:
                self._start(str(command["kind"]), command.get("duration_s"))
            elif verb == "stop":
                self._stop()
            elif verb == "close":
                self._stop()
                self._pm.close()
                self.say("closed")
        except SourceError as error:
            self.fail(error)

    def wait_s(self) -> float | None:
        """Seconds until something is due, None when nothing is."""
        due = min(self._drain_at, self._stop_at)
        return None if due == float("inf") else max(0.0, due - time.monotonic())

    def tick(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        try:
            if now >= self._stop_at:
                self._stop()
            elif now >= self._drain_at:
                self._late_s = max(self._late_s, now - self._drain_at)
                self._drain_at = now + self._drain_s
                self._emit(self._pm.read())
                if now >= self._roll_at:
                    self._roll_at = now + CONTINUOUS_WINDOW_S
                    self._write_window(self._pm.last_end_ns, more=True)
                    self._begin_window(self._pm.last_end_ns)
        except SourceError as error:
            self.fail(error)

    def close(self) -> None:
        """Give everything back, quietly."""
        self._pm.close()

    def _open(self, command: Mapping[str, Any]) -> None:
        names = command.get("counters")
        counters = None if names is None else [BY_NAME[n] for n in names if n in BY_NAME]
        self._drain_s = float(command["drain_s"])
        resolution = self._pm.open(
            period_ns=int(command["period_ns"]), drain_s=self._drain_s, counters=counters
        )
        self.say("opened", metrics=dict(resolution.metrics), left_out=dict(resolution.left_out))

    def _start(self, kind: str, duration_s: float | None) -> None:
        self._kind, self._ended_ns, self._reported = kind, 0, 0
        self._pm.start()
        now = time.monotonic()
        self._stop_at = float("inf") if duration_s is None else now + float(duration_s)
        self._roll_at = now + CONTINUOUS_WINDOW_S if duration_s is None else float("inf")
        self._drain_at = now + self._drain_s
        self._begin_window(time.time_ns())

    def _begin_window(self, start_ns: int) -> None:
        self._begun_ns, self._count, self._lost, self._late_s = start_ns, 0, 0, 0.0
        self.say("started", kind=self._kind, start_ns=start_ns, period_ns=self._pm.period_ns)

    def _stop(self) -> None:
        if self._pm.running:
            self._ended_ns = time.time_ns()  # decoding what came takes its time, but is no sampling
            samples = self._pm.stop()
            self._emit(samples)
            self._end_window()

    def _emit(self, samples: Samples) -> None:
        self._report_losses()
        if len(samples):
            self._count += len(samples)
            self.say("samples", kind=self._kind)
            block = io.BytesIO()  # NumPy would seek in a real file, and a pipe cannot
            np.lib.format.write_array(block, pack(samples), allow_pickle=False)
            self._out.write(block.getbuffer())
            self._out.flush()

    def _report_losses(self) -> None:
        """Say what went missing as soon as it is known: we may not live to see the window's end."""
        losses = self._pm.losses[self._reported :]
        self._reported += len(losses)
        self._lost += sum(loss.samples for loss in losses)
        for loss in losses:
            self.say(
                "gap", start_ns=loss.start_ns, end_ns=loss.end_ns, reason=loss.reason, samples=loss.samples
            )

    def _end_window(self) -> None:
        if not self._kind:
            return
        self._report_losses()
        self._write_window(self._ended_ns or time.time_ns(), more=False)
        self._kind = ""
        self._stop_at = self._drain_at = self._roll_at = float("inf")

    def _write_window(self, end_ns: int, *, more: bool) -> None:
        """Report the window up to *end_ns*; with *more*, sampling goes on and the next begins there."""
        self.say(
            "window",
            gpu=self._gpu,
            kind=self._kind,
            start_ns=self._begun_ns,
            end_ns=end_ns,
            period_ns=self._pm.period_ns,
            samples=self._count,
            lost=self._lost,
            late_s=self._late_s,
            more=more,
            cpu_s=time.process_time(),
        )


def serve(sampler: Sampler, commands: int) -> None:
    """Obey *commands* (a file descriptor) until it ends."""
    pending = b""
    while True:
        ready, _, _ = select.select([commands], [], [], sampler.wait_s())
        if ready:
            data = os.read(commands, 65536)
            if not data or len(pending) > MESSAGE_LIMIT:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                sampler.obey(json.loads(line))
        sampler.tick()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sampler of one GPU."""
    options = json.loads((sys.argv[1:] if argv is None else argv)[0])
    os.environ.update(options["environment"])
    # Ctrl-C is for the observed program and the recorder; the end of our input ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the recorder has its own blocked
    stay_behind()
    # libcupti may print; what it prints must not land among the events.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        device = CuptiDevice(options["uuid"], hints=options["hints"])
    except PerfzeroError as error:
        say(out, "error", type=type(error).__name__, text=str(error))
        return error.exit_code
    sampler = Sampler(PmSampler(device), options["gpu"], out)
    sampler.say(
        "ready",
        chip=device.chip,
        library_version=device.library_version,
        library_path=device.library_path,
        sm_count=device.sm_count,
        l2_bytes=device.l2_bytes,
    )
    try:
        serve(sampler, 0)
    except BrokenPipeError:
        pass  # the recorder is gone: only the device is left to be given back
    finally:
        sampler.close()
    try:
        sampler.say("bye", cpu_s=time.process_time())
    except BrokenPipeError:
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
