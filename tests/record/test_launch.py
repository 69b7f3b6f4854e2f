"""The launched program cannot tell that perfzero is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from perfzero.record.launch import CannotStart, Child

LAUNCHER = """
import signal, sys
from perfzero.record.launch import Child, end_like
{setup}
child = Child([sys.executable, "-c", {program!r}])
while child.running:
    child.wait(5.0)
child.restore_signals()
sys.exit(end_like(child.returncode))
"""


def under_us(
    program: str,
    *,
    stdin: str = "",
    setup: str = "",
    send: Callable[[subprocess.Popen[str]], object] | None = None,
) -> subprocess.CompletedProcess[str]:
    """
    Run `python -c program` below a launcher that only launches and waits, in a process of its own.

    *setup* runs in the launcher first; *send* is called with it once the program prints "ready".
    """
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER.format(setup=setup, program=program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if send is not None:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        send(process)
    out, err = process.communicate(stdin, timeout=30)
    return subprocess.CompletedProcess([], process.returncode, out, err)


def counts(number: int) -> str:
    """A program that prints how often it got the signal *number*."""
    return (
        "import signal, time\n"
        "seen = []\n"
        f"signal.signal({int(number)}, lambda *_: seen.append(1))\n"
        "print('ready', flush=True)\n"
        "end = time.monotonic() + 5\n"
        "while not seen and time.monotonic() < end: time.sleep(0.01)\n"
        "time.sleep(0.3); print(len(seen))"
    )


def test_standard_streams_and_exit_code_are_the_programs_own():
    done = under_us(
        "import sys; print(sys.stdin.read().upper(), end=''); print('e', file=sys.stderr); sys.exit(7)",
        stdin="hello",
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "HELLO", "e\n")


def test_the_program_shares_our_process_group_and_has_a_clean_signal_mask():
    done = under_us(
        "import os, signal; print(os.getpgrp() == os.getpgid(os.getppid()), "
        "sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    )
    assert done.stdout.strip() == "True []"


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGTERM, signal.SIGKILL])
def test_a_program_killed_by_a_signal_ends_us_by_the_same_signal(number):
    done = under_us(f"import os; os.kill(os.getpid(), {int(number)})")
    assert done.returncode == -number


def test_an_exit_code_is_kept_where_whoever_started_us_ignores_the_end_of_children():
    setup = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    assert under_us("raise SystemExit(7)", setup=setup).returncode == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_sent_to_us_alone_reaches_the_program(number):
    program = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(42))\n"
        "print('ready', flush=True)\n"
        "time.sleep(20)"
    )
    assert under_us(program, send=lambda p: p.send_signal(number)).returncode == 42


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_process_group_is_not_sent_to_the_program_again(number):
    done = under_us(counts(number), send=lambda p: os.killpg(p.pid, number))
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_a_signal_sent_to_us_and_then_to_the_group_as_by_timeout_reaches_the_program_once():
    def like_timeout(process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)

    assert under_us(counts(signal.SIGINT), send=like_timeout).stdout == "1\n"


def test_after_a_signal_to_the_group_one_to_us_alone_is_passed_on_again():
    program = counts(signal.SIGUSR1).replace("not seen", "len(seen) < 2")

    def both(process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGUSR1)
        time.sleep(0.3)
        process.send_signal(signal.SIGUSR1)

    assert under_us(program, send=both).stdout == "2\n"


def test_a_signal_that_comes_while_the_program_is_being_started_reaches_it():
    setup = (
        "import os, subprocess\n"
        "class Popen(subprocess.Popen):\n"
        "    def __init__(self, command, **k):\n"
        "        super().__init__(command, **k)\n"
        "        if command[0] == sys.executable: os.kill(os.getpid(), signal.SIGTERM)\n"
        "subprocess.Popen = Popen"
    )
    assert under_us("import time; time.sleep(20)", setup=setup).returncode == -signal.SIGTERM


def test_a_signal_that_some_other_thread_of_ours_gets_reaches_the_program_too():
    setup = (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])"
    )
    # The program inherits the mask of whoever starts it, with and without us.
    program = f"import signal; signal.pthread_sigmask(signal.SIG_UNBLOCK, [10]); {counts(signal.SIGUSR1)}"
    done = under_us(program, setup=setup, send=lambda p: p.send_signal(signal.SIGUSR1))
    assert done.stdout == "1\n"


def test_a_hangup_that_nohup_lets_us_ignore_stays_ignored_by_both():
    setup = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    program = (
        "import signal, time; print('ready', flush=True); time.sleep(0.5); "
        "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    )
    done = under_us(program, setup=setup, send=lambda p: p.send_signal(signal.SIGHUP))
    assert (done.returncode, done.stdout) == (0, "True\n")


def test_a_signal_the_program_ignores_leaves_both_running():
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "time.sleep(0.5); print('still here')"
    )
    done = under_us(program, send=lambda p: p.send_signal(signal.SIGTERM))
    assert (done.returncode, done.stdout) == (0, "still here\n")


def test_the_programs_signals_are_as_they_would_be_without_us():
    program = (
        "import signal; print([n for n in (1, 2, 3, 10, 12, 15, 17) "
        "if signal.getsignal(n) not in (signal.SIG_DFL, signal.default_int_handler)], "
        "sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    )
    assert under_us(program).stdout == "[] []\n"


def test_when_it_is_over_signals_act_on_us_as_before():
    before = {n: signal.getsignal(n) for n in range(1, 32)}
    child = Child(["true"])
    assert {n: signal.getsignal(n) for n in range(1, 32)} != before
    while child.running:
        child.wait(1.0)
    child.restore_signals()
    child.restore_signals()
    assert {n: signal.getsignal(n) for n in range(1, 32)} == before


def test_descriptors_we_were_given_are_passed_on():
    read, write = os.pipe()
    os.set_inheritable(write, True)
    launcher = (
        "import sys\nfrom perfzero.record.launch import Child\n"
        f"child = Child([sys.executable, '-c', 'import os; os.write({write}, b\"x\")'])\n"
        "while child.running: child.wait(5.0)\n"
        "child.restore_signals()\n"
    )
    subprocess.run([sys.executable, "-c", launcher], close_fds=False, check=True, timeout=30)
    os.close(write)
    assert os.read(read, 10) == b"x"
    os.close(read)


def test_a_command_that_does_not_exist_is_127_as_in_a_shell():
    with pytest.raises(CannotStart, match="no-such-program: command not found") as caught:
        Child(["no-such-program"])
    assert caught.value.exit_code == 127


def test_a_file_that_is_no_program_is_126_as_in_a_shell(tmp_path):
    (tmp_path / "plain.txt").write_text("no program")
    with pytest.raises(CannotStart) as caught:
        Child([str(tmp_path / "plain.txt")])
    assert caught.value.exit_code == 126
