"""
What /proc and the cgroup tell about a process and psutil does not.

Formats: proc(5), Documentation/scheduler/sched-stats.rst and Documentation/admin-guide/cgroup-v2.rst
of the kernel. A process may end between any two lines here: that is None (or an empty answer),
never an error. A file that this user may not read is `PermissionError`.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

ENDED = frozenset("ZX")  # zombie and dead: only the exit code is left

_GONE = (FileNotFoundError, ProcessLookupError, NotADirectoryError)
_CHUNK = 1 << 16  # /proc hands out a whole small file in one read


@dataclass(frozen=True, slots=True)
class Stat:
    """One line of /proc/PID/stat. Times in seconds; `disk_wait_s` is that of the main thread alone."""

    state: str
    parent: int
    major_faults: int
    cpu_s: float
    started: int  # clock ticks after boot: together with the PID the identity of a process
    disk_wait_s: float


def read(path: str | Path) -> bytes | None:
    """The content of a small file, or None where it is gone. Raises `PermissionError`."""
    try:
        # os.open without a Python file object around it: this is done hundreds of times a second.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except _GONE:
        return None
    try:
        return os.read(descriptor, _CHUNK)
    except _GONE:
        return None
    finally:
        os.close(descriptor)


def parse_stat(line: bytes, *, ticks_per_s: float) -> Stat:
    """The fields of a line of /proc/PID/stat. The command in it may hold blanks and parentheses."""
    fields = line[line.rindex(b")") + 2 :].split()  # fields[0] is number 3 of proc(5)
    return Stat(
        state=fields[0].decode(),
        parent=int(fields[1]),
        major_faults=int(fields[9]),
        cpu_s=(int(fields[11]) + int(fields[12])) / ticks_per_s,
        started=int(fields[19]),
        disk_wait_s=int(fields[39]) / ticks_per_s,
    )


def stat(pid: int) -> Stat | None:
    """The state of a process now; None when it has ended or is hidden from this user."""
    try:
        line = read(f"{PROC}/{pid}/stat")
    except PermissionError:
        return None  # /proc mounted with hidepid
    return parse_stat(line, ticks_per_s=os.sysconf("SC_CLK_TCK")) if line else None


def run_and_wait(pid: int) -> tuple[float, float] | None:
    """Seconds the main thread ran, and waited for a core, so far; None where the kernel keeps no count."""
    return _schedstat(f"{PROC}/{pid}/schedstat")


def thread_run_times(pid: int) -> dict[int, float] | None:
    """
    Seconds each thread ran, by thread id; None where the process or the kernel's record is missing.

    Read from schedstat, not from stat: it counts nanoseconds instead of ticks of 10 ms, and
    the kernel makes it up without locking the process.
    """
    folder = f"{PROC}/{pid}/task"
    try:
        threads = os.listdir(folder)
    except (*_GONE, PermissionError):
        return None
    times = {int(t): _schedstat(f"{folder}/{t}/schedstat") for t in threads}
    return {t: time[0] for t, time in times.items() if time is not None} or None


def swapped_bytes(pid: int) -> float | None:
    """
    Bytes of the process in swap, None where it has no memory of its own.

    psutil would read smaps for this, which walks the page tables of the observed process
    and holds its memory lock meanwhile.
    """
    content = read(f"{PROC}/{pid}/status")
    _, found, rest = (content or b"").partition(b"\nVmSwap:")
    return float(rest.split(None, 1)[0]) * 1024 if found else None


def tracer(pid: int) -> int | None:
    """The process that traces *pid* as a debugger does (ptrace), None where there is none or it is hidden."""
    try:
        content = read(f"{PROC}/{pid}/status")
    except PermissionError:
        return None
    _, found, rest = (content or b"").partition(b"\nTracerPid:")
    number = int(rest.split(None, 1)[0]) if found else 0
    return number or None


def name(pid: int) -> str:
    """The kernel's name for the process, 15 letters at most; empty where it is gone or hidden."""
    try:
        return (read(f"{PROC}/{pid}/comm") or b"").decode(errors="replace").rstrip("\n")
    except PermissionError:
        return ""


def arguments(pid: int) -> tuple[str, ...]:
    """The process's command line; empty where it is gone or hidden."""
    try:
        content = read(f"{PROC}/{pid}/cmdline") or b""
    except PermissionError:
        return ()
    return tuple(a.decode(errors="replace") for a in content.rstrip(b"\0").split(b"\0")) if content else ()


def swap_is_used() -> bool:
    """Whether the machine has anything in swap at all; if not, nobody has to be asked for his share."""
    try:
        table = read(PROC / "swaps")
    except PermissionError:
        return True
    if table is None:
        return True
    return any(
        int(line.split()[3]) > 0 for line in table.splitlines()[1:]
    )  # file, type, size, used, priority


def disk_wait_is_counted() -> bool:
    """Whether the kernel counts the time blocked on disks: off by default from 5.14 on, always on before."""
    try:
        switch = read(PROC / "sys/kernel/task_delayacct")
    except PermissionError:
        return False
    return switch is None or switch.strip() == b"1"


def holds_gpu(pid: int) -> bool:
    """Whether the process has a GPU's device file open, as every process with a CUDA context has."""
    folder = f"{PROC}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:  # gone, or another user's
        return False
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        device = target.removeprefix("/dev/nvidia")
        if device != target and (device.isdigit() or device == "-uvm"):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Throttle:
    """
    How often the CPU quota of a cgroup, or of one around it, stopped the processes in it.

    `files` are the cpu.stat files from the cgroup up to the root; any of them may carry the quota.
    """

    files: tuple[Path, ...]

    @staticmethod
    def of(pid: int, *, cgroups: Path = CGROUPS) -> Throttle:
        """The quotas that hold for the process now. No file at all: the cgroup is out of sight."""
        try:
            content = read(f"{PROC}/{pid}/cgroup") or b""
        except PermissionError:
            content = b""
        return Throttle(tuple(f for f in _cpu_stat_files(content.decode(), cgroups) if f.is_file()))

    def counts(self) -> tuple[tuple[int, int], ...] | None:
        """(enforcement periods, throttled ones) so far per file; None where nothing can be read."""
        counts = []
        for file in self.files:
            try:
                content = read(file)
            except PermissionError:
                content = None
            if content is None:
                return None
            pairs = dict(line.split(None, 1) for line in content.decode().splitlines() if " " in line)
            # Without a quota version 2 leaves these lines out: nothing can hold the processes back.
            counts.append((int(pairs.get("nr_periods", 0)), int(pairs.get("nr_throttled", 0))))
        return tuple(counts) or None


def memory_left(pid: int | str = "self", *, cgroups: Path = CGROUPS) -> float:
    """
    Bytes that the cgroups of a process leave it, page cache that can be dropped included; infinite without.

    Version 2 only: under version 1 what the machine has left is all that is known.
    """
    try:
        content = read(f"{PROC}/{pid}/cgroup") or b""
    except PermissionError:
        return math.inf
    line = next((li for li in content.decode().splitlines() if li.startswith("0::")), "")
    path = PurePosixPath(line.removeprefix("0::").lstrip("/"))
    left = math.inf
    for step in (path, *path.parents) if line else ():
        most, used = (_number_in(cgroups / step / name) for name in ("memory.max", "memory.current"))
        stat = _text_in(cgroups / step / "memory.stat")
        droppable = sum(float(li.split()[1]) for li in stat.splitlines() if li.startswith("inactive_file "))
        if math.isfinite(most) and math.isfinite(used):
            left = min(left, max(0.0, most - used + droppable))
    return left


def _text_in(file: Path) -> str:
    try:
        return (read(file) or b"").decode()
    except PermissionError:
        return ""


def _number_in(file: Path) -> float:
    """The number in a file of one; infinite where it is "max", or nothing can be read."""
    text = _text_in(file).strip()
    return float(text) if text.isdecimal() else math.inf


def throttled_share(
    before: tuple[tuple[int, int], ...] | None, now: tuple[tuple[int, int], ...] | None
) -> float:
    """
    Share of enforcement periods that ended in a stop, the worst of all levels; NaN where unknown.

    Counted in periods and not by `throttled_usec`, which adds up over cores and exceeds the time.
    """
    if before is None or now is None or len(before) != len(now):
        return float("nan")
    shares = [(n[1] - b[1]) / (n[0] - b[0]) if n[0] > b[0] else 0.0 for b, n in zip(before, now, strict=True)]
    return max(shares)


def _schedstat(path: str) -> tuple[float, float] | None:
    try:
        content = read(path)
    except PermissionError:
        return None
    if not content:
        return None
    run_ns, wait_ns, _ = content.split()
    return int(run_ns) / 1e9, int(wait_ns) / 1e9


def _cpu_stat_files(content: str, cgroups: Path) -> list[Path]:
    lines = [line.split(":", 2) for line in content.splitlines() if line.count(":") >= 2]
    version_1 = next((li for li in lines if "cpu" in li[1].split(",")), None)
    version_2 = next((li for li in lines if li[0] == "0"), None)
    if version_1 is not None:
        mounts, inside = [cgroups / version_1[1], cgroups / "cpu"], version_1[2]
    elif version_2 is not None:
        mounts, inside = [cgroups], version_2[2]
    else:
        return []
    mount = next((m for m in mounts if m.is_dir()), mounts[0])
    # In a container the path is often that of the host and does not exist below the mount; the
    # mount itself is then the container's own cgroup, and always the last of these.
    path = PurePosixPath(inside.lstrip("/"))
    return [mount / step / "cpu.stat" for step in (path, *path.parents)]
