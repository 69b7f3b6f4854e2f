"""`perfzero` at the command line, on a simulated GPU behind both library boundaries."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perfzero.cli import main as main_module
from perfzero.record import sampler_client
from perfzero.record import sampling as sampling_module
from simulated_nvml import board, library
from simulated_sampler import simulated

__all__ = ["board", "library"]

Perfzero = Callable[..., int]


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch, library: Any) -> Callable[[str], None]:
    """Samplers run on a simulated, working GPU; called, it prepares that device with a line of Python."""
    library.gpm_values = {1: 97.0, 2: 80.0, 5: 40.0, 10: 30.0}
    real = sampler_client.SamplerClient

    def use(setup: str = "") -> None:
        monkeypatch.setattr(
            sampling_module, "SamplerClient", lambda gpu, **k: real(gpu, command=simulated(setup), **k)
        )

    use()
    return use


@pytest.fixture
def perfzero(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Perfzero]:
    """A function that runs `perfzero ARGS` in an empty folder to its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main_module, "COMMANDS", ("run", "record", "analyze"))
    for name in ("SUDO_UID", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    before = [signal.getsignal(number) for number in range(1, 32)]
    yield lambda *arguments: main_module.main([str(a) for a in arguments])
    after = [signal.getsignal(number) for number in range(1, 32)]
    assert after == before, "signals no longer act as before"


@pytest.fixture
def python() -> Callable[[str], tuple[str, str, str]]:
    """The words that run a line of Python as the observed program."""
    return lambda code: (sys.executable, "-c", code)
