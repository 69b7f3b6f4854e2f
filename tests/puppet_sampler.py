"""
A watch of one GPU, ticked by hand.

Simulated NVML lies below it, and a puppet that says what it is told stands for the sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from perfzero.record.policy import Settings
from perfzero.record.watch import GpuWatch
from perfzero.sources import nvml
from perfzero.store.reader import open_recording
from perfzero.store.writer import RecordingWriter
from perfzero.values import Process, Samples
from simulated import START

MS = 1_000_000


class Puppet:
    """A sampler's client without a sampler."""

    hangs = False

    def __init__(self, gpu: Any, *, on_samples: Any, on_event: Any, hints: Any, sudo: bool) -> None:
        self.sudo = sudo
        self.cpu_s = 1.0
        self.did: list[tuple[str, dict[str, Any]]] = []
        self._on_samples, self._on_event = on_samples, on_event

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in ("open", "start", "stop", "close", "leave", "kill", "quit"):
            raise AttributeError(name)
        return lambda **options: self.did.append((name, options))

    @property
    def left(self) -> bool:
        return not self.hangs

    def say(self, event: str, **fields: Any) -> None:
        self._on_event(0, {"event": event, **fields})

    def be_ready(self) -> None:
        self.say("ready", chip="GH100", l2_bytes=1, sm_count=1, library_version=130001, library_path="")

    def refuse(self, kind: str, text: str) -> None:
        self.say("error", type=kind, text=text)

    def end(self, detail: str = "", code: int = 1) -> None:
        self.say("gone", time_ns=START + 2000 * MS, exit_code=code, detail=detail)

    def send(self, count: int, *, kind: str = "regular") -> None:
        end = START + np.arange(1, count + 1) * MS
        self._on_samples(0, kind, Samples(end - MS, end, {"gr_active": np.ones(count)}))

    def begin(self, kind: str = "regular") -> None:
        self.say("opened", metrics={"gr_active": "x"}, left_out={})
        self.say("started", kind=kind, start_ns=START, period_ns=MS)

    def asked(self, verb: str) -> int:
        return [name for name, _ in self.did].count(verb)


class Stage:
    """A watch of one simulated GPU that works, its recording, and its puppets."""

    def __init__(self, folder: Any, monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
        self.folder, self.library = folder, library
        self.puppets: list[Puppet] = []
        self.said: list[str] = []
        self.now_s = 0.0
        self.silence_s = 0.0  # how far the monotonic clock is ahead of ours
        library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
        monkeypatch.setattr("perfzero.record.sampling.SamplerClient", self.start)
        monkeypatch.setattr("time.monotonic", lambda: self.now_s + self.silence_s)
        monkeypatch.setattr("perfzero.sources.gpm.MIN_PAIR_NS", 0)
        self.no_sampler: OSError | None = None

    def start(self, gpu: Any, **options: Any) -> Puppet:
        if self.no_sampler is not None and options["sudo"]:
            raise self.no_sampler
        self.puppets.append(Puppet(gpu, **options))
        return self.puppets[-1]

    def watch(self, *, source: Any = "auto", sudo: bool = True, settings: Settings | None = None) -> GpuWatch:
        gpu = nvml.discover()[0]
        self.writer = RecordingWriter(
            self.folder, gpus=[gpu], process=Process(), settings={}, tiers={}, tier_reasons={}
        )
        self.seen = GpuWatch(
            gpu,
            writer=self.writer,
            settings=settings or Settings(first_after_s=0.0),
            source=source,
            hints=(),
            sudo=sudo,
            say=self.said.append,
        )
        self.seen.open()
        return self.seen

    def go_on(self, seconds: float = 0.2) -> None:
        for _ in range(max(1, round(seconds / 0.2))):
            self.now_s += 0.2
            self.seen.tick(self.now_s)

    @property
    def puppet(self) -> Puppet:
        return self.puppets[-1]

    def end(self) -> Any:
        self.seen.close()
        self.writer.close()
        return open_recording(self.folder)


@pytest.fixture
def stage(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, library: Any) -> Stage:
    return Stage(tmp_path / "r", monkeypatch, library)


def sampling(stage: Stage, **options: Any) -> GpuWatch:
    """A watch whose sampler is in the middle of its first window."""
    watch = stage.watch(**options)
    watch.take()
    stage.puppet.be_ready()
    stage.go_on(2.0)
    assert stage.puppet.asked("open") == 1
    stage.puppet.begin()
    stage.go_on()
    assert stage.puppet.asked("start") == 1
    return watch
