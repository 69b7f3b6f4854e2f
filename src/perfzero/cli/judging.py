"""
The judge of `--until-sure`: the analysis of a recording that is being written, in a process of its own.

Judging takes about a second of CPU and 150 MB of memory, and NumPy's time must not become the recorder's:
its ticks go on meanwhile. The judge runs at the lowest priority from its first line on: where all
processors are busy it gets a hundredth of one. A judge that hangs ends itself (`LIMIT_S`), whether or
not the recorder is still there. A recording can be read while it is written; nothing is written into it.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import perfzero
from perfzero.record.certainty import Judgement
from perfzero.record.children import plain_environment, stay_behind
from perfzero.values import jsonable

ANSWER_LIMIT = 1 << 16
"""An answer is some hundred bytes per GPU: it fits into the pipe, and need not be read while written."""

LIMIT_S = 180
"""A judge that has not answered by then hangs: a second of CPU takes one of a hundredth of a core 100 s."""

PARTING_S = 1.0
"""How long to wait for a judge that was killed: one that waits for a disk does not end before it."""

CODE = """
import signal, os, sys
signal.alarm({limit})
os.nice(19)
try:
    # A session of its own is a scheduling group of its own, and priorities count only within one.
    with open("/proc/self/autogroup", "w") as group:
        group.write("19")
except OSError:
    pass
sys.path.insert(0, {package!r})
from perfzero.cli.judging import main
main()
"""
"""What a judge runs: out of the way before anything is imported, which is half of its work."""


class ChildJudge:
    """`perfzero.record.certainty.Judge` that starts a process for each question."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        """*command* takes the place of this Python and the code that judges."""
        self.cpu_s = 0.0
        self._command = tuple(command or judge_command())
        self._process: subprocess.Popen[bytes] | None = None
        self._failed = False

    def ask(self, recording: Path, gpus: Collection[int]) -> None:
        """Begin to judge what is there of *gpus*."""
        self.close()
        try:
            self._process = subprocess.Popen(
                [*self._command, str(recording), *map(str, gpus)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C at the terminal is not for it
                env=plain_environment(),
            )
        except OSError:
            self._failed = True

    def answer(self) -> Mapping[int, Judgement] | None:
        """What was found for each GPU; None while there is no answer, empty where judging failed."""
        if self._failed:
            self._failed = False
            return {}
        process = self._process
        if process is None or process.poll() is None:
            return None
        assert process.stdout is not None
        said = process.stdout.read(ANSWER_LIMIT)
        self.close()
        try:
            answer = json.loads(said)
            self.cpu_s += float(answer["cpu_s"])
            return {int(gpu): _judgement(values) for gpu, values in answer["gpus"].items()}
        except (ValueError, KeyError, TypeError):
            return {}

    def close(self) -> None:
        """Stop thinking."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:  # what it did so far has cost what it cost
            self.cpu_s += cpu_s(process.pid)
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PARTING_S)
        assert process.stdout is not None
        process.stdout.close()


def judge_command() -> list[str]:
    """The command line of a judge, to which folder and GPUs are added; see `sampler_command`."""
    package = str(Path(perfzero.__file__).parent.parent)
    return [sys.executable, "-I", "-c", CODE.format(limit=LIMIT_S, package=package)]


def cpu_s(pid: int) -> float:
    """The CPU time of the process *pid* in seconds; 0 where it does not show."""
    import psutil

    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def main(argv: Sequence[str] | None = None) -> None:
    """Judge GPUs of a recording (DIR GPU...) and print one JSON line."""
    folder, *gpus = sys.argv[1:] if argv is None else argv
    stay_behind()
    found = {gpu: _asdict(judged(Path(folder), int(gpu))) for gpu in gpus}
    print(json.dumps(jsonable({"gpus": found, "cpu_s": time.process_time()})))


def judged(recording: Path, gpu: int) -> Judgement:
    """What the analysis says of one GPU at this moment."""
    from perfzero.diagnose.judge import judge
    from perfzero.store.reader import open_recording

    said = judge(open_recording(recording).observation(gpu))
    doubt = said.doubts[0] if said.doubts else ""
    if said.verdict is None:
        return Judgement(None, why=said.no_verdict or doubt)
    gain = said.verdict.gain
    ends = (math.nan, math.nan) if gain is None else (gain.low, gain.high)
    return Judgement(said.verdict.rule, said.verdict.confidence, *ends, why=doubt)


def _asdict(judgement: Judgement) -> dict[str, object]:
    return {name: getattr(judgement, name) for name in Judgement.__slots__}


def _judgement(values: Mapping[str, object]) -> Judgement:
    def number(name: str) -> float:
        value = values[name]
        return math.nan if value is None else float(str(value))

    rule = values["rule"]
    return Judgement(
        None if rule is None else str(rule),
        number("confidence"),
        number("gain_low"),
        number("gain_high"),
        str(values["why"]),
    )
