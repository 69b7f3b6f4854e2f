"""
What it takes to export a large recording: time, size and memory of each format, each in a process of its own.

    python benchmarks/report/large.py LARGE
    python benchmarks/report/export.py LARGE --out results [--formats perfetto,csv,json,parquet]

Analysing comes before every export; what it takes is told apart. Memory is the process's highest resident
set, of which the analysis has its own part: so "beyond" is by how much the export raised it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

FORMATS = ("perfetto", "csv", "json", "parquet")

ONE = """
import json, resource, sys, time
from pathlib import Path
from perfzero.cli.export import ExportFormat, _write
from perfzero.report.analysis import judged_report

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

path, kind, to = Path(sys.argv[1]), ExportFormat(sys.argv[2]), Path(sys.argv[3])
began = time.perf_counter()
report = judged_report(path)
judged, before = time.perf_counter(), peak()
_write(kind, path, report, to, every_sample=False, tell=lambda what: None)
written = time.perf_counter()
files = [to] if to.is_file() else list(to.iterdir())
print(json.dumps({
    "analysis_s": judged - began,
    "export_s": written - judged,
    "bytes": sum(file.stat().st_size for file in files),
    "peak_bytes": peak(),
    "beyond_bytes": peak() - before,
}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recording", type=Path)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(arguments)
    results: dict[str, dict[str, Any]] = {}
    print(f"{'format':10} {'analysis':>9} {'export':>8} {'size':>10} {'peak':>8} {'beyond':>8}")
    for kind in args.formats.split(","):
        results[kind] = found = measure(args.recording, kind)
        print(
            f"{kind:10} {found['analysis_s']:7.1f} s {found['export_s']:6.1f} s "
            f"{found['bytes'] / 1e6:7.1f} MB {found['peak_bytes'] / 1e9:5.2f} GB "
            f"{found['beyond_bytes'] / 1e9:5.2f} GB",
            flush=True,
        )
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "export.json").write_text(json.dumps(results, indent=1) + "\n")
    return 0


def measure(recording: Path, kind: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-c", ONE, str(recording), kind, str(Path(folder) / "export")],
            check=True,
            stdout=subprocess.PIPE,
        )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
