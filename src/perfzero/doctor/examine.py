"""
What can be read on this machine, why not more, and the line that unlocks it.

    Probe       the questions; `perfzero.doctor.machine` asks them of this machine
    examine()   asks everything once and draws the conclusions
    Facts       frozen: per GPU the tier it gets and the reason, and the Unlocks, most useful first

The only thing tried rather than looked up is PM sampling, since permission, a busy device and an
unfit library all show there and nowhere else. That costs a program on the GPU some ten
milliseconds, once (docs/measurements.md); `quick` leaves it out.

Who may read the counters: with RmProfilingAdminOnly 0 everybody, otherwise CAP_SYS_ADMIN, or on
newer drivers CAP_PERFMON (NVIDIA's open kernel modules, profiler_v2.c and os-interface.c).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from perfzero.errors import SourceError
from perfzero.values import Gpu, Tier
from perfzero.words.said import first_line, say

CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38}
"""The bits of CapEff that matter (linux/capability.h)."""

HOLDERS = {
    "dcgm": "DCGM", "nv-hostengine": "DCGM", "nsys": "Nsight Systems", "ncu": "Nsight Compute",
    "nv-nsight-cu": "Nsight Compute", "perfzero": "perfzero",
}  # fmt: skip
"""Beginnings of the names of programs that can hold the counters of a GPU."""

# gVisor answers /proc/version with this sentence, whatever kernel is below.
GVISOR_VERSION = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"

T = TypeVar("T")

PmStatus = Literal["ok", "busy", "denied", "no library", "unsupported", "failed", "not tried"]


@dataclass(frozen=True, slots=True)
class FoundLibrary:
    """A libcupti on this machine."""

    path: str
    origin: str


@dataclass(frozen=True, slots=True)
class PmAnswer:
    """How a try of PM sampling on one GPU went; `library` is the libcupti that was used."""

    status: PmStatus
    text: str = ""
    chip: str | None = None
    library: str | None = None
    library_version: int | None = None
    through_sudo: bool = False


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU: how closely it can be watched now, and why not closer. `processes` None: not told."""

    gpu: Gpu
    tier: Tier
    reason: str
    pm: PmAnswer
    gpm: bool
    virtualization: str | None
    processes: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A running program that may hold the counters."""

    pid: int
    name: str
    tool: str


@dataclass(frozen=True, slots=True)
class Unlock:
    """Something more that could be read, and the line to type for it; "" where no line helps."""

    gain: str
    command: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything `perfzero doctor` says. `no_gpu` is the reason, exactly when `gpus` is empty."""

    gpus: tuple[GpuFacts, ...]
    no_gpu: str | None
    driver: str | None
    cuda_driver: str | None
    libraries: tuple[FoundLibrary, ...]
    admin_only: bool | None  # RmProfilingAdminOnly; None: the driver does not show it here
    root: bool
    capabilities: tuple[str, ...]
    sudo: bool
    holders: tuple[Holder, ...]
    mps: bool
    container: str | None
    gvisor: bool
    wsl: bool
    unlocks: tuple[Unlock, ...] = ()


class Probe(Protocol):
    """The machine as `examine` asks it."""

    def read(self, path: str) -> str | None:
        """The content of a text file, or None where there is none for this user."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        ...

    def is_root(self) -> bool:
        """Whether this process runs as root."""
        ...

    def sudo_works(self) -> bool:
        """Whether `sudo -n` works, that is, without a password."""
        ...

    def processes(self) -> Sequence[tuple[int, str]]:
        """PID and name of everything that runs, but this program itself."""
        ...

    def gpus(self) -> Sequence[Gpu]:
        """The GPUs; raises `SourceError` with the reason where there is none."""
        ...

    def cuda_version(self) -> str | None:
        """The CUDA version of the driver."""
        ...

    def gpm(self, gpu: Gpu) -> bool:
        """Whether *gpu* offers GPM."""
        ...

    def virtualization(self, gpu: Gpu) -> str | None:
        """How *gpu* is virtualised, as `perfzero.sources.nvml.virtualization` says it."""
        ...

    def compute_pids(self, gpu: Gpu) -> Sequence[int] | None:
        """The processes with a context on *gpu*."""
        ...

    def libraries(self) -> Sequence[FoundLibrary]:
        """Every libcupti here, best first."""
        ...

    def try_pm(self, gpu: Gpu, *, sudo: bool) -> PmAnswer:
        """Open and close a session of PM sampling on *gpu*."""
        ...


def examine(machine: Probe, *, quick: bool = False) -> Facts:
    """
    Ask the machine everything once. Raises nothing: a machine without a GPU is a fact too.

    *quick*: do not try PM sampling, only look.
    """
    root = machine.is_root()
    sudo = not root and machine.sudo_works()
    names = list(machine.processes())
    container, gvisor = _container(machine), _gvisor(machine)
    gpus, no_gpu = _gpus(machine)
    watched = tuple(_examine_gpu(machine, gpu, sudo=sudo, quick=quick) for gpu in gpus)
    params = machine.read("/proc/driver/nvidia/params")
    without = Facts(
        gpus=watched,
        no_gpu=no_gpu,
        driver=gpus[0].driver if gpus else None,
        cuda_driver=machine.cuda_version() if gpus else None,
        libraries=tuple(machine.libraries()),
        admin_only=_admin_only(params),
        root=root,
        capabilities=_capabilities(machine.read("/proc/self/status")),
        sudo=sudo,
        holders=_holders(names),
        mps=any(name.startswith("nvidia-cuda-mps") for _, name in names),
        container=container,
        gvisor=gvisor,
        wsl="microsoft" in (machine.read("/proc/version") or "").lower(),
    )
    return replace(without, unlocks=tuple(find_unlocks(without)))


def permitted(facts: Facts) -> bool | None:
    """Whether this user may read hardware counters, by what the driver shows; None where it shows nothing."""
    if facts.admin_only is False or facts.capabilities:
        return True
    return None if facts.admin_only is None else False


def find_unlocks(facts: Facts) -> list[Unlock]:
    """What would let perfzero read more here, most useful first."""
    found: list[Unlock] = []
    if not facts.gpus:
        found.append(_see_the_gpu(facts))
    answers = {g.pm.status for g in facts.gpus if g.tier != "pm"}
    if "no library" in answers or (facts.gpus and not facts.libraries):
        found.append(
            Unlock(
                say("unlock.libcupti"),
                "pip install 'perfzero[cupti]'",
                say("unlock.libcupti_note"),
            )
        )
    if "denied" in answers or ("not tried" in answers and permitted(facts) is False):
        found += _permission(facts)
    if "busy" in answers:
        found += _free_the_counters(facts)
    if any(g.gpu.mig for g in facts.gpus):
        found.append(
            Unlock(
                say("unlock.mig"),
                "",
                say("unlock.mig_note"),
            )
        )
    if any(g.virtualization == "vgpu" for g in facts.gpus):
        found.append(
            Unlock(
                say("unlock.vgpu"),
                "",
                say("unlock.vgpu_note"),
            )
        )
    if facts.container and facts.gpus and all(not g.processes for g in facts.gpus):
        found.append(
            Unlock(
                say("unlock.processes"),
                "docker run --pid=host ...",
            )
        )
    return found


def _see_the_gpu(facts: Facts) -> Unlock:
    if facts.wsl:
        return Unlock(say("unlock.wsl"), "wsl --update")
    if facts.container:
        return Unlock(
            say("unlock.container"),
            "docker run --gpus all --cap-add SYS_ADMIN --pid=host ...",
        )
    return Unlock(say("unlock.driver"), "nvidia-smi", say("unlock.driver_note"))


def _permission(facts: Facts) -> list[Unlock]:
    what = say("unlock.admins")
    if facts.gvisor:
        return [
            Unlock(
                say("unlock.gvisor"),
                "runsc --nvproxy --nvproxy-allowed-driver-capabilities=all ...",
                say("unlock.gvisor_note"),
            )
        ]
    if facts.container:
        return [
            Unlock(
                what,
                "docker run --cap-add SYS_ADMIN ...",
                say("unlock.perfmon"),
            ),
            _for_good(say("unlock.on_host")),
        ]
    if facts.root:  # root without the capability, or a driver that says no for another reason
        return [_for_good(say("unlock.for_all"))]
    return [
        Unlock(what, "sudo perfzero run -- ...", say("unlock.this_run")),
        _for_good(say("unlock.for_all")),
    ]


def _for_good(whom: str) -> Unlock:
    return Unlock(
        say("unlock.for_good", whom=whom),
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0'"
        " | sudo tee /etc/modprobe.d/perfzero.conf",
        say("unlock.for_good_note"),
    )


def _free_the_counters(facts: Facts) -> list[Unlock]:
    what = say("unlock.busy")
    found = []
    tools = {h.tool for h in facts.holders}
    if "DCGM" in tools:
        found.append(Unlock(say("unlock.dcgm", what=what), "dcgmi profile --pause", say("unlock.dcgm_note")))
    for holder in facts.holders:
        if holder.tool != "DCGM":
            found.append(
                Unlock(
                    say("unlock.perhaps", what=what, tool=holder.tool, pid=holder.pid), "", say("unlock.wait")
                )
            )
    if not found:
        found.append(Unlock(what, "dcgmi profile --pause", say("unlock.dcgm_outside")))
    return found


def _examine_gpu(machine: Probe, gpu: Gpu, *, sudo: bool, quick: bool) -> GpuFacts:
    answer = PmAnswer("not tried") if quick else _try_pm(machine, gpu, sudo=sudo)
    gpm = _asked(lambda: machine.gpm(gpu), default=False)
    pids = _asked(lambda: machine.compute_pids(gpu), default=None)
    tier, reason = choose_tier(answer, gpm=gpm)
    return GpuFacts(
        gpu=gpu,
        tier=tier,
        reason=reason,
        pm=answer,
        gpm=gpm,
        virtualization=_asked(lambda: machine.virtualization(gpu), default=None),
        processes=None if pids is None else tuple(pids),
    )


def choose_tier(pm: PmAnswer, *, gpm: bool) -> tuple[Tier, str]:
    """How closely a GPU can be watched now, and why (not closer)."""
    if pm.status == "ok":
        how = say("doctor.through_sudo") if pm.through_sudo else say("doctor.can")
        return "pm", how
    why = {
        "busy": say("doctor.busy"),
        "denied": say("doctor.denied"),
        "no library": say("doctor.no_usable"),
        "not tried": say("doctor.untried"),
    }.get(pm.status, first_line(pm.text) if pm.text else say("doctor.cannot"))
    if gpm:
        return "gpm", say("doctor.averages_only", why=why)
    return "nvml", say("doctor.no_gpm_either", why=why)


def _try_pm(machine: Probe, gpu: Gpu, *, sudo: bool) -> PmAnswer:
    answer = machine.try_pm(gpu, sudo=False)
    if answer.status != "denied" or not sudo:
        return answer
    again = machine.try_pm(gpu, sudo=True)
    return again if again.status != "failed" else answer


def _gpus(machine: Probe) -> tuple[tuple[Gpu, ...], str | None]:
    try:
        gpus = tuple(machine.gpus())
    except SourceError as error:
        return (), first_line(error.sentence)
    return gpus, None if gpus else say("doctor.shows_none")


def _asked(ask: Callable[[], T], *, default: T) -> T:
    """An answer, or *default* where it fails: one missing fact must not hide the others."""
    try:
        return ask()
    except SourceError:
        return default


def _admin_only(params: str | None) -> bool | None:
    for line in (params or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "RmProfilingAdminOnly":
            return value.strip() != "0"
    return None


def _capabilities(status: str | None) -> tuple[str, ...]:
    for line in (status or "").splitlines():
        if line.startswith("CapEff:"):
            bits = int(line.split()[1], 16)
            return tuple(name for name, bit in CAPABILITIES.items() if bits >> bit & 1)
    return ()


def _holders(names: Sequence[tuple[int, str]]) -> tuple[Holder, ...]:
    return tuple(
        Holder(pid, name, tool)
        for pid, name in names
        for tool in [next((t for beginning, t in HOLDERS.items() if name.startswith(beginning)), None)]
        if tool is not None
    )


def _container(machine: Probe) -> str | None:
    if machine.exists("/.dockerenv"):
        return "docker"
    if machine.exists("/run/.containerenv"):
        return "podman"
    entry = machine.read("/proc/1/cgroup") or ""
    return next((kind for kind in ("kubepods", "docker", "containerd", "lxc") if kind in entry), None)


def _gvisor(machine: Probe) -> bool:
    return (machine.read("/proc/version") or "").startswith(GVISOR_VERSION)
