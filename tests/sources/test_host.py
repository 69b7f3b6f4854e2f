"""The observed process tree, on real processes; what no machine does on demand is put in below it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from perfzero.counters import HOST_COUNTERS
from perfzero.errors import SourceError
from perfzero.sources import _proc
from perfzero.sources.host import Host
from perfzero.values import Samples

MACHINE = {"host_net_bytes", "host_cpu_busy"}

BURN = "while True: pass"
SLEEP = "import time; time.sleep(60)"

Start = Callable[..., "subprocess.Popen[str]"]


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def tree(*children: str, then: str = SLEEP) -> list[str]:
    """A command that starts one Python per code in *children*, prints their PIDs, then does *then*."""
    return python(
        "import subprocess, sys\n"
        f"for code in {children!r}:\n"
        "    print(subprocess.Popen([sys.executable, '-S', '-c', code]).pid, flush=True)\n"
        f"print('ready', flush=True)\n{then}"
    )


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program and waits for its "ready"; ends it and all it started at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(command: list[str], *, ready: bool = True) -> subprocess.Popen[str]:
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(program)
        program.said = []  # type: ignore[attr-defined]
        while ready and program.stdout is not None:
            line = program.stdout.readline().strip()
            if line in ("ready", ""):
                break
            program.said.append(line)  # type: ignore[attr-defined]
        return program

    yield begin
    for program in started:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, 9)
        program.wait()
        for stream in (program.stdout, program.stdin):
            if stream is not None:
                stream.close()


def children(program: subprocess.Popen[str]) -> list[int]:
    return [int(line) for line in program.said]  # type: ignore[attr-defined]


def only(samples: Samples, name: str) -> float:
    assert len(samples) == 1
    return float(samples.columns[name][0])


def watch(host: Host, seconds: float = 0.4) -> Samples:
    """One row over *seconds*."""
    host.read()
    time.sleep(seconds)
    return host.read()


def opened(pid: int | None) -> Host:
    host = Host(pid)
    host.open()
    return host


def until(condition: Callable[[], bool], *, patience_s: float = 10) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_cpu_use_agrees_with_what_the_process_used(start: Start) -> None:
    program = start(python(BURN), ready=False)
    host = opened(program.pid)
    host.read()
    before = sum(psutil.Process(program.pid).cpu_times()[:2])
    time.sleep(0.6)
    row = host.read()
    used_s = sum(psutil.Process(program.pid).cpu_times()[:2]) - before
    host.close()

    assert only(row, "host_tree_cpu") * row.duration_s[0] == pytest.approx(used_s, abs=0.08)
    assert only(row, "host_main_cpu") * row.duration_s[0] == pytest.approx(used_s, abs=0.08)
    assert only(row, "host_processes") == 1


def test_a_sleeping_tree_uses_nothing_and_waits_for_nothing(start: Start) -> None:
    program = start(tree(SLEEP, SLEEP))
    host = opened(program.pid)
    time.sleep(0.3)  # its interpreters finish starting
    row = watch(host)
    host.close()

    assert only(row, "host_processes") == 3
    assert only(row, "host_tree_cpu") < 0.05
    assert only(row, "host_workers") == 0
    assert math.isnan(only(row, "host_worker_cpu"))  # the mean of nobody
    assert only(row, "host_runqueue_wait") == 0


def test_a_row_has_every_column_of_the_vocabulary_and_meets_the_next(start: Start) -> None:
    program = start(tree())
    host = opened(program.pid)
    first, second = host.read(), host.read()
    host.close()

    assert set(first.columns) == {c.name for c in HOST_COUNTERS}
    assert first.end_ns[0] == second.start_ns[0]


def test_workers_are_the_descendants_that_use_cpu(start: Start) -> None:
    program = start(tree(BURN, SLEEP, BURN))
    host = opened(program.pid)
    host.gpu_pids = frozenset({program.pid})
    host.read()
    row = watch(host, 0.8)
    host.close()

    assert host.main_pid is None  # closed
    assert only(row, "host_workers") == 2
    assert only(row, "host_worker_cpu") == pytest.approx(only(row, "host_tree_cpu") / 2, abs=0.06)
    assert only(row, "host_main_cpu") < 0.05  # it waits for them


def test_the_busiest_thread_is_told_from_the_process(start: Start) -> None:
    code = (
        "import hashlib, threading\n"
        "block = bytes(1 << 22)\n"
        "def work():\n"
        "    while True: hashlib.sha256(block).digest()\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "print('ready', flush=True)\nwork()"
    )
    host = opened(start(python(code)).pid)
    row = watch(host, 0.8)
    host.close()

    assert 0 < only(row, "host_main_cpu") < 0.8 * only(row, "host_tree_cpu")


def test_a_child_started_later_joins_and_its_use_counts_from_its_beginning(start: Start) -> None:
    spawn = (
        "sys.stdin.readline()\n"
        "done = subprocess.Popen([sys.executable, '-S', '-c', "
        "'import time\\nend = time.process_time() + 0.2\\nwhile time.process_time() < end: pass\\n"
        'print("burnt", flush=True); time.sleep(60)\'])\n' + SLEEP
    )
    program = start(tree(then=spawn))
    host = opened(program.pid)
    host.gpu_pids = frozenset({program.pid})
    host.read()
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("go\n")
    program.stdin.flush()
    assert program.stdout.readline() == "burnt\n"
    row = host.read()
    host.close()

    assert only(row, "host_processes") == 2
    assert only(row, "host_tree_cpu") * row.duration_s[0] >= 0.17  # of 0.2, in ticks of 10 ms


def test_an_orphan_stays_in_the_tree(start: Start) -> None:
    middle = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {SLEEP!r}]); sys.stdin.read()"
    )
    program = start(tree(middle))
    (parent,) = children(program)
    host = opened(program.pid)
    until(lambda: len(host.pids()) == 3)
    orphan = next(iter(host.pids() - {program.pid, parent}))
    os.kill(parent, 9)
    until(lambda: psutil.Process(orphan).ppid() not in (parent, program.pid))
    row = host.read()
    pids = host.pids()
    host.close()

    assert only(row, "host_processes") == 2
    assert pids == {program.pid, orphan}


def test_strangers_do_not_join(start: Start) -> None:
    host = opened(start(tree()).pid)
    stranger = start(tree())
    row = host.read()
    pids = host.pids()
    host.close()

    assert only(row, "host_processes") == 1
    assert stranger.pid not in pids


def test_a_tree_that_has_ended_is_missing_but_for_its_number_of_processes(start: Start) -> None:
    program = start(tree(SLEEP))
    host = opened(program.pid)
    os.killpg(program.pid, 9)
    program.wait()
    until(lambda: only(host.read(), "host_processes") == 0)
    row = host.read()
    host.close()

    for name in set(row.columns) - MACHINE - {"host_processes"}:
        assert math.isnan(only(row, name)), name


def test_a_pid_that_went_to_another_process_is_not_taken_for_the_old_one(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start(tree(SLEEP))
    (child,) = children(program)
    host = opened(program.pid)
    real = _proc.stat

    def reused(pid: int) -> _proc.Stat | None:
        found = real(pid)
        return replace(found, started=found.started + 1, parent=1) if found and pid == child else found

    monkeypatch.setattr(_proc, "stat", reused)
    first, second = host.read(), host.read()
    pids = host.pids()
    host.close()

    assert (only(first, "host_processes"), only(second, "host_processes")) == (1, 1)
    assert pids == {program.pid}


def test_disk_bytes_are_those_moved_since_the_last_reading(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = iter([(100, 10), (150, 30), (150, 30)])

    def io_counters(process: Any) -> Any:
        return _Moved(*next(moved))

    monkeypatch.setattr(psutil.Process, "io_counters", io_counters)
    host = opened(start(tree()).pid)
    first, second = host.read(), host.read()
    host.close()

    assert (only(first, "host_disk_read_bytes"), only(first, "host_disk_write_bytes")) == (50, 20)
    assert (only(second, "host_disk_read_bytes"), only(second, "host_disk_write_bytes")) == (0, 0)


def test_what_one_process_hides_is_missing_and_not_zero(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start(tree(SLEEP))
    (hidden,) = children(program)
    real = psutil.Process.io_counters

    def io_counters(process: Any) -> Any:
        if process.pid == hidden:
            raise psutil.AccessDenied(process.pid)
        return real(process)

    monkeypatch.setattr(psutil.Process, "io_counters", io_counters)
    host = opened(program.pid)
    row = host.read()
    host.close()

    assert math.isnan(only(row, "host_disk_read_bytes"))
    assert math.isnan(only(row, "host_disk_write_bytes"))
    assert only(row, "host_processes") == 2
    assert not math.isnan(only(row, "host_tree_cpu"))


def test_processes_that_share_one_core_wait_for_it(start: Start) -> None:
    core = min(os.sched_getaffinity(0))
    burn = f"import os; os.sched_setaffinity(0, {{{core}}})\n{BURN}"
    host = opened(start(tree(burn, burn, burn)).pid)
    time.sleep(0.3)
    row = watch(host, 1.0)
    host.close()

    # Three on one core: each waits two thirds of the time, longer where others use it too.
    assert 0.5 < only(row, "host_runqueue_wait") <= 1.05


def test_time_blocked_on_a_disk_is_taken_from_the_kernel_where_it_counts(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = blocked_host(start, monkeypatch, counted=True, state="S", rate=0.5)
    row = watch(host)
    host.close()

    assert only(row, "host_io_wait") == pytest.approx(0.5, abs=0.05)


def test_time_blocked_on_a_disk_is_estimated_from_the_state_where_it_is_not_counted(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = blocked_host(start, monkeypatch, counted=False, state="D", rate=0.0)
    row = watch(host)
    host.close()

    assert only(row, "host_io_wait") == 1


def test_a_kernel_that_keeps_no_account_has_no_waits(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_proc, "run_and_wait", lambda pid: None)
    host = opened(start(tree()).pid)
    row = host.read()
    host.close()

    assert math.isnan(only(row, "host_runqueue_wait"))
    assert math.isnan(only(row, "host_io_wait"))


def test_threads_are_read_in_ticks_where_there_is_no_schedstat(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_proc, "thread_run_times", lambda pid: None)
    host = opened(start(python(BURN), ready=False).pid)
    row = watch(host, 0.6)
    host.close()

    assert only(row, "host_main_cpu") == pytest.approx(only(row, "host_tree_cpu"), abs=0.1)


def test_a_launcher_is_not_the_main_process(start: Start) -> None:
    program = start(["sh", "-c", f"{sys.executable} -S -c \"print('ready', flush=True); {SLEEP}\"; true"])
    host = opened(program.pid)
    main = host.main_pid
    (child,) = host.pids() - {program.pid}
    host.close()

    assert main == child


def test_a_main_process_with_one_worker_is_no_launcher(start: Start) -> None:
    program = start(tree(BURN))
    host = opened(program.pid)
    main = host.main_pid
    host.close()

    assert main == program.pid


def test_the_process_that_holds_the_gpu_is_the_main_one(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start(tree(SLEEP, SLEEP))
    first, second = children(program)
    monkeypatch.setattr(_proc, "holds_gpu", lambda pid: pid in (first, second))
    host = opened(program.pid)
    by_file = host.main_pid
    host.gpu_pids = frozenset({second, 1})  # what the driver says goes before what its files say
    row = host.read()
    by_context = host.main_pid
    following = host.read()
    host.close()

    assert by_file == first
    assert by_context == second
    assert math.isnan(only(row, "host_main_cpu"))  # the first look at another process
    assert not math.isnan(only(following, "host_main_cpu"))


@pytest.mark.parametrize(("busy_s", "share"), [(-1e-12, 0.0), (0.5, 0.5), (1.0 + 1e-12, 1.0)])
def test_a_share_of_the_machine_is_one_whatever_rounding_does(
    monkeypatch: pytest.MonkeyPatch, busy_s: float, share: float
) -> None:
    totals = iter([(0.0, 0.0, 0.0), (busy_s, 1.0, 0.0)])
    monkeypatch.setattr("perfzero.sources.host._machine_totals", lambda: next(totals))
    host = opened(None)
    row = host.read()
    host.close()

    assert only(row, "host_cpu_busy") == share


def test_without_a_process_only_the_machine_is_read() -> None:
    host = opened(None)
    row = watch(host, 0.3)
    host.close()

    assert 0 <= only(row, "host_cpu_busy") <= 1
    assert only(row, "host_net_bytes") >= 0
    assert all(math.isnan(only(row, name)) for name in set(row.columns) - MACHINE)
    assert host.pids() == frozenset()


def test_a_process_that_is_not_there_cannot_be_watched(start: Start) -> None:
    program = start(tree())
    os.kill(program.pid, 9)
    program.wait()

    with pytest.raises(SourceError, match=f"no process {program.pid}"):
        Host(program.pid).open()


def test_closing_twice_and_reading_when_closed_do_no_harm() -> None:
    host = opened(None)
    host.close()
    host.close()

    assert len(host.read()) == 0


def test_a_command_with_blanks_and_parentheses_does_not_shift_the_fields() -> None:
    tail = "D 7 7 7 0 -1 4194304 100 0 42 0 250 50 0 0 20 0 9 0 123456 1 1 1" + " 0" * 16 + " 300 0 0"
    found = _proc.parse_stat(f"99 (a) S 1 (b) {tail}\n".encode(), ticks_per_s=100)

    assert found == _proc.Stat(
        state="D", parent=7, major_faults=42, cpu_s=3.0, started=123456, disk_wait_s=3.0
    )


def test_a_gpu_is_held_through_its_device_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_proc, "PROC", tmp_path)
    for pid, target in ((1, "/dev/nvidia3"), (2, "/dev/nvidia-uvm"), (3, "/dev/nvidiactl"), (4, "/dev/null")):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "fd" / "5").symlink_to(target)

    # nvidiactl alone is what nvidia-smi and this program open.
    assert [_proc.holds_gpu(pid) for pid in (1, 2, 3, 4, 5)] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("entry", "folder"),
    [
        ("0::/pod/train\n", "pod/train"),  # version 2
        ("4:memory:/m\n3:cpu,cpuacct:/pod/train\n0::/\n", "cpu,cpuacct/pod/train"),  # version 1
        ("0::/../../host/path\n", ""),  # a container that is told the host's path
    ],
)
def test_the_quota_is_found_at_every_level_of_the_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, folder: str
) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cgroup").write_text(entry)
    monkeypatch.setattr(_proc, "PROC", proc)
    leaf = groups / folder
    leaf.mkdir(parents=True)
    (leaf / "cpu.stat").write_text("usage_usec 1\nnr_periods 100\nnr_throttled 40\nthrottled_usec 9\n")

    assert _proc.Throttle.of(7, cgroups=groups).counts() == ((100, 40),)


def test_the_share_held_back_is_that_of_the_worst_level() -> None:
    before, now = ((100, 40), (1000, 0)), ((110, 45), (1010, 9))

    assert _proc.throttled_share(before, now) == pytest.approx(0.9)


def test_no_quota_holds_nothing_back_and_no_cgroup_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "cpu.stat"
    file.write_text("usage_usec 1\nuser_usec 1\n")
    free = _proc.Throttle((file,)).counts()

    assert _proc.throttled_share(free, free) == 0
    assert _proc.Throttle(()).counts() is None
    assert math.isnan(_proc.throttled_share(None, free))


def in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, **levels: tuple[str, str]) -> Path:
    """Process 7 in *entry*; *levels*: memory.max and memory.current of "pod" and "pod/train" (pod_train)."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cgroup").write_text(entry)
    monkeypatch.setattr(_proc, "PROC", proc)
    for name, (most, used) in levels.items():
        folder = groups / name.replace("_", "/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{most}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text("anon 5\ninactive_file 30\nfile 40\n")
    return groups


def test_the_memory_left_is_that_of_the_tightest_cgroup_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = in_groups(tmp_path, monkeypatch, "0::/pod/train\n", pod=("1000", "900"), pod_train=("max", "50"))

    assert _proc.memory_left(7, cgroups=groups) == 130  # page cache that can go is not taken


@pytest.mark.parametrize("entry", ["0::/pod/train\n", "4:memory:/m\n", "", "0::/elsewhere\n"])
def test_without_a_limit_in_sight_no_cgroup_holds_memory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    groups = in_groups(tmp_path, monkeypatch, entry, pod_train=("max", "50"))

    assert _proc.memory_left(7, cgroups=groups) == math.inf


@pytest.mark.parametrize(
    ("table", "used"),
    [
        ("Filename\tType\tSize\tUsed\tPriority\n", False),
        ("Filename\tType\tSize\tUsed\tPriority\n/swapfile file 2097148 0 -2\n", False),
        (
            "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 99 0 -2\n/swapfile file 99 12 -3\n",
            True,
        ),
    ],
)
def test_a_machine_with_an_empty_swap_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, used: bool
) -> None:
    monkeypatch.setattr(_proc, "PROC", tmp_path)
    (tmp_path / "swaps").write_text(table)

    assert _proc.swap_is_used() is used


def test_swap_is_summed_over_the_tree_and_a_hidden_share_is_missing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = start(tree(SLEEP))
    monkeypatch.setattr(_proc, "swap_is_used", lambda: True)
    monkeypatch.setattr(_proc, "swapped_bytes", lambda pid: 4096.0)
    host = opened(program.pid)
    row = host.read()
    monkeypatch.setattr(_proc, "swapped_bytes", lambda pid: None if pid == program.pid else 4096.0)
    hidden = host.read()
    host.close()

    assert only(row, "host_swap_bytes") == 8192
    assert math.isnan(only(hidden, "host_swap_bytes"))


def test_an_own_process_has_swap_of_zero_or_more_and_a_gone_one_none() -> None:
    own = _proc.swapped_bytes(os.getpid())

    assert own is not None
    assert own >= 0
    assert _proc.swapped_bytes(2**22 + 1) is None


class _Moved:
    def __init__(self, read_bytes: int, write_bytes: int) -> None:
        self.read_bytes, self.write_bytes = read_bytes, write_bytes


def blocked_host(
    start: Start, monkeypatch: pytest.MonkeyPatch, *, counted: bool, state: str, rate: float
) -> Host:
    """A host on one sleeping process that /proc says was blocked on a disk at *rate* from now on."""
    real, began = _proc.stat, time.monotonic()

    def blocked(pid: int) -> _proc.Stat | None:
        found = real(pid)
        waited_s = rate * (time.monotonic() - began)
        return replace(found, state=state, disk_wait_s=waited_s) if found else None

    monkeypatch.setattr(_proc, "stat", blocked)
    monkeypatch.setattr(_proc, "disk_wait_is_counted", lambda: counted)
    return opened(start(tree()).pid)
