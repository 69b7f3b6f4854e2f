"""
This machine, as the doctor asks it: files, processes, NVML, and one try of PM sampling per GPU.

The try opens a session and closes it at once, in a process of its own: leaving PM sampling
finalises CUPTI in its process, and a crash in the library must not take the other facts along.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

import perfzero
from perfzero.doctor.examine import FoundLibrary, PmAnswer, PmStatus
from perfzero.errors import DeviceBusy, NoLibrary, NotPermitted, NotSupported, SourceError
from perfzero.values import Gpu
from perfzero.words.said import say

PROBE_S = 30.0
"""How long one try of PM sampling may take (half a second on an H200) before it is given up."""


class Machine:
    """This machine."""

    def read(self, path: str) -> str | None:
        """The content of a text file, or None where there is none for this user."""
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return os.path.exists(path)

    def is_root(self) -> bool:
        """Whether this process runs as root."""
        return os.geteuid() == 0

    def sudo_works(self) -> bool:
        """Whether `sudo -n true` succeeds."""
        try:
            done = subprocess.run(
                ["sudo", "-n", "true"], capture_output=True, stdin=subprocess.DEVNULL, timeout=5, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def processes(self) -> list[tuple[int, str]]:
        """PID and name of everything that runs, but this process and those that started it."""
        own = {os.getpid(), *(p.pid for p in psutil.Process().parents())}
        listed = psutil.process_iter(["name"])
        return [(p.pid, p.info["name"] or "") for p in listed if p.pid not in own]

    def gpus(self) -> list[Gpu]:
        """The GPUs that NVML shows."""
        from perfzero.sources import nvml

        return nvml.discover()

    def cuda_version(self) -> str | None:
        """The CUDA version of the driver, from NVML."""
        from perfzero.sources import nvml

        return nvml.cuda_driver_version()

    def gpm(self, gpu: Gpu) -> bool:
        """Whether *gpu* offers GPM, from NVML."""
        from perfzero.sources import gpm

        return gpm.supported(gpu)

    def virtualization(self, gpu: Gpu) -> str | None:
        """How *gpu* is virtualised, from NVML."""
        from perfzero.sources import nvml

        return nvml.virtualization(gpu)

    def compute_pids(self, gpu: Gpu) -> list[int] | None:
        """The processes with a context on *gpu*, from NVML."""
        from perfzero.sources import nvml

        return nvml.processes(gpu)

    def libraries(self) -> list[FoundLibrary]:
        """Every libcupti that perfzero would consider."""
        from perfzero.sources import cupti

        return [FoundLibrary(str(found.path), found.origin) for found in cupti.find_libraries()]

    def try_pm(self, gpu: Gpu, *, sudo: bool) -> PmAnswer:
        """Try PM sampling in a process of its own, so that a crash in the library stays there."""
        package = str(Path(perfzero.__file__).parent.parent)
        code = (
            f"import sys; sys.path.insert(0, {package!r}); "
            "from perfzero.doctor.machine import try_here; sys.exit(try_here(sys.argv[1]))"
        )
        command = [*(["sudo", "-n"] if sudo else []), sys.executable, "-I", "-c", code, gpu.uuid]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=PROBE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return PmAnswer("failed", say("doctor.try_no_end", name=type(error).__name__))
        return parse_answer(done.stdout, done.stderr, done.returncode, through_sudo=sudo)


def parse_answer(stdout: str, stderr: str, code: int, *, through_sudo: bool) -> PmAnswer:
    """What the process of `try_here` said; a process that died says so with its last words."""
    try:
        said = json.loads(stdout.splitlines()[-1])
        return PmAnswer(**said, through_sudo=through_sudo)
    except (IndexError, ValueError, TypeError):
        last = stderr.strip().splitlines()[-1:] or [say("exit_code", code=code)]
        return PmAnswer("failed", say("doctor.try_broke_off", last=last[0]))


def try_here(uuid: str) -> int:
    """Try PM sampling in this process and print the `PmAnswer` as a line of JSON. Returns 0."""
    from perfzero.sources import cupti
    from perfzero.sources._libcupti import CuptiError

    answer: dict[str, object] = {}
    try:
        device = cupti.CuptiDevice(uuid)
        answer = {
            "chip": device.chip,
            "library": device.library_path,
            "library_version": device.library_version,
        }
        device.enable()
        device.disable()
        answer["status"] = "ok"
    except (CuptiError, SourceError) as error:
        reason = error if isinstance(error, SourceError) else cupti.explain(error)
        answer |= {"status": _status(reason), "text": str(reason)}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _status(error: SourceError) -> PmStatus:
    if isinstance(error, DeviceBusy):
        return "busy"
    if isinstance(error, NotPermitted):
        return "denied"
    if isinstance(error, NoLibrary):
        return "no library"
    return "unsupported" if isinstance(error, NotSupported) else "failed"
