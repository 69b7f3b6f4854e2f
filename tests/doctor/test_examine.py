"""What the doctor concludes, on machines of known state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from perfzero.doctor.examine import (
    GVISOR_VERSION,
    Facts,
    FoundLibrary,
    Holder,
    PmAnswer,
    choose_tier,
    examine,
    permitted,
)
from perfzero.doctor.machine import Machine, parse_answer
from perfzero.errors import NoGpu, SourceError
from perfzero.values import Gpu

GPU = Gpu(index=0, uuid="GPU-aaaa", name="NVIDIA H200", compute_capability=(9, 0), driver="580.159.04")
LIBRARY = FoundLibrary("/opt/cuda/libcupti.so.13", "CUDA toolkit")
OK = PmAnswer("ok", chip="GH100", library=LIBRARY.path, library_version=130001)
DENIED = PmAnswer("denied", "The driver keeps the hardware counters from this user.")
BUSY = PmAnswer("busy", "Another tool holds the hardware counters of this GPU.")

MODPROBE = "NVreg_RestrictProfilingToAdminUsers=0"


@dataclass
class Bench:
    """A machine that answers as it is told."""

    files: dict[str, str] = field(default_factory=dict)
    found: tuple[Gpu, ...] = (GPU,)
    answers: dict[bool, PmAnswer] = field(default_factory=lambda: {False: OK, True: OK})  # by sudo
    has_gpm: bool = True
    found_libraries: tuple[FoundLibrary, ...] = (LIBRARY,)
    running: tuple[tuple[int, str], ...] = ()
    root: bool = True
    sudo: bool = False
    virtual: str | None = "none"
    pids: tuple[int, ...] | None = (4711,)
    broken: bool = False
    tries: list[bool] = field(default_factory=list)

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        return path in self.files

    def is_root(self) -> bool:
        return self.root

    def sudo_works(self) -> bool:
        return self.sudo

    def processes(self) -> Sequence[tuple[int, str]]:
        return self.running

    def gpus(self) -> Sequence[Gpu]:
        if not self.found:
            raise NoGpu("There is no NVIDIA driver here.\nInstall it.")
        return self.found

    def cuda_version(self) -> str | None:
        return "13.0"

    def gpm(self, gpu: Gpu) -> bool:
        if self.broken:
            raise SourceError("The GPU no longer answers.")
        return self.has_gpm

    def virtualization(self, gpu: Gpu) -> str | None:
        return self.virtual

    def compute_pids(self, gpu: Gpu) -> Sequence[int] | None:
        return self.pids

    def libraries(self) -> Sequence[FoundLibrary]:
        return self.found_libraries

    def try_pm(self, gpu: Gpu, *, sudo: bool) -> PmAnswer:
        self.tries.append(sudo)
        return self.answers[sudo]


def params(admin_only: int) -> dict[str, str]:
    return {
        "/proc/driver/nvidia/params": f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {admin_only}\n"
    }


def denied(**state: object) -> Bench:
    return replace(Bench(root=False, answers={False: DENIED, True: DENIED}), **state)  # type: ignore[arg-type]


def commands(facts: Facts) -> str:
    return "\n".join(unlock.command for unlock in facts.unlocks)


def gains(facts: Facts) -> str:
    return "\n".join(unlock.gain for unlock in facts.unlocks)


def test_where_sampling_works_there_is_nothing_to_unlock() -> None:
    facts = examine(Bench(files=params(0)))

    assert [g.tier for g in facts.gpus] == ["pm"]
    assert facts.gpus[0].pm.chip == "GH100"
    assert (facts.driver, facts.cuda_driver, facts.no_gpu) == ("580.159.04", "13.0", None)
    assert facts.unlocks == ()


def test_without_a_gpu_there_is_a_reason_and_a_way_to_look_further() -> None:
    facts = examine(Bench(found=()))

    assert facts.gpus == ()
    assert facts.no_gpu == "There is no NVIDIA driver here."
    assert commands(facts) == "nvidia-smi"


def test_a_container_without_a_gpu_is_told_how_to_be_started() -> None:
    facts = examine(Bench(found=(), files={"/.dockerenv": ""}))

    assert facts.container == "docker"
    assert "--gpus all" in commands(facts)


def test_wsl_without_a_gpu_is_sent_to_the_driver_of_windows() -> None:
    facts = examine(Bench(found=(), files={"/proc/version": "Linux version 5.15.0-microsoft-standard-WSL2"}))

    assert facts.wsl
    assert "Windows" in gains(facts)


def test_where_the_driver_refuses_the_ways_are_sudo_and_the_module_option() -> None:
    facts = examine(denied(files=params(1)))

    assert (facts.gpus[0].tier, facts.admin_only, permitted(facts)) == ("gpm", True, False)
    assert "administrators" in facts.gpus[0].reason
    assert commands(facts).splitlines()[0] == "sudo perfzero run -- ..."
    assert MODPROBE in commands(facts)


def test_where_sudo_needs_no_password_the_sampler_alone_goes_through_it() -> None:
    machine = denied(sudo=True, files=params(1))
    machine.answers[True] = replace(OK, through_sudo=True)
    facts = examine(machine)

    assert machine.tries == [False, True]
    assert facts.gpus[0].tier == "pm"
    assert "sudo" in facts.gpus[0].reason
    assert facts.unlocks == ()


def test_a_refused_container_needs_a_capability_and_not_sudo() -> None:
    facts = examine(denied(root=True, files={"/.dockerenv": "", **params(1)}))

    assert "--cap-add SYS_ADMIN" in commands(facts)
    assert "sudo perfzero" not in commands(facts)


def test_a_refused_sandbox_is_named() -> None:
    facts = examine(denied(files={"/proc/version": GVISOR_VERSION + "\n"}))

    assert facts.gvisor
    assert "runsc" in commands(facts)
    assert MODPROBE not in commands(facts)


@pytest.mark.parametrize(
    ("effective", "names", "may"),
    [
        ("0000000000000000", (), False),
        ("000001ffffffffff", ("CAP_SYS_ADMIN", "CAP_PERFMON"), True),
        ("0000000000200000", ("CAP_SYS_ADMIN",), True),
        ("0000004000000000", ("CAP_PERFMON",), True),
        ("00000000a80425fb", (), False),  # what docker leaves to root
    ],
)
def test_capabilities_decide_where_counters_are_for_administrators(
    effective: str, names: tuple[str, ...], may: bool
) -> None:
    facts = examine(
        Bench(files={"/proc/self/status": f"Name:\tx\nCapEff:\t{effective}\n", **params(1)}), quick=True
    )

    assert facts.capabilities == names
    assert permitted(facts) is may


def test_what_the_driver_does_not_show_is_unknown_and_not_forbidden() -> None:
    facts = examine(Bench())

    assert facts.admin_only is None
    assert permitted(facts) is None


def test_a_busy_gpu_names_dcgm_and_how_to_pause_it() -> None:
    machine = Bench(answers={False: BUSY, True: BUSY}, running=((812, "nv-hostengine"), (1, "systemd")))
    facts = examine(machine)

    assert facts.holders == (Holder(812, "nv-hostengine", "DCGM"),)
    assert facts.gpus[0].tier == "gpm"
    assert commands(facts) == "dcgmi profile --pause"


def test_a_busy_gpu_names_nsight_and_does_not_pause_dcgm() -> None:
    facts = examine(Bench(answers={False: BUSY, True: BUSY}, running=((99, "nsys"),)))

    assert "Nsight Systems, process 99" in gains(facts)
    assert "dcgmi" not in commands(facts)


def test_a_holder_of_nothing_is_listed_but_nothing_is_unlocked() -> None:
    facts = examine(Bench(running=((812, "dcgm-exporter"),)))

    assert facts.holders[0].tool == "DCGM"
    assert facts.unlocks == ()


def test_a_missing_library_is_installed_by_the_extra() -> None:
    machine = Bench(answers={False: PmAnswer("no library", "No libcupti.")}, found_libraries=())
    facts = examine(machine)

    assert facts.gpus[0].tier == "gpm"
    assert "pip install 'perfzero[cupti]'" in commands(facts)


def test_a_divided_gpu_says_that_mig_is_the_reason() -> None:
    machine = Bench(found=(replace(GPU, mig=True),), has_gpm=False)
    machine.answers[False] = PmAnswer(
        "failed", "Hardware counters cannot be sampled: the GPU is partitioned by MIG."
    )
    facts = examine(machine)

    assert facts.gpus[0].tier == "nvml"
    assert "MIG" in facts.gpus[0].reason
    assert "MIG" in gains(facts)


def test_a_virtual_gpu_is_sent_to_the_hypervisor() -> None:
    facts = examine(denied(virtual="vgpu"))

    assert any("enable_profiling=1" in unlock.note for unlock in facts.unlocks)


def test_hidden_processes_in_a_container_are_explained() -> None:
    hidden = examine(Bench(files={"/.dockerenv": ""}, pids=()))
    shown = examine(Bench(files={"/.dockerenv": ""}, pids=(7,)))

    assert "--pid=host" in commands(hidden)
    assert shown.unlocks == ()


def test_mps_is_seen() -> None:
    assert examine(Bench(running=((5, "nvidia-cuda-mps-control"),))).mps
    assert not examine(Bench(running=((5, "nvidia-smi"),))).mps


def test_one_fact_that_fails_does_not_hide_the_others() -> None:
    facts = examine(Bench(broken=True))

    assert facts.gpus[0].gpm is False
    assert facts.gpus[0].tier == "pm"


def test_quick_tries_nothing_and_says_so() -> None:
    machine = Bench(files=params(1), root=False)
    facts = examine(machine, quick=True)

    assert machine.tries == []
    assert facts.gpus[0].pm.status == "not tried"
    assert "not tried" in facts.gpus[0].reason
    assert MODPROBE in commands(facts)


def test_several_gpus_are_each_examined() -> None:
    facts = examine(Bench(found=(GPU, replace(GPU, index=1, uuid="GPU-bbbb"))))

    assert [g.gpu.uuid for g in facts.gpus] == ["GPU-aaaa", "GPU-bbbb"]


@pytest.mark.parametrize(
    ("answer", "gpm", "tier"),
    [(OK, True, "pm"), (OK, False, "pm"), (BUSY, True, "gpm"), (DENIED, False, "nvml")],
)
def test_the_tier_is_the_closest_that_works(answer: PmAnswer, gpm: bool, tier: str) -> None:
    assert choose_tier(answer, gpm=gpm)[0] == tier


def test_a_try_that_died_is_a_failure_with_its_last_words() -> None:
    answer = parse_answer("", "Traceback\nSegmentation fault\n", -11, through_sudo=False)

    assert answer.status == "failed"
    assert "Segmentation fault" in answer.text


def test_a_try_that_ended_is_what_it_said() -> None:
    said = '{"status": "ok", "chip": "GH100", "library": "/x", "library_version": 130001}\n'

    assert parse_answer("noise\n" + said, "", 0, through_sudo=True) == PmAnswer(
        "ok", chip="GH100", library="/x", library_version=130001, through_sudo=True
    )


def test_this_machine_can_be_examined_whatever_it_is() -> None:
    facts = examine(Machine(), quick=True)

    assert (facts.no_gpu is None) == bool(facts.gpus)
    assert facts.root == Machine().is_root()


def test_the_try_runs_in_a_process_of_its_own_and_answers_for_a_gpu_that_is_not_there() -> None:
    answer = Machine().try_pm(replace(GPU, uuid="GPU-not-there"), sudo=False)

    assert answer.status in ("failed", "no library")
    assert "broke off" not in answer.text


@pytest.mark.device
def test_a_real_gpu_is_tried_and_left_free() -> None:
    first, second = examine(Machine()), examine(Machine())

    assert [g.pm.status for g in first.gpus] == [g.pm.status for g in second.gpus]
    assert all(g.pm.chip for g in first.gpus if g.pm.status == "ok")
