"""The launched program cannot tell that perfzero is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from perfzero.record.launch import CannotStart, Child


def under_us(program: str, *, stdin: str = "", send: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -c program` below a launcher that only launches and waits, in a process of its own."""
    launcher = textwrap.dedent(
        f"""
        import sys
        from perfzero.record.launch import Child, end_like
        child = Child([sys.executable, "-c", {program!r}])
        while child.running:
            child.wait(5.0)
        child.restore_signals()
        sys.exit(end_like(child.returncode))
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", launcher],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if send is not None:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(send)
    out, err = process.communicate(stdin, timeout=30)
    return subprocess.CompletedProcess([], process.returncode, out, err)


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


def test_a_program_killed_by_a_signal_ends_us_by_the_same_signal():
    done = under_us("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_sent_to_us_alone_reaches_the_program(number):
    program = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(42))\n"
        "print('ready', flush=True)\n"
        "time.sleep(20)"
    )
    assert under_us(program, send=number).returncode == 42


def test_a_signal_the_program_ignores_leaves_both_running():
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\n"
        "time.sleep(0.5); print('still here')"
    )
    done = under_us(program, send=signal.SIGTERM)
    assert (done.returncode, done.stdout) == (0, "still here\n")


def test_descriptors_we_were_given_are_passed_on():
    read, write = os.pipe()
    os.set_inheritable(write, True)
    launcher = (
        "import sys\nfrom perfzero.record.launch import Child\n"
        f"child = Child([sys.executable, '-c', 'import os; os.write({write}, b\"x\")'])\n"
        "while child.running: child.wait(5.0)\n"
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
