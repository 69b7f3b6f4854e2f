"""`perfzero doctor` on the terminal and as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from perfzero.cli import doctor
from perfzero.doctor.examine import Facts, FoundLibrary, GpuFacts, Holder, PmAnswer, Unlock
from perfzero.values import Gpu

LONG = "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/perfzero.conf"

GPU = GpuFacts(
    gpu=Gpu(index=0, uuid="GPU-aaaa", name="NVIDIA H200", compute_capability=(9, 0), sm_count=132),
    tier="gpm",
    reason="the driver keeps the hardware counters for administrators; NVML GPM gives averages",
    pm=PmAnswer(
        "denied", "The driver keeps the counters.\nRun as root", "GH100", "/opt/libcupti.so.13", 130001
    ),
    gpm=True,
    virtualization="none",
    processes=(4711,),
)
FACTS = Facts(
    gpus=(GPU,),
    no_gpu=None,
    driver="580.159.04",
    cuda_driver="13.0",
    libraries=(FoundLibrary("/opt/libcupti.so.13", "CUDA toolkit"),),
    admin_only=True,
    root=False,
    capabilities=(),
    sudo=False,
    holders=(Holder(812, "nv-hostengine", "DCGM"),),
    mps=True,
    container="docker",
    gvisor=False,
    wsl=False,
    unlocks=(Unlock("hardware counters without root", LONG, "then reboot"),),
)


def shown(facts: Facts, *, width: int = 80, colour: bool = False) -> str:
    stream = io.StringIO()
    system = "standard" if colour else None
    doctor.render(
        facts,
        Console(file=stream, width=width, highlight=False, force_terminal=colour, color_system=system),
    )
    return stream.getvalue()


def app() -> typer.Typer:
    application = typer.Typer()
    application.callback()(lambda: None)
    doctor.register(application)
    return application


def test_each_gpu_says_what_it_gets_and_why() -> None:
    text = shown(FACTS, width=120)

    for part in ("GPU 0  NVIDIA H200", "averages", "for administrators", "GH100", "132 SMs", "4711"):
        assert part in text


def test_the_machine_is_described_below() -> None:
    text = shown(FACTS, width=120)

    for part in (
        "580.159.04",
        "13.0",
        "this user is none",
        "DCGM (nv-hostengine, process 812)",
        "docker",
        "MPS",
    ):
        assert part in text


def test_a_line_to_be_copied_is_never_broken() -> None:
    assert f"  {LONG}\n" in shown(FACTS, width=40)


def test_everything_open_has_nothing_more_to_say() -> None:
    best = replace(GPU, tier="pm", pm=PmAnswer("ok", chip="GH100"), reason="hardware counters can be sampled")
    text = shown(replace(FACTS, gpus=(best,), unlocks=(), admin_only=False))

    assert "More:" not in text
    assert "everybody" in text


def test_no_gpu_is_said_first() -> None:
    text = shown(replace(FACTS, gpus=(), no_gpu="There is no NVIDIA driver here."), width=120)

    assert text.startswith("No NVIDIA GPU can be read here: There is no NVIDIA driver here.")


def test_hidden_processes_are_not_shown_as_none() -> None:
    assert "does not tell" in shown(replace(FACTS, gpus=(replace(GPU, processes=None),)))
    assert "does not tell" not in shown(FACTS)


def test_a_name_from_outside_cannot_steer_the_terminal() -> None:
    evil = replace(FACTS, holders=(Holder(1, "nsys\x1b[2J[red]", "Nsight Systems"),))

    assert "\x1b" not in shown(evil)
    assert "[red]" in shown(evil, width=120)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33m" in shown(FACTS, colour=True)

    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in shown(FACTS, colour=True)


def test_the_json_holds_every_fact_and_is_strict() -> None:
    data = json.loads(json.dumps(doctor.to_json(FACTS), allow_nan=False))

    assert data["gpus"][0]["tier"] == "gpm"
    assert data["gpus"][0]["gpu"]["power_limit_w"] is None
    assert data["permitted"] is False
    assert data["unlocks"][0]["command"] == LONG


def test_the_command_ends_with_0_on_any_machine() -> None:
    done = CliRunner().invoke(app(), ["doctor", "--quick", "--format", "json"])

    assert done.exit_code == 0
    data = json.loads(done.stdout)
    assert bool(data["gpus"]) == (data["no_gpu"] is None)


def test_the_text_of_this_machine_can_be_printed() -> None:
    done = CliRunner().invoke(app(), ["doctor", "--quick"])

    assert done.exit_code == 0
    assert "libcupti" in done.stdout


def test_an_unknown_format_is_refused() -> None:
    assert CliRunner().invoke(app(), ["doctor", "--format", "yaml"]).exit_code == 2
