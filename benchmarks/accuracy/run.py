"""
Are the counters true? Holds what perfzero sampled from outside against programs of known size.

Each burst of `known.py` lies between two silences, so *all* samples between the middles of the silences
belong to it, and totals are compared with totals: no rate, no window, no edge to choose.
The ratio sampled / known is given as its mean over the repeats with a 95 % interval (Student's t).

Arithmetic is not counted by the hardware; it is derived, and so is checked as derived: share of time
in which the tensor pipes worked x the measured clock x SMs x FLOP per clock and SM (4096 for dense bf16
on compute capability 9.0), integrated over the samples.

Kernels that are launched while samples are read out are not counted (`FRONT_END` in sources/cupti.py): such a
sample, one in 250 at 1 kHz, is unknown and has the mean of its two neighbours instead.

PCIe counters hold more than the program's bytes: each transaction-layer packet carries a header. The
model used to correct for it is

    counted / payload = 1 + header / maximal payload

with the maximal payload read from the device's own PCIe configuration (256 bytes where it cannot be read) and
headers of 12 bytes for what the GPU receives (completions, three double words) and 16 bytes for
what it sends (writes to 64-bit addresses, four double words; PCI Express base specification,
"Transaction Layer Specification"). Framing, sequence number and checksum, which belong to the
link layer, appear not to be counted: 1 + 12/256 = 1.047 is what was seen.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "src"))

import checkout  # noqa: E402 (needs the path above)
import known  # noqa: E402

from perfzero.errors import PerfzeroError  # noqa: E402
from perfzero.values import jsonable  # noqa: E402

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfzero.values import Gpu, Samples

DENSE_BF16 = {(8, 0): 2048, (9, 0): 4096, (10, 0): 8192}
"""Dense bf16 FLOP per clock and SM by compute capability (NVIDIA's architecture white papers)."""

HEADER_BYTES = {"pcie_rx_bytes": 12, "pcie_tx_bytes": 16}
USUAL_PAYLOAD = 256

MARGIN = {
    "dram_read_bytes": 0.01,
    "dram_write_bytes": 0.01,
    "pcie_rx_bytes": 0.02,
    "pcie_tx_bytes": 0.02,
    "flops": 0.03,
    "launches": 0.01,
}
"""By how much the (corrected) ratio may be off 1 before this benchmark fails."""

STUDENT_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""Two-sided 95 % quantile of Student's t by degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one case. `raw` and `ratio` are sampled / known; `ratio` is corrected (PCIe only)."""

    case: str
    quantity: str
    known: float
    raw: float
    ratio: float
    interval: float
    repeats: int
    expected_raw: float
    ok: bool


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "accuracy")), help="results")
    p.add_argument("--repeats", type=int, default=6)
    p.add_argument("--timeout", type=float, default=85.0, help="limit of the recorded run, in seconds")
    p.add_argument("--from-recording", type=Path, help="evaluate an earlier recording; needs --log")
    p.add_argument("--log", type=Path, help="the log of bursts that belongs to --from-recording")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.from_recording:
        return evaluate(args.from_recording, log=args.log, out=args.out)
    # The recording is large and stays behind; only results go to --out.
    folder = Path(tempfile.mkdtemp(prefix="perfzero-accuracy-"))
    log = folder / "bursts.jsonl"
    command = [
        *checkout.PERFZERO, "record", "--continuous", "--no-agent", "--no-stacks",
        "-o", str(folder / "recording"), "--",
        "python3", "benchmarks/accuracy/known.py", "--log", str(log.resolve()),
        "--repeats", str(args.repeats),
    ]  # fmt: skip
    ended = checkout.run(command, log=folder / "record.log", timeout_s=args.timeout)
    if ended.code != 0:
        print(f"recording ended with {ended.code} after {ended.wall_s:.0f} s:\n{ended.output[-2000:]}")
        # A log of bursts may still hold whole repeats worth evaluating.
        if not log.exists() or not log.stat().st_size:
            return 1
    return evaluate(folder / "recording", log=log, out=args.out)


def load(recording: Path) -> tuple[Gpu, Samples]:
    """The GPU and its PM samples. The only place here that knows how recordings are read."""
    from perfzero.store.reader import open_recording
    from perfzero.values import Samples

    recorded = open_recording(recording)
    observation = recorded.observation(recorded.gpus[0].index)
    # A zoom burst takes the place of regular samples for its time; together they are complete.
    return observation.gpu, Samples.concat([observation.pm, observation.zoom])


def evaluate(recording: Path, *, log: Path, out: Path) -> int:
    gpu, samples = load(recording)
    payload = max_payload(gpu.uuid)
    bursts = [json.loads(line) for line in log.read_text().splitlines()]
    rows = compare(bursts, samples=samples, gpu=gpu, payload=payload)
    text = table(rows, gpu=gpu, payload=payload)
    print(text)
    document = {
        "gpu": gpu.name, "driver": gpu.driver, "max_payload_bytes": payload,
        "rows": [asdict(row) for row in rows], "bursts": bursts,
    }  # fmt: skip
    (out / "accuracy.json").write_text(json.dumps(jsonable(document), indent=1) + "\n")
    (out / "accuracy.txt").write_text(text + "\n")
    return 0 if rows and all(row.ok for row in rows) else 1


def compare(bursts: Sequence[Mapping], *, samples: Samples, gpu: Gpu, payload: int) -> list[Row]:  # type: ignore[type-arg]
    """
    One row per case and quantity, in the order in which they first occur.

    Bursts from before the first sample are left out; every later one must be there.
    """
    ratios: dict[tuple[str, str], list[float]] = {}
    amounts: dict[tuple[str, str], float] = {}
    half_ns = round(known.GAP_S * 0.5e9)
    for burst in bursts:
        if not len(samples) or burst["start_ns"] < samples.start_ns.min():
            continue
        inside = samples.between(burst["start_ns"] - half_ns, burst["end_ns"] + half_ns)
        for quantity, amount in burst["amounts"].items():
            key = (burst["case"], quantity)
            sampled = total(inside, quantity, gpu=gpu, busy=(burst["start_ns"], burst["end_ns"]))
            ratios.setdefault(key, []).append(sampled / amount)
            amounts[key] = amount
    return list(_rows(ratios, amounts, payload))


def _rows(
    ratios: Mapping[tuple[str, str], Sequence[float]], amounts: Mapping[tuple[str, str], float], payload: int
) -> Iterator[Row]:
    for (case, quantity), seen in ratios.items():
        expected = 1 + HEADER_BYTES.get(quantity, 0) / payload
        mean, interval = mean_and_interval(seen)
        ratio = mean / expected
        ok = abs(ratio - 1) <= MARGIN[quantity]  # False for NaN: what was not measured did not agree
        yield Row(case, quantity, amounts[case, quantity], mean, ratio, interval, len(seen), expected, ok)


def total(samples: Samples, quantity: str, *, gpu: Gpu, busy: tuple[int, int]) -> float:
    """
    The amount of *quantity* in *samples*; NaN if a sample of the interval *busy* lacks it or there is none.

    In the silences a missing value (0 cycles of a sleeping unit) stands for nothing counted.
    """
    import numpy as np

    if quantity == "flops":
        per_clock = DENSE_BF16.get(gpu.compute_capability or (0, 0), math.nan) * (gpu.sm_count or math.nan)
        cycles = samples.column("gpc_clock") * samples.duration_s
        amount = samples.column("tensor_active") * cycles * per_clock
    elif quantity == "launches":
        amount = between_neighbours(samples.column(quantity))
    else:
        amount = samples.column(quantity)
    inside = (samples.end_ns > busy[0]) & (samples.start_ns < busy[1])
    if not inside.any() or np.isnan(amount[inside]).any():
        return math.nan
    return float(np.nansum(amount))


def between_neighbours(values: Sequence[float]) -> NDArray[np.float64]:
    """*values* with the mean of its two neighbours for a lone NaN; two in a row stay unknown."""
    import numpy as np

    known = np.asarray(values, np.float64).copy()
    lone = np.flatnonzero(np.isnan(known))
    for i in lone[(lone > 0) & (lone < len(known) - 1)]:
        known[i] = (values[i - 1] + values[i + 1]) / 2
    return known


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean and the half width of its 95 % interval (NaN below two values)."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    t = STUDENT_95.get(len(values) - 1, 1.96)
    return mean, t * statistics.stdev(values) / math.sqrt(len(values))


def max_payload(uuid: str) -> int:
    """The maximal payload in bytes for which the GPU's PCIe link is configured; 256 where unreadable."""
    try:
        address = subprocess.run(
            ["nvidia-smi", f"--id={uuid}", "--query-gpu=pci.bus_id", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout.strip().lower()[-12:]  # fmt: skip
        config = Path(f"/sys/bus/pci/devices/{address}/config").read_bytes()
    except (OSError, subprocess.SubprocessError):
        return USUAL_PAYLOAD
    return payload_of(config) or USUAL_PAYLOAD


def payload_of(config: bytes) -> int | None:
    """Max_Payload_Size of a PCI configuration space: Device Control of the PCI Express capability (0x10)."""
    at = config[0x34] & 0xFC if len(config) > 0x34 else 0
    for _ in range(48):  # a chain in 256 bytes is never longer
        if at < 0x40 or at + 10 > len(config):
            return None
        if config[at] == 0x10:
            return int(128 << (config[at + 8] >> 5 & 7))
        at = config[at + 1] & 0xFC
    return None


def table(rows: Sequence[Row], *, gpu: Gpu, payload: int) -> str:
    lines = [
        f"{gpu.name}, driver {gpu.driver}, PCIe payload {payload} bytes; sampled / known, 95 % interval",
        f"{'case':24}{'quantity':18}{'known':>11}{'raw':>9}{'corrected':>11}{'±':>9}{'n':>4}",
    ]
    for row in rows:
        lines.append(
            f"{row.case:24}{row.quantity:18}{row.known:11.4g}{row.raw:9.4f}{row.ratio:11.4f}"
            f"{row.interval:9.4f}{row.repeats:4}  {'OK' if row.ok else 'FAIL'}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PerfzeroError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
