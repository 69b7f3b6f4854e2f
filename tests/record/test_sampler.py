"""The sampler process and the recorder's end of it, with a simulated GPU behind the library boundary."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
import pytest

from perfzero.record import sampler_client
from perfzero.record.messages import pack, unpack
from perfzero.record.sampler_client import SamplerClient, sampler_command
from perfzero.values import Gpu, Samples
from simulated_sampler import simulated

GPU = Gpu(0, "GPU-00000000-0000-0000-0000-000000000000", "Simulated")


class Heard:
    """What a client was told."""

    def __init__(self) -> None:
        self.events: list[dict] = []
        self.samples: list[tuple[str, Samples]] = []

    def client(self, command: list[str]) -> SamplerClient:
        return SamplerClient(
            GPU,
            on_samples=lambda gpu, kind, samples: self.samples.append((kind, samples)),
            on_event=lambda gpu, event: self.events.append(dict(event)),
            command=command,
        )

    def wait_for(self, name: str, *, count: int = 1, seconds: float = 10.0) -> dict:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = [e for e in self.events if e["event"] == name]
            if len(found) >= count:
                return found[-1]
            time.sleep(0.01)
        raise AssertionError(f"no {name!r} among {[e['event'] for e in self.events]}")


def test_a_window_arrives_whole_and_ends_by_itself():
    heard = Heard()
    client = heard.client(simulated())
    client.open(period_ns=1_000_000, drain_s=0.1, counters=["gr_active", "sm_active"])
    client.start(kind="dense", duration_s=0.4)
    window = heard.wait_for("window")
    client.quit()

    got = sum(len(s) for _, s in heard.samples)
    assert window["samples"] == got
    assert 380 <= got <= 480
    assert window["lost"] == 0
    assert 0.0 <= window["late_s"] < 0.1
    assert {"dense"} == {kind for kind, _ in heard.samples}
    assert list(heard.samples[0][1].columns) == ["gr_active", "sm_active"]
    assert {"bye", "gone"} <= {e["event"] for e in heard.events}
    assert client.cpu_s > 0


def test_a_window_says_by_how_much_its_buffer_was_emptied_too_late():
    heard = Heard()
    slow = "read = device.decode; device.decode = lambda room: (time.sleep(0.25), read(room))[1]"
    client = heard.client(simulated(slow))
    client.open(period_ns=1_000_000, drain_s=0.1, counters=["gr_active"])
    client.start(kind="dense", duration_s=0.6)
    late_s = heard.wait_for("window")["late_s"]
    client.quit()
    assert 0.1 < late_s < 0.6


def test_a_busy_device_is_reported_and_the_sampler_lives_on():
    heard = Heard()
    client = heard.client(simulated("device.busy = True"))
    client.open(period_ns=1_000_000, drain_s=0.1)
    assert heard.wait_for("error")["type"] == "DeviceBusy"
    client.open(period_ns=1_000_000, drain_s=0.1)
    heard.wait_for("error", count=2)
    client.quit()
    assert heard.wait_for("gone")["exit_code"] == 0


def test_an_overflow_ends_the_window_with_its_losses_and_gives_the_device_back():
    heard = Heard()
    client = heard.client(simulated("device.overflows_after = 50"))
    client.open(period_ns=1_000_000, drain_s=0.2)
    client.start(kind="regular", duration_s=None)
    assert "overflowed" in heard.wait_for("gap")["reason"]
    assert heard.wait_for("window")["lost"] > 0
    heard.wait_for("error")
    client.open(period_ns=1_000_000, drain_s=0.2)  # would fail an assertion in the device if still held
    heard.wait_for("opened", count=2)
    client.quit()


def test_a_sampler_that_is_killed_is_reported_gone():
    heard = Heard()
    client = heard.client(simulated())
    heard.wait_for("ready")
    os.kill(client.pid, signal.SIGKILL)
    assert heard.wait_for("gone")["exit_code"] == -signal.SIGKILL
    client.quit()


def speaker(code: str) -> list[str]:
    """A process in the place of a sampler that does something else."""
    return [sys.executable, "-c", f"import os, sys, time\n{code}"]


@pytest.mark.parametrize("nonsense", ["hello", "[1, 2]", "3", "{}", '{"event": "samples", "kind": "zoom"}'])
def test_a_sampler_that_talks_nonsense_is_ended_and_reported_gone(nonsense):
    heard = Heard()
    client = heard.client(speaker(f"print({nonsense!r}, 'x' * 200, sep='\\n', flush=True); time.sleep(60)"))
    gone = heard.wait_for("gone")
    client.quit()

    assert gone["exit_code"] == -signal.SIGKILL
    assert gone["detail"]


def test_a_sampler_that_complains_at_length_is_still_heard():
    heard = Heard()
    client = heard.client(
        speaker(
            "sys.stderr.write('complaint\\n' * 30_000); sys.stderr.flush()\n"
            'print(\'{"event": "ready"}\', flush=True); sys.exit(3)'
        )
    )
    heard.wait_for("ready")
    gone = heard.wait_for("gone")
    client.quit()

    assert gone["exit_code"] == 3
    assert gone["detail"].endswith("complaint")


def test_samplers_that_do_not_leave_are_waited_for_together(monkeypatch):
    monkeypatch.setattr(sampler_client, "GOODBYE_S", 0.6)
    heard = Heard()
    clients = [heard.client(speaker("time.sleep(60)")) for _ in range(3)]
    began = time.monotonic()
    for client in clients:
        client.leave()
    for client in clients:
        client.quit()

    assert time.monotonic() - began < 1.5  # one after the other: 1.8 s and more
    assert len([e for e in heard.events if e["event"] == "gone"]) == 3


def test_telling_a_sampler_to_leave_does_not_wait_for_it():
    heard = Heard()
    client = heard.client(speaker("time.sleep(60)"))
    began = time.monotonic()
    client.leave()
    assert time.monotonic() - began < 0.5
    assert not client.left
    client.kill()
    heard.wait_for("gone")
    client.quit()
    assert client.left


def test_losses_are_told_when_they_are_noticed_and_not_at_the_windows_end():
    heard = Heard()
    client = heard.client(simulated("device.missing = set(range(100, 120))"))
    client.open(period_ns=1_000_000, drain_s=0.1)
    client.start(kind="continuous")
    gap = heard.wait_for("gap")
    assert not [e for e in heard.events if e["event"] == "window"]
    client.quit()
    window = heard.wait_for("window")

    assert gap["samples"] == window["lost"] == 20
    assert len([e for e in heard.events if e["event"] == "gap"]) == 1


def test_a_window_without_end_is_written_down_in_parts_that_leave_nothing_out():
    heard = Heard()
    client = heard.client(simulated("from perfzero.record import sampler as s; s.CONTINUOUS_WINDOW_S = 0.3"))
    client.open(period_ns=1_000_000, drain_s=0.1, counters=["gr_active"])
    client.start(kind="continuous")
    heard.wait_for("window", count=2)
    client.quit()
    windows = [e for e in heard.events if e["event"] == "window"]

    assert [w["more"] for w in windows] == [True] * (len(windows) - 1) + [False]
    assert all(b["start_ns"] == a["end_ns"] for a, b in pairwise(windows))
    assert sum(w["samples"] for w in windows) == sum(len(s) for _, s in heard.samples)
    assert [e["event"] for e in heard.events].count("started") == len(windows)


def test_where_the_library_lies_survives_sudo(monkeypatch):
    monkeypatch.setenv("PERFZERO_CUPTI", "/opt/cupti/libcupti.so.13")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    command = sampler_command(GPU, sudo=True)

    assert command[:2] == ["sudo", "-n"]
    assert json.loads(command[-1])["environment"] == {"PERFZERO_CUPTI": "/opt/cupti/libcupti.so.13"}


def test_a_sampler_takes_the_librarys_place_from_its_arguments():
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    code = (
        "import json, os; from perfzero.record.sampler import main\n"
        "given = {'gpu': 0, 'uuid': 'GPU-0', 'hints': [], 'environment': {'CUDA_HOME': '/opt/cuda'}}\n"
        "main([json.dumps(given)])\n"
        "os.write(2, os.environ['CUDA_HOME'].encode())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr.endswith(b"/opt/cuda")


def test_a_sampler_never_takes_the_processor_from_a_running_program():
    code = (
        "import os; from perfzero.record.children import stay_behind\n"
        "stay_behind(); print(os.sched_getscheduler(0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert int(done.stdout) == os.SCHED_BATCH


def test_the_end_of_its_input_ends_a_sampler_in_the_middle_of_a_window():
    """This is how it notices that the recorder was killed, also as root, where no signal reaches it."""
    heard = Heard()
    client = heard.client(simulated())
    client.open(period_ns=1_000_000, drain_s=0.1)
    client.start(kind="continuous")
    heard.wait_for("started")
    client._process.stdin.close()
    assert heard.wait_for("gone")["exit_code"] == 0
    client.quit()


def test_a_real_sampler_on_a_machine_without_a_driver_says_so_and_ends():
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    heard = Heard()
    client = heard.client(sampler_command(GPU))
    error = heard.wait_for("error")
    client.quit()
    assert error["type"] == "NoGpu"
    assert "perfzero doctor" in error["text"]


def test_the_sampler_is_out_of_reach_of_the_terminals_ctrl_c():
    heard = Heard()
    client = heard.client(simulated())
    heard.wait_for("ready")
    assert os.getsid(client.pid) != os.getsid(0)
    assert psutil.Process(client.pid).is_running()
    client.quit()


@pytest.mark.parametrize(
    ("module", "costly"),
    [
        (
            "sampler",
            ("argparse", "psutil", "pyarrow", "pynvml", "typer", "perfzero.store", "perfzero.series"),
        ),
        ("session", ("argparse", "perfzero.sources.cupti", "perfzero.diagnose", "perfzero.report", "scipy")),
        ("children", ("numpy", "perfzero.sources")),
    ],
)
def test_each_process_imports_only_what_it_needs(module, costly):
    """Importing is a tenth of the CPU time that watching for five minutes may take."""
    code = f"import sys, perfzero.record.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True, text=True)
    assert f"perfzero.record.{module}" in done.stdout.split()
    assert not set(costly) & set(done.stdout.split())


def test_samples_survive_the_pipe():
    samples = Samples(np.array([1, 2]), np.array([2, 3]), {"gr_active": np.array([0.5, np.nan])})
    back = unpack(pack(samples))
    assert np.array_equal(back.start_ns, samples.start_ns)
    assert np.array_equal(back.column("gr_active"), [0.5, np.nan], equal_nan=True)


def test_a_table_without_time_stamps_is_no_samples():
    with pytest.raises(ValueError, match="time stamps"):
        unpack(np.zeros(2, dtype=[("gr_active", np.float32)]))
