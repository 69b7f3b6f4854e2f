"""The zoo and the tool that records it, as far as they run without a GPU."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
ZOO = ROOT / "zoo"
EXPECTED = ROOT / "tests" / "recordings" / "expected.json"
NO_WORKLOAD = {"cases.py", "loop.py", "decoder.py", "busy_holder.py", "quota.py"}
PROGRAMS = sorted(path.name for path in ZOO.glob("*.py") if path.name not in NO_WORKLOAD)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Import a module of zoo/ or tools/ as the script finds it, and forget it afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.syspath_prepend(str(ZOO))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def cases(load) -> ModuleType:
    return load("cases")


# --- programs --------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [*PROGRAMS, "busy_holder.py"])
def test_a_program_reads_its_options_without_pytorch(load, program: str) -> None:
    options = load(program.removesuffix(".py")).parser().parse_args(["--seconds", "3"])

    assert options.seconds == 3
    assert "torch" not in sys.modules


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_refuses_an_option_it_does_not_have(load, program: str, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        load(program.removesuffix(".py")).parser().parse_args(["--no-such-option"])

    assert ended.value.code == 2
    assert "--no-such-option" in capsys.readouterr().err


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_described_in_the_readme(program: str) -> None:
    assert f"`{program}" in (ZOO / "README.md").read_text()


def test_the_loop_prints_what_it_did_and_logs_each_step(load, tmp_path: Path, capsys) -> None:
    loop = load("loop")
    args = argparse.Namespace(seconds=0.05, device="cpu", log=str(tmp_path / "steps"))
    loop.run(lambda: time.sleep(0.005), args=args, counts={"bytes": 7})

    line = json.loads(capsys.readouterr().out)
    rows = list(struct.iter_unpack("<qd", (tmp_path / "steps").read_bytes()))
    assert line["steps"] == len(rows) > 1
    assert line["step_ms_median"] >= 5
    assert line["seconds"] == pytest.approx(sum(ms for _, ms in rows) / 1e3, abs=1e-3)
    assert line["per_step"] == {"bytes": 7}


# --- the table -------------------------------------------------------------------------------


def test_every_program_is_a_case(cases: ModuleType) -> None:
    assert {case.program for case in cases.CASES} == set(PROGRAMS)


def test_the_command_of_every_case_is_one_that_its_program_understands(load, cases: ModuleType) -> None:
    for case in cases.CASES:
        program = load(case.program.removesuffix(".py"))
        command = case.command()
        at = command.index("--seconds")

        assert all(Path(word).is_file() for word in command[:at] if word.endswith(".py"))
        assert command[at - 1] == str(ZOO / case.program)
        assert program.parser().parse_args(command[at:]).seconds == case.seconds


def test_what_starts_a_program_comes_first_in_its_command(cases: ModuleType) -> None:
    [quota] = cases.choose(["cpu_quota"])

    assert quota.command(python="py", zoo=None)[:7] == [
        "py", "zoo/quota.py", "--cpus", "2", "--", "py", "zoo/input_starved.py",
    ]  # fmt: skip


def test_each_half_of_the_cases_fits_into_one_call(cases: ModuleType) -> None:
    """Each needs its loop and some 12 s for start and analysis; a call on a lent GPU ends after 600 s."""
    halves = [cases.part(number, 2) for number in (1, 2)]

    assert (*halves[0], *halves[1]) == cases.CASES
    assert all(sum(case.seconds + 12 for case in half) < 480 for half in halves)


@pytest.mark.parametrize(("number", "of"), [(0, 2), (3, 2), (1, 0)])
def test_a_part_that_does_not_exist_is_refused(cases: ModuleType, number: int, of: int) -> None:
    with pytest.raises(ValueError, match=f"there is no part {number} of {of}"):
        cases.part(number, of)


def test_the_recordings_kept_expect_the_verdicts_of_the_table(cases: ModuleType) -> None:
    """
    The table's verdict is one of those accepted, and each further rule of the table is asked for.

    A program may be in the table before there is a recording of it, but not the other way round.
    """
    kept = json.loads(EXPECTED.read_text())["cases"]

    assert set(kept) <= {case.name for case in cases.CASES}
    for case in cases.choose(list(kept)):
        assert case.expected in kept[case.name]["verdict"], case.name
        assert list(case.also) == kept[case.name].get("findings", []), case.name


def test_every_expected_verdict_is_one_that_a_rule_gives(cases: ModuleType) -> None:
    from perfzero.diagnose.rules import RULES

    ids = {rule.__name__ for rule in RULES}
    kept = json.loads(EXPECTED.read_text())["cases"].values()
    asked = {rule for case in kept for rule in (*case["verdict"], *case.get("findings", ()))}

    assert asked <= ids


def test_cases_are_chosen_by_name_in_the_order_of_the_table(cases: ModuleType) -> None:
    chosen = cases.choose(["tiny_kernels", "fp32_gemm"])

    assert [case.name for case in chosen] == ["fp32_gemm", "tiny_kernels"]
    assert cases.choose(None) == cases.CASES


def test_a_case_that_does_not_exist_is_refused_with_those_that_do(cases: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"no such case: fp8_gemm\. There are: .*fp32_gemm"):
        cases.choose(["fp32_gemm", "fp8_gemm"])


# --- recording the cases ---------------------------------------------------------------------


def report(rule: str | None, findings: list[str]) -> dict:
    verdict = None if rule is None else {"rule": rule, "confidence": 0.9}
    gpu = {"verdict": verdict, "no_verdict": None if rule else "too short", "tier": "pm", "headline": "h"}
    gpu["findings"] = [{"rule": name} for name in findings]
    return {"gpus": [gpu], "cost": {"slowdown": 0.0002, "cpu_share": 0.01}}


def test_the_verdict_of_a_case_is_read_from_its_report(load, tmp_path: Path) -> None:
    tool = load("make_recordings")
    (tmp_path / "report.json").write_text(json.dumps(report("well_used", ["well_used", "power_capped"])))
    verdict = tool.read_verdict(tmp_path / "report.json")

    assert (verdict.rule, verdict.confidence, verdict.slowdown) == ("well_used", 0.9, 0.0002)
    [case] = tool.choose(["bf16_gemm_capped"])
    assert tool.disagreements(case, verdict) == []


@pytest.mark.parametrize(
    ("rule", "findings", "problem"),
    [
        ("memory_bound", ["memory_bound"], "memory_bound, not well_used"),
        (None, [], "no verdict (too short), not well_used"),
        ("well_used", ["well_used"], "power_capped is not among the findings"),
    ],
)
def test_another_verdict_than_the_expected_one_is_a_problem(
    load, tmp_path: Path, rule: str | None, findings: list[str], problem: str
) -> None:
    tool = load("make_recordings")
    (tmp_path / "report.json").write_text(json.dumps(report(rule, findings)))
    [case] = tool.choose(["bf16_gemm_capped"])

    assert tool.disagreements(case, tool.read_verdict(tmp_path / "report.json")) == [problem]


def test_a_finding_or_a_step_time_that_must_not_be_there_is_a_problem(load) -> None:
    tool = load("make_recordings")
    good = tool.Verdict(rule="well_used", findings=("well_used",))
    worse = tool.Verdict(
        rule="well_used", findings=("well_used", "periodic_stall"), step_s=0.02, interval_s=(0.02, 0.02)
    )
    steps, none = tool.choose(["evaluation_every_n", "variable_batches_rounded"])

    assert tool.disagreements(steps, good) == tool.disagreements(none, good) == []
    assert tool.disagreements(steps, worse, own=tool.Own(20.0, 20.0)) == [
        "periodic_stall is among the findings"
    ]
    assert tool.disagreements(none, worse, where="trimmed: ") == [
        "trimmed: a step time of 20.0 ms, where there is none"
    ]


def told_of_steps(tool: ModuleType, step_s: float | None, *, margin: float = 0.0) -> object:
    """A verdict on fp32_gemm from 1 to 3 s, with a step time and its interval seen from 1.5 to 2 s."""
    interval = None if step_s is None else (step_s * (1 - margin), step_s * (1 + margin))
    return tool.Verdict(
        rule="fp32_path",
        findings=("fp32_path",),
        step_s=step_s,
        interval_s=interval,
        seen_ns=() if step_s is None else ((1_500_000_000, 2_000_000_000),),
        judged_ns=(1_000_000_000, 3_000_000_000),
    )


@pytest.mark.parametrize(("found_s", "problems"), [(0.01019, 0), (0.01021, 2), (0.02, 2), (None, 0)])
def test_a_step_time_may_be_two_percent_off_the_program_s_own(
    load, tmp_path: Path, found_s: float | None, problems: int
) -> None:
    """Steps of 10 ms after a second of slower ones, which the judged stretch leaves out."""
    tool = load("make_recordings")
    (tmp_path / "steps").write_bytes(logged([50.0] * 20 + [10.0] * 200))
    verdict = told_of_steps(tool, found_s)
    own = tool.own_step(tmp_path / "steps", verdict)
    [case] = tool.choose(["fp32_gemm"])

    assert (own.step_ms, own.jitter) == (pytest.approx(10), pytest.approx(0, abs=1e-9))
    assert own.seen_ms == (None if found_s is None else pytest.approx(10))
    assert len(tool.disagreements(case, verdict, own=own)) == problems


@pytest.mark.parametrize(
    ("step_ms", "margin", "problem"),
    [
        (10.0, 0.10, None),
        (10.0, 0.0, "a mean step from 10.00 to 10.00 ms, by its own clock 10.57"),
        (10.6, 0.10, "a step time of 10.60 ms, by its own clock 10.00"),
    ],
)
def test_a_step_time_is_that_of_the_steps_seen_and_its_interval_that_of_the_whole_stretch(
    load, tmp_path: Path, step_ms: float, margin: float, problem: str | None
) -> None:
    """Steps take 10 ms until 2 s, where they are seen, and 11.2 ms in the second that is not looked at."""
    tool = load("make_recordings")
    (tmp_path / "steps").write_bytes(logged([10.0] * 200 + [11.2] * 100))
    verdict = told_of_steps(tool, step_ms / 1e3, margin=margin)
    own = tool.own_step(tmp_path / "steps", verdict)
    [case] = tool.choose(["fp32_gemm"])
    problems = tool.disagreements(case, verdict, own=own)

    assert (own.seen_ms, own.step_ms) == (pytest.approx(10), pytest.approx(10.57, abs=0.01))
    assert len(problems) == (problem is not None)
    assert problem is None or problems[0].startswith(problem)


@pytest.mark.parametrize("name", ["fp32_gemm", "killed"])
def test_a_step_time_without_a_log_to_hold_it_against_is_a_problem(load, name: str) -> None:
    """Where none was told either, nothing is missing."""
    tool = load("make_recordings")
    [case] = tool.choose([name])
    quiet = tool.Verdict(rule=case.expected, findings=(case.expected,))

    assert tool.disagreements(case, replace(quiet, step_s=0.01), where="trimmed: ") == [
        "trimmed: a step time was told and the program logged none"
    ]
    assert tool.disagreements(case, quiet) == []


def logged(lengths_ms: list[float]) -> bytes:
    """The log of steps of these lengths, one after the other from time 0 on."""
    rows = zip(itertools.accumulate(lengths_ms), lengths_ms, strict=True)
    return b"".join(struct.pack("<qd", round(end * 1e6), ms) for end, ms in rows)


def test_without_a_log_or_two_steps_in_the_stretch_there_is_no_step_time(load, tmp_path: Path) -> None:
    tool = load("make_recordings")
    verdict = tool.Verdict(judged_ns=(5_000_000_000, 9_000_000_000))
    (tmp_path / "steps").write_bytes(logged([10.0] * 5))

    assert tool.own_step(tmp_path / "none", verdict) == tool.Own()
    assert tool.own_step(tmp_path / "steps", verdict) == tool.Own()


def test_only_whole_steps_inside_the_stretch_count(load, tmp_path: Path) -> None:
    """The last row of the log is cut, too."""
    step_log = load("step_log")
    (tmp_path / "steps").write_bytes(logged([10.0, 20.0, 30.0, 40.0, 1.0])[:-5])
    rows = step_log.read_steps(tmp_path / "steps")

    assert rows["ms"].tolist() == [10.0, 20.0, 30.0, 40.0]  # they end at 10, 30, 60 and 100 ms
    assert step_log.inside(rows, 5_000_000, 61_000_000).tolist() == [20.0, 30.0]
    assert step_log.inside(rows, 61_000_000, 99_000_000).tolist() == []


def test_a_log_is_kept_to_the_microsecond_in_a_few_bytes_per_step(load, tmp_path: Path) -> None:
    """Of no step as well; and what is no such file is refused."""
    step_log = load("step_log")
    (tmp_path / "steps").write_bytes(logged([10.0004, 20.0, 30.0] * 500))
    rows = step_log.read_steps(tmp_path / "steps")
    for kept in (rows, rows[:0]):
        step_log.pack(kept, tmp_path / "own.npz")
        again = step_log.unpack(tmp_path / "own.npz")

        assert np.abs(again["end_ns"] - kept["end_ns"]).max(initial=0) < 1000
        assert np.abs(again["ms"] - kept["ms"]).max(initial=0) < 0.001
    step_log.pack(rows, tmp_path / "own.npz")
    assert (tmp_path / "own.npz").stat().st_size < len(rows) * 4
    with pytest.raises(ValueError, match="pickle"):
        step_log.unpack(tmp_path / "steps")


def test_steps_of_several_times_are_those_that_lie_in_one_as_a_whole(load, tmp_path: Path) -> None:
    step_log = load("step_log")
    (tmp_path / "steps").write_bytes(logged([10.0, 20.0, 30.0, 40.0]))
    rows = step_log.read_steps(tmp_path / "steps")

    assert step_log.of_spans(rows, [(0, 31_000_000), (50_000_000, 101_000_000)]).tolist() == [
        10.0,
        20.0,
        40.0,
    ]
    assert step_log.of_spans(rows, []).tolist() == []


def test_a_step_with_an_evaluation_in_it_is_not_the_step(load) -> None:
    """One that is longer by chance is."""
    step_log = load("step_log")
    lengths = np.array([9.0, 10.0, 11.0, 10.0] * 10)

    assert step_log.step_of(np.append(lengths, 400.0)) == step_log.step_of(lengths)
    assert step_log.step_of(np.append(lengths, 19.0))[0] == pytest.approx((400 + 19) / 41)


def test_a_program_that_is_to_be_killed_need_not_finish(load, tmp_path: Path, monkeypatch) -> None:
    """Ended by SIGKILL, or as a shell says it, only the verdict is missing; 0 is a problem as well."""
    tool = load("make_recordings")
    [case] = tool.choose(["killed"])
    by_signal = "import os; os.kill(os.getpid(), 9)"
    for how, problems in ((by_signal, 1), ("raise SystemExit(137)", 1), ("raise SystemExit(0)", 2)):
        end = ("python3", "-c", how)
        monkeypatch.setattr(tool.checkout, "PERFZERO", end)

        assert len(tool.observe(case, work=tmp_path).problems) == problems


@pytest.mark.parametrize("text", [None, "", "{}", '{"gpus": []}', '{"gpus": [{"verdict": 3}]}'])
def test_a_report_that_cannot_be_read_is_no_verdict(load, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    verdict = load("make_recordings").read_verdict(path)

    assert verdict.rule is None
    assert "no readable report.json" in verdict.reason


def test_the_line_of_a_program_is_found_among_what_perfzero_says(load) -> None:
    last_json = load("make_recordings").last_json

    assert last_json('a\n{"steps": 3}\n  The GPU waits.\n{no json "steps"\n') == {"steps": 3}
    assert last_json("Traceback (most recent call last):\n") == {}


def test_cases_that_fail_do_not_stop_the_others_and_are_shown(load, tmp_path: Path, monkeypatch) -> None:
    """With a perfzero that ends at once, every case fails, is told so, and what there is gets packed."""
    tool = load("make_recordings")
    monkeypatch.setattr(tool.checkout, "PERFZERO", ("python3", "-c", "print('no GPU'); raise SystemExit(3)"))

    code = tool.main(["--out", str(tmp_path), "--only", "fp32_gemm,gpm_only", "--work", str(tmp_path / "w")])

    assert code == 1
    results = json.loads((tmp_path / "results.json").read_text())
    assert [result["case"] for result in results] == ["fp32_gemm", "gpm_only"]
    assert all("exit code 3" in result["problems"] for result in results)
    assert (tmp_path / "results.txt").read_text().count("FAIL") == 2
    with tarfile.open(tmp_path / "logs.tar.gz") as archive:
        assert {"logs/fp32_gemm.log", "logs/gpm_only.log"} <= set(archive.getnames())


def test_a_part_of_the_cases_is_run_and_one_that_does_not_exist_is_refused(load, tmp_path, capsys) -> None:
    tool = load("make_recordings")
    tool.main(["--out", str(tmp_path), "--part", "2/2", "--budget", "1"])
    results = json.loads((tmp_path / "results.json").read_text())

    assert [result["case"] for result in results] == [case.name for case in load("cases").part(2, 2)]
    assert tool.main(["--out", str(tmp_path), "--part", "3/2"]) == 2
    assert "there is no part 3 of 2" in capsys.readouterr().err


def test_a_recording_without_time_left_is_not_begun(load, tmp_path: Path) -> None:
    code = load("make_recordings").main(["--out", str(tmp_path), "--only", "fp32_gemm", "--budget", "1"])

    assert code == 1
    assert "not run: out of time" in (tmp_path / "results.txt").read_text()


# --- a CPU quota -----------------------------------------------------------------------------


def quota(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ZOO / "quota.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def test_a_program_under_a_quota_is_the_process_in_the_cgroup(tmp_path: Path) -> None:
    """What an earlier call left empty is removed; the cgroup files of the kernel are played by plain ones."""
    (tmp_path / "cgroup.controllers").write_text("cpu")
    (tmp_path / "perfzero-zoo-1").mkdir()
    print_pid = "import os; print(os.getpid())"
    ended = quota("--cgroups", str(tmp_path), "--cpus", "1.5", "--", sys.executable, "-c", print_pid)

    [made] = tmp_path.glob("perfzero-zoo-*")
    assert (made / "cpu.max").read_text() == "150000 100000"
    assert (made / "cgroup.procs").read_text() == ended.stdout.strip()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"


def test_without_cgroups_no_program_is_run_and_it_is_said(tmp_path: Path) -> None:
    ended = quota("--cgroups", str(tmp_path), "--", sys.executable, "-c", "print('ran')")

    assert (ended.returncode, ended.stdout) == (3, "")
    assert "no cgroup with a CPU quota can be made here" in ended.stderr


# --- running a command -----------------------------------------------------------------------


def test_a_command_is_logged_and_its_exit_code_kept(load, tmp_path: Path) -> None:
    log = tmp_path / "log"
    ended = load("checkout").run(["python3", "-c", "print('x'); raise SystemExit(7)"], log=log, timeout_s=20)

    assert (ended.code, ended.output, log.read_text()) == (7, "x\n", "x\n")


def test_a_command_past_its_limit_is_ended_with_its_children(load, tmp_path: Path) -> None:
    child = "import subprocess; subprocess.run(['sleep', '60'])"
    began = time.monotonic()
    ended = load("checkout").run(["python3", "-c", child], log=tmp_path / "log", timeout_s=0.5)

    assert ended.code is None
    assert time.monotonic() - began < 15


def test_a_command_that_does_not_exist_counts_as_127(load, tmp_path: Path) -> None:
    assert load("checkout").run(["no-such-program"], log=tmp_path / "log", timeout_s=5).code == 127


FAMILY = """
import os, subprocess, sys
child = subprocess.Popen(["sleep", "60"])
with open(sys.argv[1], "w") as told:
    told.write(f"{os.getpid()} {child.pid} ")
child.wait()
"""
"""A program with a child in its group; both pids go into a file."""

STARTER = """
import os, signal, sys, time
from pathlib import Path
import checkout
told = Path(sys.argv[1])
process = checkout.start(["python3", "-c", sys.argv[2], str(told)], log=told.with_name("log"))
while not (told.exists() and told.read_text().endswith(" ")):
    time.sleep(0.01)
os.killpg(process.pid, signal.SIGSTOP)
print("stopped", flush=True)
time.sleep(60)
"""
"""Starts such a program, stops it, and goes on."""


def state(pid: int) -> str:
    """The letter by which /proc knows it (T: stopped); Z where nothing of it is left but its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def gone(pids: list[int]) -> bool:
    """Whether all end within 5 s."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if all(state(pid) == "Z" for pid in pids):
            return True
        time.sleep(0.01)
    return False


def test_a_stopped_program_and_its_children_do_not_outlive_a_starter_that_is_killed(tmp_path: Path) -> None:
    """While it lives they stay."""
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "pids"), FAMILY],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")}, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert starter.stdout is not None
    with starter, starter.stdout:
        assert starter.stdout.readline() == b"stopped\n"
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        time.sleep(0.2)
        assert [state(pid) for pid in pids] == ["T", "T"]
        starter.kill()

    assert gone(pids)


def test_a_command_is_ended_with_its_children_when_its_wait_is_interrupted(
    load, tmp_path: Path, monkeypatch
) -> None:
    """Not only as we end: a prompt may follow Ctrl-C."""
    checkout, told = load("checkout"), tmp_path / "pids"

    def interrupted(_self: object, _timeout_s: float) -> int:
        monkeypatch.undo()  # the end is waited for
        while not (told.exists() and told.read_text().endswith(" ")):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    monkeypatch.setattr(checkout, "_guard", lambda _process: None)
    with pytest.raises(KeyboardInterrupt):
        checkout.run(["python3", "-c", FAMILY, str(told)], log=tmp_path / "log", timeout_s=20)

    assert gone([int(word) for word in told.read_text().split()])


def test_the_guard_of_a_program_ends_with_it(load, tmp_path: Path) -> None:
    def guards() -> list[int]:
        words = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
        return [1 for w in words if w.endswith(f"\0{os.getpid()}\0{process.pid}\0".encode())]

    checkout = load("checkout")
    process = checkout.start(["sleep", "60"], log=tmp_path / "log")
    assert len(guards()) == 1
    checkout.end_group(process)
    until = time.monotonic() + 5
    while guards() and time.monotonic() < until:
        time.sleep(0.01)

    assert guards() == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)]
)
def test_a_recording_tool_that_is_ended_takes_its_program_along(
    tmp_path: Path, number: int, code: int
) -> None:
    told = tmp_path / "pids"
    runner = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"import sys; import make_recordings as tool\n"
        f"tool.checkout.PERFZERO = ('python3', '-c', {FAMILY!r}, {str(told)!r})\n"
        f"try: tool.main(['--out', {str(tmp_path)!r}, '--work', {str(tmp_path)!r}, '--only', 'fp32_gemm'])\n"
        "except KeyboardInterrupt: sys.exit(1)"
    )
    tool = subprocess.Popen(
        [sys.executable, "-c", runner],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 20
    while not (told.exists() and told.read_text().endswith(" ")) and time.monotonic() < until:
        time.sleep(0.02)
    tool.send_signal(number)

    assert tool.wait(15) == code
    assert gone([int(word) for word in told.read_text().split()])


# --- everything that is seen on a GPU --------------------------------------------------------


def test_a_step_that_fails_does_not_stop_the_others_and_is_told(
    load, tmp_path: Path, monkeypatch, capsys
) -> None:
    tool = load("live_check")
    steps = (
        tool.Step("first", ("-c", "print('no GPU'); raise SystemExit(3)"), 20.0),
        tool.Step("second", ("-c", "import sys; print(sys.argv[1])", "{out}"), 20.0),
        tool.Step("third", ("-c", "import time; time.sleep(60)"), 0.3),
    )
    monkeypatch.setattr(tool, "PARTS", {1: steps})

    assert tool.main(["--part", "1", "--out", str(tmp_path / "o"), "--work", str(tmp_path / "w")]) == 1
    printed = capsys.readouterr().out
    assert "no GPU" in printed
    assert str(tmp_path / "o") in printed
    ends = [line.split("  ")[-1] for line in (tmp_path / "o" / "live_check.txt").read_text().splitlines()[1:]]
    assert ends == ["FAIL", "OK", "ran into its time limit: FAIL"]


def test_steps_that_all_end_well_are_told_so(load, tmp_path: Path, monkeypatch) -> None:
    tool = load("live_check")
    monkeypatch.setattr(tool, "PARTS", {1: (tool.Step("first", ("-c", "print(1)"), 20.0),)})
    assert tool.main(["--part", "1", "--out", str(tmp_path / "o"), "--work", str(tmp_path / "w")]) == 0


def test_every_part_takes_under_ten_minutes_and_names_scripts_that_are_there(load) -> None:
    for steps in load("live_check").PARTS.values():
        assert sum(step.seconds for step in steps) <= 600
        assert all(step.command[0] == "-m" or (ROOT / step.command[0]).is_file() for step in steps)


def test_a_part_of_the_check_that_does_not_exist_is_refused(load, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        load("live_check").main(["--part", "12"])
    assert ended.value.code == 2
    assert "invalid choice: 12" in capsys.readouterr().err


def test_an_interrupted_check_keeps_what_has_been_seen(load, tmp_path: Path, monkeypatch, capsys) -> None:
    tool = load("live_check")
    first = tool.Step("first", ("-c", "print(1)"), 20.0)
    monkeypatch.setattr(tool, "PARTS", {1: (first, tool.Step("second", (), 20.0))})
    real = tool.run

    def run(step, **where):
        if step.name == "second":
            raise KeyboardInterrupt
        return real(step, **where)

    monkeypatch.setattr(tool, "run", run)
    assert tool.main(["--part", "1", "--out", str(tmp_path / "o"), "--work", str(tmp_path / "w")]) == 1
    _, done, last = (tmp_path / "o" / "live_check.txt").read_text().splitlines()
    assert done.startswith("first")
    assert done.endswith("OK")
    assert last.startswith("interrupted: ")


def test_results_that_cannot_be_kept_are_refused_before_anything_is_run(load, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        load("live_check").main(["--part", "1", "--out", str(tmp_path / "file" / "o")])
    assert ended.value.code == 2
    assert "no results can be kept there" in capsys.readouterr().err
