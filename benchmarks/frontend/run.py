"""
What do the front end's counters mean? Programs whose GPU waits for a known reason are sampled from outside.

    python benchmarks/frontend/run.py --out OUT [--only sleep,item]

`programs.py` says what keeps the GPU idle in each. The counters are asked for by their raw names, in
sets that fit one pass, one set after the other while the same program runs, 100 us a sample. The
tables give the mean of each over the samples in which no kernel ran, over those in which one always
ran, and over all: only a counter that is high in the first where its reason is the true one, and
nowhere else, may carry a rule.

Into OUT go frontend.json (the means), frontend.txt (the tables) and frontend.npz (all samples).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import numpy as np  # noqa: E402 (needs the path above)
from programs import CASES  # noqa: E402

from perfzero.sources._nvml import select  # noqa: E402
from perfzero.sources.cupti import CuptiDevice, CuptiError  # noqa: E402

ENGINE = "gpu__scheduler_engine_"
PCT = ".avg.pct_of_peak_sustained_elapsed"
ALWAYS = {"gr": f"gr__cycles_active{PCT}", "ce": f"{ENGINE}asyncce0_cycles_active{PCT}"}
SETS: dict[str, Mapping[str, str]] = {
    "sync": ALWAYS | {
        "empty": f"{ENGINE}gr_queue_sync_gpfifo_cycles_idle{PCT}",
        "sem": f"{ENGINE}gr_queue_sync_cycles_stalled_cmd_semacquire{PCT}",
        "wfi": f"{ENGINE}gr_queue_sync_cycles_stalled_cmd_wfi{PCT}",
        "released": f"{ENGINE}gr_queue_sync_cmd_semreleases.sum",
        "ctxsw": f"gpu__gr_cycles_active_cmd_ctxsw{PCT}",
        "launches": "gr__dispatch_count.sum",
        "rx": "pcie__read_bytes.sum",
        "tx": "pcie__write_bytes.sum",
    },
    "async": ALWAYS | {
        "empty": f"{ENGINE}gr_queue_async_gpfifo_cycles_idle{PCT}",
        "sem": f"{ENGINE}gr_queue_async_cycles_stalled_cmd_semacquire{PCT}",
        "wfi": f"{ENGINE}gr_queue_async_cycles_stalled_cmd_wfi{PCT}",
        "launches": "gr__dispatch_count.sum",
    },
    "engine": ALWAYS | {
        "empty": f"{ENGINE}gr_gpfifo_cycles_idle{PCT}",
        "sem": f"{ENGINE}gr_cycles_stalled_cmd_semacquire{PCT}",
        "wfi": f"{ENGINE}gr_cycles_stalled_cmd_wfi{PCT}",
        "fe_wfi": f"fe__cycles_stalled_cmd_wfi{PCT}",
    },
    "queues": ALWAYS | {
        "in_sync": f"gr__compute_cycles_active_queue_sync{PCT}",
        "in_async": f"gr__compute_cycles_active_queue_async{PCT}",
    },
}  # fmt: skip
PERIOD_NS = 100_000
WINDOW_S = 0.6
IDLE, BUSY = 0.02, 0.98


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "frontend")))
    p.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    p.add_argument("--gpu", default="0")
    args = p.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    device = CuptiDevice(select((args.gpu,))[0].uuid)
    means: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    lines: list[str] = []
    for case in args.only:
        try:
            found = study(device, case)
        except Exception as error:  # noqa: BLE001 - the other programs must still be measured
            lines.append(f"{case}: {type(error).__name__}: {error}")
            continue
        means[case] = {"cause": CASES[case], "program": found.pop("program")}
        for name, columns in found.items():
            arrays |= {f"{case}.{name}.{k}": np.asarray(v, np.float32) for k, v in columns.items()}
            means[case][name] = summary(columns)
            lines += table(case, name, means[case][name])
    (args.out / "frontend.json").write_text(json.dumps(means, indent=1) + "\n")
    np.savez_compressed(args.out / "frontend.npz", **arrays)
    (args.out / "frontend.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0


def study(device: CuptiDevice, case: str) -> dict[str, Any]:
    """The samples of each set while *case* runs, by column, and what the program said of itself."""
    seconds = len(SETS) * (WINDOW_S + 0.7) + 1.0
    command = [sys.executable, str(Path(__file__).with_name("programs.py")), case, "--seconds", str(seconds)]
    beside = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)]
    if case == "shared":
        beside.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    found: dict[str, Any] = {}
    try:
        for process in beside:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError("the program did not start")
        time.sleep(0.3)
        for name, metrics in SETS.items():
            found[name] = sample(device, metrics)
        found["program"] = [json.loads(process.communicate(timeout=30)[0]) for process in beside]
    finally:
        for process in beside:
            process.kill()
            process.wait()
    return found


def sample(device: CuptiDevice, metrics: Mapping[str, str]) -> dict[str, Any]:
    """`WINDOW_S` of *metrics*; those that this board cannot sample with the others are left out."""
    kept = dict(metrics)
    while True:
        device.enable()
        try:
            device.configure(list(kept.values()), period_ns=PERIOD_NS, buffer_bytes=512 << 20)
            device.start()
            break
        except CuptiError:
            device.disable()
            if len(kept) <= len(ALWAYS):
                raise
            kept.pop(list(kept)[-1])
    time.sleep(WINDOW_S)
    device.stop()
    raw = device.decode(int(1.3 * WINDOW_S * 1e9 / PERIOD_NS))
    device.disable()
    good = np.arange(len(raw.start_ns)) > 0
    good &= (raw.end_ns - raw.start_ns > 0) & (raw.end_ns - raw.start_ns < 3 * PERIOD_NS)
    columns: dict[str, Any] = {"t": (raw.start_ns[good] - raw.start_ns[good][0]) / 1e3}
    for i, (name, metric) in enumerate(kept.items()):
        columns[name] = raw.values[good, i] / (100.0 if metric.endswith(PCT) else 1.0)
    return columns


def summary(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Means over the idle samples, the busy ones and all, and how many of each there are."""
    gr = columns["gr"]
    parts = {"idle": gr < IDLE, "busy": gr > BUSY, "all": gr >= 0}
    return {
        part: {"share": float(np.mean(where))}
        | {k: float(np.mean(v[where])) for k, v in columns.items() if k != "t" and where.any()}
        for part, where in parts.items()
    }


def table(case: str, name: str, means: Mapping[str, Any]) -> list[str]:
    """One line per part of the time."""
    return [
        f"{case:17}{name:7}{part:5}" + " ".join(f"{k}={v:.3g}" for k, v in values.items())
        for part, values in means.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
