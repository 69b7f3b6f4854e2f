"""
Kills each party of a recording in turn, and tries what users run into; prints what happened.

    python tools/kill_test.py --out OUT

On a machine with a GPU. `kill -9` of the recorder, the sampler, the observed program, and (where
`sudo -n` works) of the parent of a sampler started through it. After each: the device must be free (a
new PM session opens), the recording readable up to the last moments before the kill, and the others
must end well. Then the messages and exit codes for an unprivileged user, a busy device, a missing
folder, and recordings cut short. Into OUT go kill_test.json and kill_test.txt. Everything killed here
was started here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import checkout
import psutil

sys.path.insert(0, str(checkout.ROOT / "src"))

LOOP_S = 10
"""Length of the observed program's loop."""

RECORD_FOR_S = 4.0
"""From the first sample on disk to the kill."""

READABLE_WITHIN_S = 2.0
"""A recording must reach at least this close to the kill."""

ENDS_WITHIN_S = 10.0
"""How long an orphaned sampler may take to notice and end."""

NOBODY = 65534

SHORT = ("python3", "zoo/fp32_gemm.py", "--size", "2048", "--seconds", "4")
"""A program for the scenarios in which nobody is killed. It has to work: an idle GPU is not sampled."""

SUDO_PARENT = """
import time
from perfzero.record.sampler_client import SamplerClient
from perfzero.sources._nvml import select
[gpu] = select(["0"])
def hear(_gpu, event): print(event, flush=True)
def count(_gpu, _kind, samples): print("samples", len(samples), flush=True)
client = SamplerClient(gpu, on_samples=count, on_event=hear, sudo=True)
client.open(period_ns=1_000_000, drain_s=0.5)
client.start(kind="continuous")
time.sleep(60)
"""
"""The recorder's own way where only root may read the counters, taken here although everybody may."""

SUDO_SETTING: str | None = None
"""
ADAPTER: the environment variable with which the recorder starts its sampler through `sudo -n`, although
it would not need to. None: there is no such setting.
"""


@dataclass(slots=True)
class Outcome:
    """One row of the table: what was checked (name -> passed), and what was said."""

    name: str
    checks: dict[str, bool] = field(default_factory=dict)
    code: int | None = None
    said: str = ""
    skipped: str = ""

    @property
    def ok(self) -> bool:
        return all(self.checks.values())


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "kill-test")))
    p.add_argument("--only", type=lambda text: text.split(","), help="names of scenarios, comma separated")
    p.add_argument("--budget", type=float, default=150.0, help="nothing is begun after this many seconds")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="perfzero-kill-"))
    work.chmod(0o755)  # an unprivileged user has to read in it
    chosen = args.only or list(SCENARIOS)
    wrong = sorted(set(chosen) - set(SCENARIOS))
    if wrong:
        print(f"no such scenario: {', '.join(wrong)}. There are: {', '.join(SCENARIOS)}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    outcomes = []
    for name in chosen:
        outcome = Outcome(name)
        if time.monotonic() - begun > args.budget - 20:
            outcome.checks["in time"] = False
        else:
            try:
                SCENARIOS[name](outcome, work / name.replace(" ", "-"))
            except Exception as error:  # noqa: BLE001 - the other scenarios must still run
                outcome.checks["ran"] = False
                outcome.said = f"{type(error).__name__}: {error}"
        outcomes.append(outcome)
        print(text_of(outcome), flush=True)
        (args.out / "kill_test.txt").write_text("\n".join(text_of(o) for o in outcomes) + "\n")
        (args.out / "kill_test.json").write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
    bad = [outcome.name for outcome in outcomes if not outcome.ok]
    skipped = [outcome.name for outcome in outcomes if outcome.skipped]
    good = len(outcomes) - len(bad) - len(skipped)
    print(
        f"{good} as they should be; not: {', '.join(bad) or 'none'}; skipped: {', '.join(skipped) or 'none'}"
    )
    return 1 if bad else 0


def text_of(outcome: Outcome) -> str:
    checks = ", ".join(f"{name}: {'yes' if passed else 'NO'}" for name, passed in outcome.checks.items())
    state = "skipped: " + outcome.skipped if outcome.skipped else ("OK" if outcome.ok else "FAIL")
    lines = [f"{outcome.name:28}{state:8} exit {outcome.code}  {checks}"]
    lines += [f"    | {line}" for line in outcome.said.strip().splitlines()[-8:]]
    return "\n".join(lines)


# --- a recording and its parties -------------------------------------------------------------


@dataclass(slots=True)
class Party:
    """A recording under way: the recorder, its sampler and the observed program."""

    recorder: subprocess.Popen[bytes]
    folder: Path
    log: Path
    program: psutil.Process
    sampler: psutil.Process


@contextmanager
def recording(folder: Path) -> Iterator[Party]:
    """
    A recording of a program from the zoo, `RECORD_FOR_S` after its first samples came to disk.

    What is left of it afterwards is ended, so that the next scenario finds a free device.
    """
    log = folder.with_suffix(".log")
    command = [
        *checkout.PERFZERO, "record", "--continuous", "-o", str(folder), "--",
        "python3", "zoo/elementwise_chain.py", "--mib", "256", "--seconds", str(LOOP_S),
    ]  # fmt: skip
    recorder = checkout.start(command, log=log)
    started: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 40
        while last_sample_ns(folder) is None:
            if recorder.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no samples came: {log.read_text(errors='replace')[-600:]}")
            time.sleep(0.2)
        time.sleep(RECORD_FOR_S)
        started = psutil.Process(recorder.pid).children(recursive=True)
        words = {child: words_of(child) for child in started}
        programs = [child for child, line in words.items() if "zoo/" in line]
        samplers = [child for child, line in words.items() if "sampler" in line and child not in programs]
        if not programs or not samplers:
            raise RuntimeError(f"program or sampler is missing among {list(words.values())}")
        yield Party(recorder, folder, log, programs[0], samplers[0])
    finally:
        checkout.end_group(recorder)
        for process in started:
            with suppress(psutil.Error):
                process.kill()


def words_of(process: psutil.Process) -> str:
    """The first words of the command line; empty for a process that has ended."""
    try:
        return " ".join(process.cmdline()[:6])
    except psutil.Error:
        return ""


def last_sample_ns(folder: Path) -> int | None:
    """The end of the last PM sample in the recording, None as long as there is none."""
    from perfzero.errors import PerfzeroError
    from perfzero.store.reader import open_recording

    try:
        recording = open_recording(folder)
        seen = recording.observation(recording.gpus[0].index)
    except (PerfzeroError, LookupError, OSError):
        return None
    ends = [int(table.end_ns.max()) for table in (seen.pm, seen.zoom) if len(table)]
    return max(ends, default=None)


def device_is_free(work: Path) -> bool:
    """Whether a new PM session opens."""
    ended = checkout.run(
        ["python3", "zoo/busy_holder.py", "--seconds", "0"], log=work.with_suffix(".free.log"), timeout_s=20
    )
    return ended.code == 0


def gone(process: psutil.Process) -> bool:
    """Whether *process* ends by itself within `ENDS_WITHIN_S`; a zombie has ended."""
    deadline = time.monotonic() + ENDS_WITHIN_S
    while time.monotonic() < deadline:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.1)
    return False


def program_finished(party: Party) -> bool:
    """Whether the observed program came to its last line, which it prints after its loop."""
    deadline = time.monotonic() + LOOP_S + 15
    while time.monotonic() < deadline:
        if '"steps"' in party.log.read_text(errors="replace"):
            return True
        time.sleep(0.2)
    return False


def after_a_kill(outcome: Outcome, party: Party, *, killed_ns: int) -> None:
    """The checks that hold whoever was killed."""
    last = last_sample_ns(party.folder)
    outcome.checks["readable up to the kill"] = (
        last is not None and last > killed_ns - READABLE_WITHIN_S * 1e9
    )
    outcome.checks["device free"] = device_is_free(party.folder)
    report = party.folder.with_name(party.folder.name + "-report")
    ended = perfzero(
        "analyze", str(party.folder), "--output-dir", str(report), log=report.with_suffix(".log")
    )
    outcome.checks["analyze ends with 0"] = ended.code == 0
    outcome.said = f"{party.log.read_text(errors='replace')}\n{ended.output}"


def perfzero(*arguments: str, log: Path, timeout_s: float = 30.0) -> checkout.Ended:
    return checkout.run([*checkout.PERFZERO, *arguments], log=log, timeout_s=timeout_s)


# --- kills -----------------------------------------------------------------------------------


def recorder_killed(outcome: Outcome, work: Path) -> None:
    with recording(work) as party:
        killed_ns = time.time_ns()
        party.recorder.kill()
        outcome.code = party.recorder.wait(10)
        outcome.checks["sampler ends"] = gone(party.sampler)
        outcome.checks["program goes on to its end"] = program_finished(party)
        after_a_kill(outcome, party, killed_ns=killed_ns)


def sampler_killed(outcome: Outcome, work: Path) -> None:
    with recording(work) as party:
        killed_ns = time.time_ns()
        party.sampler.kill()
        outcome.checks["program goes on to its end"] = program_finished(party)
        outcome.code = checkout.finish(party.recorder, log=party.log, timeout_s=30).code
        outcome.checks["recorder returns the program's 0"] = outcome.code == 0
        after_a_kill(outcome, party, killed_ns=killed_ns)


def program_killed(outcome: Outcome, work: Path) -> None:
    with recording(work) as party:
        killed_ns = time.time_ns()
        party.program.kill()
        outcome.code = checkout.finish(party.recorder, log=party.log, timeout_s=30).code
        outcome.checks["recorder returns the program's signal"] = outcome.code in (137, -9)
        outcome.checks["sampler ends"] = gone(party.sampler)
        after_a_kill(outcome, party, killed_ns=killed_ns)


def sudo_parent_killed(outcome: Outcome, work: Path) -> None:
    """A parent that is not root cannot signal a sampler that is; the sampler must notice by itself."""
    if shutil.which("sudo") is None or subprocess.run(["sudo", "-n", "true"], check=False).returncode:
        outcome.skipped = "sudo -n does not work here"
        return
    log = work.with_suffix(".log")
    parent = checkout.start(["python3", "-c", SUDO_PARENT], log=log)
    started: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 20
        while "samples" not in log.read_text() and time.monotonic() < deadline and parent.poll() is None:
            time.sleep(0.1)
        outcome.checks["it samples"] = "samples" in log.read_text()
        started = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
        outcome.code = parent.wait(10)
        outcome.checks["sampler ends"] = bool(started) and all(gone(process) for process in started)
        outcome.checks["device free"] = device_is_free(work)
    finally:
        outcome.said = log.read_text(errors="replace")[-1500:]
        checkout.end_group(parent)
        for process in started:
            with suppress(psutil.Error):
                process.kill()


# --- what users run into ---------------------------------------------------------------------


def unprivileged(outcome: Outcome, work: Path) -> None:
    """Another user with a copy of the package: works where the driver lets everybody, says why where not."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        outcome.skipped = "needs root and setpriv"
        return
    work.mkdir()
    shutil.copytree(checkout.ROOT / "src", work / "src")
    shutil.copytree(checkout.ROOT / "zoo", work / "zoo")
    home = work / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    place = ["env", f"--chdir={home}", f"PYTHONPATH={work / 'src'}", f"HOME={home}"]
    program = ["python3", str(work / "zoo" / "fp32_gemm.py"), *SHORT[2:]]
    what = ["record", "--continuous", "-o", str(home / "recording"), "--", *program]
    ended = checkout.run([*user, *place, *checkout.PERFZERO, *what], log=work / "record.log", timeout_s=40)
    outcome.code, outcome.said = ended.code, ended.output
    # Only the program's own end is demanded; whether there are PM samples depends on the driver's setting.
    outcome.checks["program's exit code"] = ended.code == 0
    restricted = admin_only()
    if restricted is False:
        outcome.checks["PM samples, since the driver lets everybody"] = (
            last_sample_ns(home / "recording") is not None
        )
    outcome.said += f"\nRmProfilingAdminOnly: {restricted}"


def admin_only() -> bool | None:
    """Whether the driver keeps the counters for administrators; None where it does not say."""
    try:
        text = Path("/proc/driver/nvidia/params").read_text()
    except OSError:
        return None
    found = [line.rsplit(":", 1)[1].strip() for line in text.splitlines() if "RmProfilingAdminOnly" in line]
    return found[0] == "1" if found else None


def busy_device(outcome: Outcome, work: Path) -> None:
    """Another process holds the counters: the program runs all the same, and it is said what is missing."""
    holder_log = work.with_suffix(".holder.log")
    holder = checkout.start(["python3", "zoo/busy_holder.py", "--seconds", "40"], log=holder_log)
    try:
        deadline = time.monotonic() + 15
        while "holding" not in holder_log.read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        outcome.checks["the other holds the counters"] = "holding" in holder_log.read_text()
        ended = perfzero(
            "record", "--continuous", "-o", str(work), "--", *SHORT, log=work.with_suffix(".log")
        )
        outcome.checks["the other is not disturbed"] = holder.poll() is None
    finally:
        checkout.end_group(holder)
    outcome.code, outcome.said = ended.code, ended.output
    outcome.checks["it is said"] = any(word in ended.output.lower() for word in ("busy", "hold", "another"))
    outcome.checks["the program ends well"] = ended.code == 0 and '"steps"' in ended.output
    outcome.checks["no PM sample is claimed"] = last_sample_ns(work) is None


def missing_folder(outcome: Outcome, work: Path) -> None:
    ended = perfzero("analyze", str(work / "nothing"), log=work.with_suffix(".log"))
    outcome.code, outcome.said = ended.code, ended.output
    outcome.checks["exit code 4"] = ended.code == 4


def cut_short(outcome: Outcome, work: Path) -> None:
    """A recording whose largest stream lost its second half is still analysed."""
    copy = a_recording(work)
    largest = max(
        (path for path in copy.iterdir() if path.suffix != ".json"), key=lambda path: path.stat().st_size
    )
    with largest.open("r+b") as file:
        file.truncate(largest.stat().st_size // 2)
    ended = perfzero("analyze", str(copy), "--output-dir", str(work / "report"), log=work.with_suffix(".log"))
    outcome.code, outcome.said = ended.code, f"cut: {largest.name}\n{ended.output}"
    outcome.checks["exit code 0"] = ended.code == 0


def broken_manifest(outcome: Outcome, work: Path) -> None:
    """A manifest that is no JSON makes a recording unreadable, and that is said."""
    copy = a_recording(work)
    manifest = copy / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:40])
    ended = perfzero("analyze", str(copy), "--output-dir", str(work / "report"), log=work.with_suffix(".log"))
    outcome.code, outcome.said = ended.code, ended.output
    outcome.checks["exit code 4"] = ended.code == 4


def a_recording(work: Path) -> Path:
    """A copy of the recording that `program_killed` made, or of a fresh short one."""
    source = work.with_name("program-killed")
    if not (source / "manifest.json").exists():
        source = work.with_name(f"{work.name}-source")
        perfzero("record", "--continuous", "-o", str(source), "--", *SHORT, log=source.with_suffix(".log"))
    work.mkdir()
    return Path(shutil.copytree(source, work / "recording"))


SCENARIOS: dict[str, Callable[[Outcome, Path], None]] = {
    "recorder killed": recorder_killed,
    "sampler killed": sampler_killed,
    "program killed": program_killed,
    "sudo parent killed": sudo_parent_killed,
    "unprivileged": unprivileged,
    "busy device": busy_device,
    "missing folder": missing_folder,
    "cut short": cut_short,
    "broken manifest": broken_manifest,
}


if __name__ == "__main__":
    sys.exit(main())
