"""
What each kernel of one step reads and writes, by Nsight Compute: one pass, caches and clocks as they are.

    python benchmarks/attribution/truth.py --out OUT [--only resnet50_fp32]

Into OUT go truth-CASE.json.gz: a row per kernel in the order in which they ran, with its name, DRAM bytes
read and written, and duration in ns.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

from programs import CASES

METRICS = {
    "read_bytes": "dram__bytes_read.sum",
    "write_bytes": "dram__bytes_write.sum",
    "duration_ns": "gpu__time_duration.sum",
}

LIMIT_S = 100.0


def truth(case: str) -> list[dict[str, object]]:
    """The kernels of one step. Raises CalledProcessError, TimeoutExpired, and RuntimeError without ncu."""
    if shutil.which("ncu") is None:
        raise RuntimeError("Nsight Compute (ncu) is not on the PATH; it comes with the CUDA toolkit")
    done = subprocess.run(
        [
            "ncu", "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "demangled",
            "--metrics", ",".join(METRICS.values()), "--cache-control", "none", "--clock-control", "none",
            "--profile-from-start", "off", "--target-processes", "application-only",
            sys.executable, str(Path(__file__).with_name("programs.py")), case, "--one-step",
        ],
        capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    return rows(done.stdout)


def rows(output: str) -> list[dict[str, object]]:
    """*output* of ncu as rows; the second line of its table gives units."""
    at = output.index('"ID"')
    found = []
    for line in csv.DictReader(io.StringIO(output[at:])):
        if line["ID"]:
            numbers = {ours: float(line[name].replace(",", "")) for ours, name in METRICS.items()}
            found.append({"name": line["Kernel Name"], **numbers})
    return found


def write(case: str, kernels: list[dict[str, object]], folder: Path) -> None:
    """Leave the truth of *case* in *folder*."""
    with gzip.open(folder / f"truth-{case}.json.gz", "wt") as file:
        json.dump({"case": case, "kernels": kernels}, file)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--only", default=",".join(CASES))
    args = p.parse_args()
    wrong = sorted(set(args.only.split(",")) - set(CASES))
    if wrong:
        p.error(f"no such program: {', '.join(wrong)}. There are: {', '.join(CASES)}")
    args.out.mkdir(parents=True, exist_ok=True)
    failed = False
    for case in args.only.split(","):
        try:
            found = truth(case)
        except (subprocess.SubprocessError, RuntimeError, ValueError, KeyError) as error:
            said = getattr(error, "stdout", "") or ""
            print(f"{case}: {type(error).__name__} {error} {str(said)[-1500:]}", flush=True)
            failed = True
            continue
        write(case, found, args.out)
        read, written = (sum(float(str(k[n])) for k in found) / 1e9 for n in ("read_bytes", "write_bytes"))
        print(f"{case}: {len(found)} kernels, {read:.2f} GB read, {written:.2f} GB written", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
