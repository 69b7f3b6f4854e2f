"""`perfzero calibrate` with a stand-in for the measuring program, on a simulated NVML."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from perfzero.cli import main as main_module
from perfzero.record import calibrate as measuring
from perfzero.record.kept_roofs import Calibration, document, own_path, read, with_kept_roofs
from perfzero.record.launch import Invoker
from perfzero.record.signals import Signals
from perfzero.sources import nvml
from perfzero.sources.synthetic import H200
from perfzero.values import Samples
from simulated_nvml import Library

PEAK_DRAM = 2 * 3201e6 * 6144 / 8
PEAK_BF16 = 132 * 4096 * 1335e6  # at the clock that the simulated board reports

STAGES: dict[str, tuple[float, float]] = {  # amount and seconds of a call
    "triad": (12e9, 12e9 / (0.88 * PEAK_DRAM)),
    "copy": (8e9, 8e9 / (0.85 * PEAK_DRAM)),
    "pcie_rx": (2.5e8, 2.5e8 / 55.3e9),
    "pcie_tx": (2.5e8, 2.5e8 / 53.0e9),
    "l2_chain": (3e7, 3e7 / 4e12),
    "l2_reread": (5e8, 5e8 / 5.5e12),
    "bf16": (1.1e12, 1.1e12 / (0.90 * PEAK_BF16)),
}

KEPT = Calibration(
    uuid="GPU-of-another-node",
    driver="580.159.04",
    name="NVIDIA H200",
    measured_ns=1_790_000_000_000_000_000,
    perfzero="0.1.0",
    framework="torch 2.11.0",
    roofs={"dram": 4.3e12},
)

PROGRAM = """#!{python}
import json, sys, time
if "find_spec" in sys.argv[2]:
    sys.exit({has_framework})
assert "alpha=0.5" in sys.argv[2], "the measuring program itself is handed over"
start = time.time_ns()
{body}
stages = json.loads({stages!r})
for stage in stages.values():
    stage.update(start_ns=start, end_ns=time.time_ns())
print("a framework may greet the user")
print(json.dumps({{"framework": "torch 2.11.0", "stages": stages, "skipped": {{"tf32": "no such thing"}}}}))
"""

Fake = Callable[..., Path]
Perfzero = Callable[..., int]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """A Python with a framework, as far as perfzero can tell; *changes* to `STAGES` by name."""

    def make(
        *, body: str = "time.sleep(0.2)", has_framework: bool = True, **changes: tuple[float, float]
    ) -> Path:
        stages = {n: {"amount": a, "seconds": s} for n, (a, s) in {**STAGES, **changes}.items()}
        script = tmp_path / "python-with-torch"
        script.write_text(
            PROGRAM.format(
                python=sys.executable,
                has_framework=int(not has_framework),
                body=body,
                stages=json.dumps(stages),
            )
        )
        script.chmod(0o755)
        return script

    return make


@pytest.fixture
def perfzero(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: Library) -> Perfzero:
    """A function that runs `perfzero calibrate ARGS` beside an idle GPU to its exit code."""
    library.boards[0].pids = ()
    library.boards[0].utilization = 0
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(measuring, "IDLE_FOR_S", 0.02)
    monkeypatch.setattr(main_module, "COMMANDS", ("calibrate",))
    return lambda *arguments: main_module.main(["calibrate", *(str(a) for a in arguments)])


def test_the_roofs_are_those_that_the_program_reached(perfzero: Perfzero, fake: Fake) -> None:
    assert perfzero("--python", fake()) == 0

    (kept,) = read(own_path())
    assert kept.roofs["dram"] == pytest.approx(0.88 * PEAK_DRAM)  # the better of two
    assert kept.roofs["l2"] == pytest.approx(5.5e12)
    assert kept.roofs["bf16"] == pytest.approx(0.90)
    assert kept.roofs["pcie_rx"] == pytest.approx(55.3 / 63.0, rel=1e-3)
    assert kept.sm_clock_hz == {"bf16": 1335e6}
    assert (kept.uuid, kept.driver, kept.framework) == ("GPU-aaaa", "580.159.04", "torch 2.11.0")
    assert abs(time.time_ns() - kept.measured_ns) < 60e9


def test_what_is_recorded_later_carries_them(perfzero: Perfzero, fake: Fake) -> None:
    assert perfzero("--python", fake()) == 0

    (gpu,) = with_kept_roofs(nvml.discover())
    assert gpu.calibrated["dram"] == pytest.approx(0.88 * PEAK_DRAM)


def test_it_is_told_to_people_and_to_programs(
    perfzero: Perfzero, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perfzero("--python", fake()) == 0
    out, err = capsys.readouterr()
    assert "bf16 product" in out
    assert "90 % of the peak at 1.33 GHz" in out
    assert "88 % of the link" in out
    assert "perfzero: tf32 could not be measured: no such thing" in err
    assert str(own_path()) in err

    assert perfzero("--show") == 0
    assert capsys.readouterr().out == out

    assert perfzero("--show", "--format", "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["path"] == str(own_path())
    assert data["calibrations"][0]["rates"]["l2_chain"] == pytest.approx(4e12)


def test_a_second_measurement_takes_the_place_of_the_first(perfzero: Perfzero, fake: Fake) -> None:
    assert perfzero("--python", fake()) == 0
    assert perfzero("--python", fake(bf16=(1.1e12, 1.1e12 / (0.8 * PEAK_BF16)))) == 0

    assert [c.roofs["bf16"] for c in read(own_path())] == [pytest.approx(0.8)]


@pytest.mark.parametrize(
    ("befalls", "code"),
    [("sys.exit('RuntimeError: uncorrectable ECC error')", 3), ("os.kill(os.getppid(), 15)", 143)],
)
def test_what_befalls_the_second_gpu_leaves_the_first(
    perfzero: Perfzero,
    fake: Fake,
    library: Library,
    board: type,
    survived: list[int],
    befalls: str,
    code: int,
) -> None:
    library.boards.append(board(uuid="GPU-bbbb", pids=(), utilization=0))
    body = f"import os\nif os.environ['CUDA_VISIBLE_DEVICES'] == 'GPU-bbbb': {befalls}\ntime.sleep(0.2)"

    assert perfzero("--python", fake(body=body)) == code
    assert [c.uuid for c in read(own_path())] == ["GPU-aaaa"]
    assert survived == []


def test_what_another_perfzero_writes_meanwhile_stays(perfzero: Perfzero, fake: Fake, tmp_path: Path) -> None:
    """As on two nodes that share a home directory."""
    own_path().parent.mkdir(parents=True)
    (tmp_path / "other").write_bytes(document([KEPT]))
    body = f"import shutil; shutil.copy({str(tmp_path / 'other')!r}, {str(own_path())!r}); time.sleep(0.2)"

    assert perfzero("--python", fake(body=body)) == 0
    assert [c.uuid for c in read(own_path())] == ["GPU-of-another-node", "GPU-aaaa"]


@pytest.mark.parametrize("changes", [{"pids": (4711,)}, {"utilization": 38}])
def test_a_gpu_in_use_is_left_alone_unless_forced(
    perfzero: Perfzero,
    fake: Fake,
    library: Library,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
) -> None:
    for name, value in changes.items():
        setattr(library.boards[0], name, value)

    assert perfzero("--python", fake()) == 5
    assert "--force" in capsys.readouterr().err
    assert not own_path().exists()

    assert perfzero("--python", fake(), "--force") == 0
    assert own_path().exists()


def test_without_a_framework_the_way_out_is_told(
    perfzero: Perfzero, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perfzero("--python", fake(has_framework=False)) == 3
    assert "perfzero calibrate --python /path/to/python" in capsys.readouterr().err


def test_a_python_that_is_none_is_a_usage_error(perfzero: Perfzero, tmp_path: Path) -> None:
    assert perfzero("--python", tmp_path / "nothing") == 2


def test_a_python_is_found_from_the_folder_it_is_named_in(
    perfzero: Perfzero, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "python").symlink_to(fake())
    monkeypatch.chdir(tmp_path)

    assert perfzero("--python", "env/python") == 0
    assert perfzero("--python", "../env/python") == 2
    # A link is not followed: the Python of a virtual environment is one.
    assert measuring.choose_python("env/python") == str(tmp_path / "env" / "python")


def test_show_and_forget_exclude_each_other(perfzero: Perfzero) -> None:
    assert perfzero("--show", "--forget") == 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.exit('RuntimeError: CUDA out of memory')", "CUDA out of memory"),
        ("print('{}'); sys.exit()", "answer.framework is missing"),
        ("sys.exit()", "exit code 0"),
        ("import atexit, os; atexit.register(os._exit, 7); atexit.register(sys.stdout.flush)", "exit code 7"),
    ],
)
def test_a_program_that_breaks_off_leaves_what_was_kept(
    perfzero: Perfzero, fake: Fake, capsys: pytest.CaptureFixture[str], body: str, why: str
) -> None:
    assert perfzero("--python", fake()) == 0
    before = own_path().read_bytes()

    assert perfzero("--python", fake(body=body)) == 3
    assert why in capsys.readouterr().err
    assert own_path().read_bytes() == before


def test_a_roof_that_cannot_be_right_is_said_and_not_kept(
    perfzero: Perfzero, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perfzero("--python", fake(bf16=(1.1e12, 1e-9))) == 0

    assert "bf16 came out as" in capsys.readouterr().err
    (kept,) = read(own_path())
    assert "bf16" not in kept.roofs
    assert "dram" in kept.roofs


def test_a_link_that_the_driver_does_not_know_gives_no_share(
    perfzero: Perfzero, fake: Fake, library: Library
) -> None:
    library.fail.update(
        {
            f"nvmlDeviceGet{which}": 3
            for which in (
                "MaxPcieLinkGeneration",
                "MaxPcieLinkWidth",
                "CurrPcieLinkGeneration",
                "CurrPcieLinkWidth",
            )
        }
    )

    assert perfzero("--python", fake()) == 0
    assert not {"pcie_rx", "pcie_tx"} & read(own_path())[0].roofs.keys()


@pytest.fixture
def shim(tmp_path: Path) -> Callable[[Path], Path]:
    """A program that starts the given Python as its child, as those of some version managers do."""

    def make(python: Path) -> Path:
        script = tmp_path / "shim"
        script.write_text(f'#!/bin/sh\n"{python}" "$@"\nexit $?\n')
        script.chmod(0o755)
        return script

    return make


@pytest.fixture
def survived() -> Iterator[list[int]]:
    """The signals that would have ended this process; afterwards all act as before."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    got: list[int] = []
    before = {number: signal.signal(number, lambda n, _: got.append(n)) for number in numbers}
    ours = {number: signal.getsignal(number) for number in numbers}
    yield got
    after = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == ours, "signals no longer act as before"


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)],
)
def test_a_signal_ends_the_program_and_keeps_nothing(
    perfzero: Perfzero, fake: Fake, survived: list[int], number: int, code: int
) -> None:
    """That no child is left is what every test here ends with."""
    body = f"import os; os.kill(os.getppid(), {number:d}); time.sleep(20)"
    begun = time.monotonic()

    assert perfzero("--python", fake(body=body)) == code
    assert time.monotonic() - begun < 10, "it waited for the program to end by itself"
    assert survived == []
    assert not own_path().exists()


def test_a_signal_that_comes_as_the_program_ends_counts(
    perfzero: Perfzero, fake: Fake, survived: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(Signals):
        def wait(self, timeout_s: float) -> tuple[int, ...]:
            if timeout_s == 0:
                return (signal.SIGTERM,)
            time.sleep(timeout_s)
            return ()

    monkeypatch.setattr(measuring, "Signals", Late)

    assert perfzero("--python", fake()) == 143
    assert not own_path().exists()
    assert survived == []


def test_nothing_of_a_shim_stays_on_the_gpu(
    perfzero: Perfzero,
    fake: Fake,
    shim: Callable[[Path], Path],
    survived: list[int],
    tmp_path: Path,
) -> None:
    body = (
        f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()));"
        f"os.kill({os.getpid()}, {signal.SIGTERM:d}); time.sleep(10)"
    )

    assert perfzero("--python", shim(fake(body=body))) == 143
    assert survived == []
    computing = int((tmp_path / "pid").read_text())
    assert computing != os.getpid()
    deadline = time.monotonic() + 2
    while psutil.pid_exists(computing) and psutil.Process(computing).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the Python behind the shim still runs"
        time.sleep(0.01)


@pytest.mark.parametrize(("arguments", "code"), [((), 2), (("--forget",), 2), (("--show",), 0)])
def test_through_sudo_nothing_runs_and_nothing_is_written(
    perfzero: Perfzero,
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
) -> None:
    assert perfzero("--python", fake()) == 0
    before = own_path().read_bytes()
    caller = Invoker("caller", uid=4711, gid=4712, home="/")
    monkeypatch.setattr("perfzero.record.launch.invoking_user", lambda: caller)

    assert perfzero(*arguments, "--python", fake(bf16=(1.1e12, 1.1e12 / (0.8 * PEAK_BF16)))) == code
    assert ("without sudo" in capsys.readouterr().err) is (code == 2)
    assert own_path().read_bytes() == before


def test_the_program_sees_one_gpu_and_neither_the_users_folder_nor_a_tf32_switch(
    perfzero: Perfzero,
    fake: Fake,
    library: Library,
    board: type,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library.boards.append(board(uuid="GPU-bbbb", pids=(), utilization=0))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.chdir(tmp_path)
    body = (
        "import os; gpu, switch = map(os.environ.get, ('CUDA_VISIBLE_DEVICES', 'NVIDIA_TF32_OVERRIDE'));"
        f"open({str(tmp_path / 'seen')!r}, 'a').write(f'{{gpu}} {{os.getcwd()}} {{switch}}\\n');"
        "time.sleep(0.2)"
    )

    assert perfzero("--python", fake(body=body)) == 0
    assert (tmp_path / "seen").read_text().splitlines() == ["GPU-aaaa / None", "GPU-bbbb / None"]


def test_a_file_that_is_called_torch_does_not_make_a_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a Python looks for it is not the user's folder."""
    (tmp_path / "python").write_text(f"#!/bin/sh\npwd > {tmp_path}/seen\nexit 0\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.chdir(tmp_path)

    assert measuring.choose_python("./python") == str(tmp_path / "python")
    assert (tmp_path / "seen").read_text() == "/\n"


def test_the_clock_of_a_product_is_that_of_its_own_stretch() -> None:
    """Before it the clock was still high, after it it is high again."""
    ends = np.arange(6, dtype=np.int64) * 100
    clocks = np.array([1980.0, 1980.0, 1400.0, 1380.0, 1980.0, 1980.0]) * 1e6
    board = Samples(ends - 10, ends, {"sm_clock": clocks})
    stage = measuring.Stage(amount=1e12, seconds=2e-3, start_ns=200, end_ns=400)

    made = measuring.roofs_of(H200, measuring.Answer("torch", {"bf16": stage}), board)
    assert made.sm_clock_hz == {"bf16": 1390e6}

    unread = replace(stage, start_ns=301, end_ns=400)
    assert measuring.roofs_of(H200, measuring.Answer("torch", {"bf16": unread}), board).roofs == {}


def test_a_program_that_does_not_end_is_ended(
    perfzero: Perfzero, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "PATIENCE_S", -0.9)

    assert perfzero("--python", fake(body="time.sleep(60)"), "--seconds", "1") == 3


def test_a_gpu_divided_by_mig_is_refused(
    perfzero: Perfzero, fake: Fake, library: Library, board: type
) -> None:
    library.boards[0].mig_uuids = ("MIG-1",)
    library.boards.append(board(uuid="MIG-1", mig_sms=16, pids=(), utilization=0))

    assert perfzero("--python", fake()) == 3


def test_what_is_forgotten_is_gone(
    perfzero: Perfzero, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perfzero("--python", fake()) == 0
    assert perfzero("--forget", "--gpu", "GPU-other") == 0
    assert own_path().exists()

    assert perfzero("--forget", "--gpu", "0") == 0
    assert not own_path().exists()

    capsys.readouterr()
    assert perfzero("--show") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "perfzero calibrate" in err


def test_a_file_that_cannot_be_read_stops_the_work_before_it_begins(perfzero: Perfzero, fake: Fake) -> None:
    own_path().parent.mkdir(parents=True)
    own_path().write_text("{")

    assert perfzero("--python", fake(body="sys.exit('it was started')")) == 4
    assert perfzero("--show") == 4
    assert perfzero("--forget") == 0
    assert not own_path().exists()


@pytest.mark.parametrize("figure", ["null", "1e308"])
@pytest.mark.parametrize("arguments", [("--show",), ("--show", "--format", "json"), ()])
def test_a_file_with_an_impossible_figure_is_the_files_mistake_not_ours(
    perfzero: Perfzero,
    fake: Fake,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    figure: str,
) -> None:
    own_path().parent.mkdir(parents=True)
    text = document([replace(KEPT, roofs={"bf16": 0.125})]).decode()
    own_path().write_text(text.replace("0.125", figure))

    assert perfzero(*arguments, "--python", fake(body="sys.exit('it was started')")) == 4
    assert "perfzero calibrate --forget" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_said(
    perfzero: Perfzero, fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text("a file where the folder should be")

    assert perfzero("--python", fake()) == 1
    assert "XDG_CONFIG_HOME" in capsys.readouterr().err
