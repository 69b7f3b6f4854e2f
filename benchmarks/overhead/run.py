"""
What does watching cost? Treatments alternate in blocks within one run of each program.

    python benchmarks/overhead/run.py --out OUT [--quick]

Programs: ResNet-50 training, a transformer, and a product at the board's power cap, all from the zoo;
they log the time of each step and know nothing of this. Treatments, estimates and intervals are
described in estimate.py. Then the CPU time of recorder and sampler is read from outside while `perfzero
record` watches a program: with the default policy one at the power cap and one far from it, since it treats
them unlike, and the latter with --continuous (1 kHz). These runs are short and the default policy looks
closest at the start of a run; what it comes to in five minutes is put together from the short run with its
start and end, the rate of its quiet last quarter, in which no window falls, and the CPU time of one window
for each that the policy plans after that: at the cap with its session, far from it in the one that is open.
The worse of the two counts. Our own sources are compiled beforehand, as those of an installed package are.

Into OUT go overhead.json (figures, and for each program its blocks and cycles), overhead.txt (the
tables) and overhead-data.tar.gz (step times and logs).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "src"))

import checkout  # noqa: E402 (needs the path above)
import numpy as np  # noqa: E402
import psutil  # noqa: E402
import step_log  # noqa: E402
from estimate import Block, Estimate, bootstrap, cycle_losses, policy_cost, slowdown  # noqa: E402
from session import CapWatch, Session, find_gpu, plan_of, timed, windows_after  # noqa: E402

from perfzero.errors import PerfzeroError  # noqa: E402
from perfzero.record.policy import DEFAULTS, Settings  # noqa: E402
from perfzero.store.reader import open_recording  # noqa: E402
from perfzero.values import jsonable  # noqa: E402

PROGRAMS: dict[str, tuple[str, ...]] = {
    "resnet50": ("resnet50.py", "--channels-last"),
    "transformer": ("transformer.py",),
    "bf16_gemm": ("bf16_gemm.py",),
    "tiny_graph": ("tiny_kernels.py", "--graph"),
}
GUARD_S = 0.3
"""After each change of treatment, before its block begins: clocks and power settle."""

CYCLE_PAUSE_S = 0.35
RUN_S = 300.0
"""The length of the run for which the default policy's cost is given."""

CAPPED_FROM = 0.05
"""A program counts as near its power cap from this share of readings on: the policy needs only a few."""

WINDOWS = 4
"""Windows whose CPU time is averaged."""

QUIET = 0.75
"""From this share of a short run on nothing is looked at closely any more."""

WATCHED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default, at the cap": (("bf16_gemm.py",), ()),
    "default, far from it": (("tiny_kernels.py", "--graph"), ()),
    "continuous": (("tiny_kernels.py", "--graph"), ("--continuous",)),
}
"""What is watched for the CPU time, and with which options; whether it was at the cap the run itself says."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured. Times in seconds; `groups` is even: each runs forwards, then backwards."""

    groups: int = 10
    block_s: float = 2.0
    cycles: int = 34
    warmup_s: float = 4.0
    program_limit_s: float = 135.0
    default_s: float = 40.0
    continuous_s: float = 20.0


QUICK = Plan(groups=4, block_s=1.5, cycles=6, warmup_s=3.0, default_s=25.0, continuous_s=12.0)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "overhead")))
    p.add_argument("--quick", action="store_true", help="fewer blocks and cycles; wider intervals")
    p.add_argument("--only", type=lambda text: text.split(","), default=list(PROGRAMS), help="programs")
    p.add_argument("--no-cpu", action="store_true", help="leave out the CPU time of sampler and recorder")
    p.add_argument("--cpu-only", action="store_true", help="only the CPU time of sampler and recorder")
    p.add_argument("--gpu", type=int, default=0, help="NVML index")
    p.add_argument("--seed", type=int, default=0, help="of the order of blocks and the bootstrap")
    p.add_argument("--budget", type=float, default=470.0, help="nothing is begun after this many seconds")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    wrong = sorted(set(args.only) - set(PROGRAMS))
    if wrong:
        print(f"no such program: {', '.join(wrong)}. There are: {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="perfzero-overhead-"))
    plan = QUICK if args.quick else Plan()
    gpu = find_gpu(args.gpu)
    document: dict[str, Any] = {
        "gpu": gpu.name, "driver": gpu.driver, "power_limit_w": gpu.power_limit_w, "plan": asdict(plan),
        "programs": {}, "cpu": {}, "failures": {},
    }  # fmt: skip
    for name in () if args.cpu_only else args.only:
        left = args.budget - (time.monotonic() - begun)
        if left < 45:
            document["failures"][name] = "not run: out of time"
            continue
        try:
            limit = time.monotonic() + min(plan.program_limit_s, left)
            document["programs"][name] = measure(
                PROGRAMS[name], gpu=gpu, plan=plan, rng=random.Random(args.seed),
                log=work / f"{name}.steps", until=limit,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - the other programs must still be measured
            document["failures"][name] = f"{type(error).__name__}: {error}"
        save(document, out=args.out, work=work, seed=args.seed)
    if not args.no_cpu:
        compile_sources()
    for policy, (program, options) in WATCHED.items():
        seconds = plan.continuous_s if options else plan.default_s
        if args.no_cpu or args.budget - (time.monotonic() - begun) < seconds + 15:
            continue
        try:
            log = work / f"cpu-{policy.replace(', ', '-').replace(' ', '-')}.log"
            document["cpu"][policy] = cpu_time(program, options, seconds=seconds, log=log)
        except Exception as error:  # noqa: BLE001 - what was measured so far must still be told
            document["failures"][f"cpu {policy}"] = f"{type(error).__name__}: {error}"
    if not args.no_cpu and args.budget - (time.monotonic() - begun) > 15:
        try:
            document["window_cpu_s"] = {"capped": window_cpu(gpu, capped=True)}
            document["window_cpu_s"]["uncapped"] = window_cpu(gpu, capped=False)
        except Exception as error:  # noqa: BLE001 - what was measured so far must still be told
            document["failures"]["cpu of a window"] = f"{type(error).__name__}: {error}"
    with tarfile.open(args.out / "overhead-data.tar.gz", "w:gz") as archive:
        archive.add(work, arcname="overhead-data")
    print(save(document, out=args.out, work=work, seed=args.seed))
    return 1 if document["failures"] else 0


# --- the program and the treatments ----------------------------------------------------------


def measure(
    program: Sequence[str], *, gpu: Any, plan: Plan, rng: random.Random, log: Path, until: float
) -> dict[str, Any]:
    """Run *program*, alternate the treatments, then open and close; returns blocks and cycles (ns)."""
    cap = CapWatch(gpu)
    session = Session(gpu)
    try:
        with running(program, log=log, warmup_s=plan.warmup_s) as alive:
            # The cycles' share of the time is kept back, at about 1 s each.
            blocks = list(alternate(session, cap, plan=plan, rng=rng, until=until - 1.0 * plan.cycles))
            capped = cap.share()
            cycles = open_and_close(session, count=plan.cycles, until=until)
            if not alive():
                raise RuntimeError(f"the program ended early; see {log.with_suffix('.log').name}")
    finally:
        session.quit()
        cap.close()
    if not session.samples:
        raise RuntimeError("the session delivered no sample, so nothing was measured")
    return {
        "steps": log.name, "capped_share": capped, "samples": session.samples,
        "blocks": [asdict(block) for block in blocks], "cycles": cycles,
    }  # fmt: skip


@contextmanager
def running(program: Sequence[str], *, log: Path, warmup_s: float) -> Iterator[Any]:
    """The zoo's program in its steady loop; ended afterwards (it is ours). Yields whether it still runs."""
    name, *arguments = program
    command = ["python3", f"zoo/{name}", "--seconds", "600", "--log", str(log.resolve()), *arguments]
    log.unlink(missing_ok=True)
    process = checkout.start(command, log=log.with_suffix(".log"))
    try:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.stat().st_size):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the program did not start; see {log.with_suffix('.log').name}")
            time.sleep(0.1)
        time.sleep(warmup_s)
        yield lambda: process.poll() is None
    finally:
        checkout.end_group(process)


def orders(groups: int, rng: random.Random) -> Iterator[tuple[str, ...]]:
    """The order of treatments in each group: at random, and then the same backwards."""
    for _ in range(groups // 2):
        order = ["sampling", "open", "bare"]
        rng.shuffle(order)
        yield tuple(order)
        yield tuple(reversed(order))


def alternate(
    session: Session, cap: CapWatch, *, plan: Plan, rng: random.Random, until: float
) -> Iterator[Block]:
    """Blocks of treatments, group by group, as long as a whole group still fits before *until*."""
    now = "bare"
    group_s = 3 * (plan.block_s + GUARD_S) + 2.0
    for group, order in enumerate(orders(plan.groups, rng)):
        if time.monotonic() + group_s > until:
            break
        for treatment in order:
            change(session, now, treatment)
            now = treatment
            time.sleep(GUARD_S)
            start = time.time_ns()
            time.sleep(plan.block_s / 2)
            cap.look()
            time.sleep(plan.block_s / 2)
            yield Block(group, treatment, start, time.time_ns())
    change(session, now, "bare")


def change(session: Session, old: str, new: str) -> None:
    """From one treatment to another, by the fewest calls."""
    if old == new:
        return
    if old == "sampling":
        session.stop()
    if old == "bare":
        session.open()
    if new == "bare":
        session.close()
    if new == "sampling":
        session.start()


def open_and_close(session: Session, *, count: int, until: float) -> list[tuple[int, int]]:
    """Cycles of opening and closing with a pause before each and after the last: their times in ns."""

    def cycle() -> None:
        session.open()
        session.close()

    cycles = []
    time.sleep(1.0)
    while len(cycles) < count and time.monotonic() + 1.5 < until:
        time.sleep(CYCLE_PAUSE_S)
        cycles.append(timed(cycle))
    time.sleep(1.0)
    return cycles


# --- CPU time of sampler and recorder --------------------------------------------------------


POLICY_ALONE = ("--no-agent", "--no-stacks")
"""A look and the reading of stacks come once in a run, however long it is: they are stated apart."""


def compile_sources() -> None:
    """Compile our sources to bytecode, so that their compilation is nobody's CPU time."""
    command = ["python3", "-m", "compileall", "-q", str(ROOT / "src")]
    subprocess.run(command, env=checkout.environment(), check=False, stdout=subprocess.DEVNULL)


def cpu_time(
    program: Sequence[str], options: Sequence[str], *, seconds: float, log: Path
) -> dict[str, float | bool]:
    """
    CPU time of recorder and sampler while `perfzero record` watches *program*, seen from outside.

    `share` is in cores, over the time in which the program ran its loop: interpreters that start and
    files that are closed are not in it, but in `total_s`.
    """
    folder = Path(tempfile.mkdtemp(prefix="perfzero-overhead-")) / "recording"
    steps = folder.parent / "steps"
    name, *arguments = program
    command = [
        *checkout.PERFZERO, "record", "-o", str(folder), *POLICY_ALONE, *options, "--",
        "python3", f"zoo/{name}", "--seconds", str(seconds), "--log", str(steps), *arguments,
    ]  # fmt: skip
    process = checkout.start(command, log=log)
    deadline = time.monotonic() + seconds + 60
    seen: dict[int, float] = {}
    curve: list[tuple[float, float]] = []
    try:
        while process.poll() is None and time.monotonic() < deadline:
            seen |= own_cpu_times(process.pid)
            if steps.exists() and steps.stat().st_size:
                curve.append((time.monotonic(), sum(seen.values())))
            time.sleep(0.25)
    finally:
        if process.poll() is None:
            checkout.end_group(process)
    if process.returncode != 0:
        raise RuntimeError(f"perfzero record ended with {process.returncode}; see {log.name}")
    log.with_suffix(".curve").write_text("".join(f"{t - curve[0][0]:.2f} {s:.3f}\n" for t, s in curve))
    return evaluated(curve, seen, recorder=process.pid, seconds=seconds, folder=folder)


def evaluated(
    curve: Sequence[tuple[float, float]],
    seen: dict[int, float],
    *,
    recorder: int,
    seconds: float,
    folder: Path,
) -> dict[str, float | bool]:
    """The figures of a run whose program was in its loop for *seconds* from the first point of *curve* on."""
    inside = [point for point in curve if point[0] <= curve[0][0] + seconds]
    wall = inside[-1][0] - inside[0][0]
    quiet = [point for point in inside if point[0] >= inside[0][0] + QUIET * wall]
    windows = open_recording(folder).windows()
    cost = open_recording(folder).manifest.cost
    # The last quarter second is not seen from outside, but the recorder counts nearly all of it.
    told = 0.0 if cost is None else cost.recorder_cpu_s + cost.sampler_cpu_s
    return {
        "recorder_s": seen[recorder],
        "wall_s": wall,
        "quiet_share": (quiet[-1][1] - quiet[0][1]) / (quiet[-1][0] - quiet[0][0]),
        "sampled_share": sum(window.end_ns - window.start_ns for window in windows) / 1e9 / wall,
        "share": (inside[-1][1] - inside[0][1]) / wall,
        "total_s": max(sum(seen.values()), told),
        # Only far from the cap the policy has a dense stretch.
        "capped": not any(window.kind == "dense" for window in windows),
    }


def window_cpu(gpu: Any, *, capped: bool) -> float:
    """
    CPU time in s that the sampler takes for one window of the default policy after its close look.

    Near the cap that is all counters in a session of its own, else the cheaper ones in one that is open.
    """
    session = Session(gpu)
    length_s = DEFAULTS.capped_window_s if capped else DEFAULTS.window_s
    period_ns = Settings().period_ns
    try:
        session.open(period_ns=period_ns, lean=not capped)  # the first one also loads and chooses
        if capped:
            session.close()
        before = cpu_seconds(session.pid)
        for _ in range(WINDOWS):
            if capped:
                session.open(period_ns=period_ns)
            session.start()
            time.sleep(length_s)
            session.stop()
            if capped:
                session.close()
        after = cpu_seconds(session.pid)
    finally:
        session.quit()
    return (after - before) / WINDOWS


def five_minutes(cpu: dict[str, float], window_s: float, *, planned: int) -> float:
    """The CPU share of a run of RUN_S from that of a short one; *planned* windows are still to come."""
    rest = RUN_S - cpu["wall_s"]
    return (cpu["total_s"] + rest * cpu["quiet_share"] + planned * window_s) / RUN_S


def cpu_seconds(pid: int) -> float:
    """User and system time in s of the process *pid*, to the nanosecond: psutil's is to the hundredth."""
    return time.clock_gettime((~pid << 3) | 2)  # the number that clock_getcpuclockid(3) makes of it


def own_cpu_times(recorder: int) -> dict[int, float]:
    """User and system time in s of the recorder and its children, the observed program left out, by pid."""
    found: dict[int, float] = {}
    waiting = [recorder]
    while waiting:
        pid = waiting.pop()
        try:
            process = psutil.Process(pid)
            if pid != recorder and any("zoo/" in word for word in process.cmdline()[:3]):
                continue
            found[pid] = cpu_seconds(pid)
            waiting += [child.pid for child in process.children()]
        except (psutil.Error, OSError):
            continue
    return found


# --- results ---------------------------------------------------------------------------------


def save(document: dict[str, Any], *, out: Path, work: Path, seed: int) -> str:
    """Evaluate what has been measured so far, write both files, and return the tables."""
    lines = [
        f"{document['gpu']}, driver {document['driver']}; slow-downs in %, with 95 % intervals",
        f"{'program':13}{'step ms':>9}{'capped':>7}{'n':>4}  {'sampling at 1 kHz':25}{'session open':25}"
        f"{'one open+close, ms':25}default policy",
    ]
    rng = np.random.default_rng(seed)
    losses: list[float] = []
    for name, run in document["programs"].items():
        blocks = [Block(**block) for block in run["blocks"]]
        steps = step_log.read_steps(work / run["steps"])
        lost = cycle_losses(steps, run["cycles"])
        losses += [value for value in lost.tolist() if math.isfinite(value)]
        figures = {
            "sampling": slowdown(steps, blocks, treatment="sampling", rng=rng),
            "open": slowdown(steps, blocks, treatment="open", rng=rng),
            "cycle": bootstrap(lost[np.isfinite(lost)], rng=rng),
        }
        kind = "capped" if run["capped_share"] >= CAPPED_FROM else "uncapped"
        planned = asdict(plan_of(capped=kind == "capped", run_s=RUN_S))
        figures["default"] = policy_cost(figures, **planned, run_s=RUN_S)
        run["policy_plan"] = planned
        run["step_ms_median"] = float(np.median(steps["ms"])) if len(steps) else math.nan
        run["policy"] = kind
        run["figures"] = {key: figure(estimate) for key, estimate in figures.items()}
        lines.append(
            f"{name:13}{run['step_ms_median']:9.3f}{run['capped_share']:7.2f}{figures['sampling'].n:4}  "
            f"{shown(figures['sampling'], 100):24} {shown(figures['open'], 100):24} "
            f"{shown(figures['cycle'], 1e3, 2):24} {shown(figures['default'], 100)} ({kind})"
        )
    if losses:
        together = bootstrap(np.array(losses), rng=rng)
        document["cycle_all"] = figure(together)
        lines.append(f"open+close, all programs, {together.n} cycles: {shown(together, 1e3, 2)} ms")
    for policy_name, cpu in document["cpu"].items():
        lines.append(
            f"sampler and recorder, {policy_name}: {100 * cpu['share']:.2f} % of a core "
            f"over {cpu['wall_s']:.0f} s, {cpu['sampled_share']:.0%} of them sampled "
            f"(with start and end {cpu['total_s']:.2f} s of CPU)"
        )
    for policy_name, cpu in document["cpu"].items():
        if policy_name == "continuous":
            cpu["share_run"] = five_minutes(cpu, 0.0, planned=0)
            lines.append(f"{policy_name}, in a run of {RUN_S:.0f} s: {cpu['share_run']:.2%} of a core")
        elif "window_cpu_s" in document:
            window_s = document["window_cpu_s"]["capped" if cpu["capped"] else "uncapped"]
            later = windows_after(cpu["wall_s"], run_s=RUN_S, capped=cpu["capped"])
            cpu["share_run"] = five_minutes(cpu, window_s, planned=later)
            lines.append(
                f"{policy_name} ({'capped' if cpu['capped'] else 'not capped'}), in a run of {RUN_S:.0f} s "
                f"with {later} more windows of {window_s:.3f} s of CPU: {cpu['share_run']:.2%} of a core"
            )
    known = [c["share_run"] for n, c in document["cpu"].items() if n != "continuous" and "share_run" in c]
    if known:
        document["cpu_share_default_run"] = max(known)
    lines += [f"FAILED {name}: {reason}" for name, reason in document["failures"].items()]
    text = "\n".join(lines)
    (out / "overhead.json").write_text(json.dumps(jsonable(document), indent=1) + "\n")
    (out / "overhead.txt").write_text(text + "\n")
    return text


def figure(estimate: Estimate) -> dict[str, float | int]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}


def shown(estimate: Estimate, scale: float, digits: int = 3) -> str:
    value, low, high = (scale * x for x in (estimate.value, estimate.low, estimate.high))
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PerfzeroError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
