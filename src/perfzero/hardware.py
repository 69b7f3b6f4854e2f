"""
What a GPU can do at most: arithmetic, device memory, L2 and PCIe.

Peaks are computed, not looked up: SMs x FLOP per clock and SM x the *measured* clock, and
2 x memory clock x bus width. That reproduces the data sheets (`DATA_SHEETS`, checked by a
test) and stays right for the power-capped, floor-swept or renamed GPU at hand, which a table
of models does not. A peak that cannot be known is NaN.

No program reaches a peak. The *practical roofs* (`Roof`) say which share of it is the most
that has been seen, and where. What `perfzero calibrate` measured on the GPU at hand (`calibrated`)
goes before them.

Sources: FLOP per clock from the arithmetic-throughput table of the CUDA C++ programming
guide and NVIDIA's architecture white papers (dense, FP32 accumulation); PCIe rates from the
PCI Express base specification; the practical roofs were measured on an H200.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from perfzero.limits import CHOICE, Limit
from perfzero.values import Gpu

Dtype = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
TENSOR_DTYPES: frozenset[str] = frozenset({"tf32", "fp16", "bf16", "fp8"})
"""Types that are multiplied by the tensor cores; the others run on the FP64 and FP32 pipes."""

UNKNOWN_FAMILY = "unknown"


@dataclass(frozen=True, slots=True)
class Roof:
    """The share of a peak that is reached in practice, and how that is known."""

    share: float
    reason: str


DRAM_ROOF = Roof(
    0.895,
    "A chain of elementwise kernels on an H200 moved 4.30 of 4.81 TB/s (89.4 %), by its own count and by "
    "the counters; a device copy 87.3 %. NVML reports a bus of 6016 bits for that board. Refresh and "
    "read/write turnarounds take the rest. Not measured on other GPUs, where 0.80 to 0.93 has been reported.",
)
TENSOR_ROOF = Roof(
    0.92, "An 8192³ bf16 product on an H200 kept the tensor pipes active for 91.9 % of the cycles."
)
PCIE_ROOF = Roof(
    0.918,
    "A pinned copy to an H200 over PCIe 5.0 x16 read 57.9 of 63.0 GB/s in the counters, which include "
    "the protocol.",
)
PCIE_PAYLOAD_ROOF = Roof(0.877, "The same copy carried 55.3 GB/s of the program's own bytes.")
FMA_ROOF = Roof(
    0.92, "Not measured: FP32 and FP64 pipes are taken to be as busy in a large product as the tensor's."
)
L2_ROOF_GH100 = Roof(
    0.594,
    "H200, 2026-11-29: sums over rows of 16 MiB that stay in the L2 take in 9.93 TB/s, by the program's bytes, "
    "of `l2_read_limit_bytes_per_s` at the highest clock; an elementwise chain there 3.6 TB/s.",
)


# --- what was measured on this GPU ----------------------------------------------------------

CALIBRATED: Mapping[str, str] = {
    "unix_s": "when it was measured, Unix seconds",
    "dram": "device memory, reads and writes together, bytes/s",
    "l2": "what the L2 delivers to the SMs, bytes/s",
    "pcie_rx": "pinned copies to the GPU, the program's bytes as a share of what the link carries raw",
    "pcie_tx": "the same from the GPU",
    "bf16": "a large product, as a share of the peak at the clock it ran at",
    "fp16": "the same in fp16",
    "tf32": "the same in tf32",
    "fp32": "the same in fp32 without the tensor cores",
}
"""What `Gpu.calibrated` may hold, by name, with meaning and unit."""

PLAUSIBLE: Annotated[tuple[float, float], Limit("ratio", CHOICE)] = (0.3, 1.1)
"""
Bounds of a measured roof as a share of what is computed. Below, something else was at work meanwhile;
above, the clock, the bus or the number itself is wrong. A tenth is left for clocks that NVML rounds.
"""

PLAUSIBLE_L2: Annotated[tuple[float, float], Limit("ratio", CHOICE)] = (0.1, 1.1)
"""The same for the L2, which is held against a bound that no chip comes near: 5 of 20 TB/s on an RTX 4090."""

PLAUSIBLE_BYTES_PER_S: Annotated[tuple[float, float], Limit("bytes/s", CHOICE)] = (1e9, 1e15)
"""The same for bytes/s of a GPU that says too little about itself for a peak to be computed."""

PLAUSIBLE_UNIX_S = (1e9, 1e10)
"""The same for the time of the measurement: 2001 to 2286."""


def calibrated(gpu: Gpu, name: str) -> float:
    """The roof *name* of `CALIBRATED` as measured on *gpu*; NaN where it was not, or cannot be right."""
    value = gpu.calibrated.get(name, math.nan)
    return value if plausible(gpu, name, value) else math.nan


def plausible(gpu: Gpu, name: str, value: float) -> bool:
    """Whether *value* can be the measured roof *name* of *gpu*; it may come from anywhere."""
    if name not in CALIBRATED or not math.isfinite(value):
        return False
    if name == "unix_s":
        return PLAUSIBLE_UNIX_S[0] <= value <= PLAUSIBLE_UNIX_S[1]
    (low, high), whole = PLAUSIBLE, 1.0
    if name == "dram":
        whole = peak_dram_bytes_per_s(gpu)
    elif name == "l2":
        (low, high), whole = PLAUSIBLE_L2, l2_read_limit_bytes_per_s(gpu, gpu.sm_clock_max_hz or math.nan)
    if math.isnan(whole):
        (low, high), whole = PLAUSIBLE_BYTES_PER_S, 1.0
    return low * whole <= value <= high * whole


# --- chips ---------------------------------------------------------------------------------

# In this order: the first pattern that matches CUPTI's name of a chip decides.
_FAMILY_OF_CHIP: tuple[tuple[str, str], ...] = (
    (r"GV1\d\d", "GV100"),
    (r"TU1\d\d", "Turing"),
    (r"GA100", "GA100"),
    (r"GA10[0-9B]", "GA10x"),
    (r"AD10\d", "AD10x"),
    (r"GH100", "GH100"),
    (r"GB10[02]", "GB100"),
    (r"GB11[02]", "GB110"),
    (r"GB10[BC]", "GB10B"),
    (r"GB20[0-9BC]", "GB20x"),
    (r"GR100", "GR100"),
)

_FAMILY_OF_CAPABILITY: Mapping[tuple[int, int], str] = {
    (7, 0): "GV100",
    (7, 5): "Turing",
    (8, 0): "GA100",
    (8, 6): "GA10x",
    (8, 7): "GA10x",
    (8, 9): "AD10x",
    (9, 0): "GH100",
    (10, 0): "GB100",
    (10, 3): "GB110",
    (11, 0): "GB10B",
    (12, 0): "GB20x",
    (12, 1): "GB20x",
}


def chip_family(chip: str | tuple[int, int] | None) -> str:
    """
    The family of a chip, by CUPTI's name of it ("AD102") or by compute capability ((8, 9)).

    One of "GV100", "Turing", "GA100", "GA10x", "AD10x", "GH100", "GB100", "GB110", "GB10B"
    (integrated), "GB20x", "GR100"; "unknown" for anything else.
    """
    if isinstance(chip, str):
        name = chip.strip().upper()
        return next((f for pattern, f in _FAMILY_OF_CHIP if re.fullmatch(pattern, name)), UNKNOWN_FAMILY)
    return UNKNOWN_FAMILY if chip is None else _FAMILY_OF_CAPABILITY.get(chip, UNKNOWN_FAMILY)


def family_of(gpu: Gpu) -> str:
    """The family of *gpu*: by its chip where that is known, by its compute capability otherwise."""
    by_chip = chip_family(gpu.chip)
    return chip_family(gpu.compute_capability) if by_chip == UNKNOWN_FAMILY else by_chip


# --- arithmetic ----------------------------------------------------------------------------

# FLOP per clock and SM (a multiply-add is two), dense. What is not listed does not exist there,
# or is not known well enough to be used as a yardstick.
_FLOP_PER_CLOCK: Mapping[tuple[int, int], Mapping[str, int]] = {
    (7, 0): {"fp64": 64, "fp32": 128, "fp16": 1024},
    (7, 5): {"fp64": 4, "fp32": 128, "fp16": 1024},
    (8, 0): {"fp64": 64, "fp32": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048},
    (8, 6): {"fp64": 4, "fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024},
    (8, 9): {"fp64": 4, "fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8": 2048},
    (9, 0): {"fp64": 128, "fp32": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096, "fp8": 8192},
    (10, 0): {"fp64": 128, "fp32": 256, "tf32": 4096, "fp16": 8192, "bf16": 8192, "fp8": 16384},
    (10, 3): {"fp64": 4, "fp32": 256, "tf32": 4096, "fp16": 8192, "bf16": 8192, "fp8": 16384},
    (12, 0): {"fp64": 4, "fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8": 2048},
}

# GeForce boards run the tensor cores of these chips at half rate when they accumulate in FP32,
# as every framework does.
_HALVED_ON_GEFORCE = frozenset({(7, 5), (8, 6), (8, 9), (12, 0)})


def peak_flops(gpu: Gpu, dtype: str, clock_hz: float) -> float:
    """
    Peak of *gpu* for dense arithmetic in *dtype* at *clock_hz*, in FLOP/s.

    *dtype* is one of `DTYPES`; "fp64" means the FP64 pipe, not the FP64 tensor cores of data
    centre chips. *clock_hz* is the clock measured during the run, not the one on the box.
    NaN where the GPU, its SM count or the clock is unknown, and where the type does not exist.
    Raises ValueError for a type that is none of `DTYPES`.
    """
    if dtype not in DTYPES:
        raise ValueError(f"unknown type {dtype!r}; known are {', '.join(DTYPES)}")
    if gpu.sm_count is None or gpu.compute_capability is None or not clock_hz > 0:
        return math.nan
    rate = _FLOP_PER_CLOCK.get(gpu.compute_capability, {}).get(dtype)
    if rate is None or (dtype in TENSOR_DTYPES and _has_no_tensor_cores(gpu)):
        return math.nan
    if dtype in TENSOR_DTYPES and _is_geforce(gpu) and gpu.compute_capability in _HALVED_ON_GEFORCE:
        rate //= 2
    return gpu.sm_count * rate * clock_hz


def practical_tensor_share(gpu: Gpu) -> float:
    """Which share of their peak the tensor cores of *gpu* reach in a large product (`TENSOR_ROOF`)."""
    return _best(gpu, sorted(TENSOR_DTYPES), otherwise=TENSOR_ROOF)


def practical_fma_share(gpu: Gpu) -> float:
    """The same for the FP32 and FP64 pipes (`FMA_ROOF`)."""
    return _best(gpu, ("fp32",), otherwise=FMA_ROOF)


def _best(gpu: Gpu, names: Iterable[str], *, otherwise: Roof) -> float:
    """The highest share measured under one of *names*, 1 at most; that of the table where there is none."""
    measured = [share for name in names if not math.isnan(share := calibrated(gpu, name))]
    return min(1.0, max(measured)) if measured else otherwise.share


def _is_geforce(gpu: Gpu) -> bool:
    return "geforce" in gpu.name.lower()


def _has_no_tensor_cores(gpu: Gpu) -> bool:
    # TU116 and TU117 share their compute capability with the Turing chips that have them.
    return gpu.chip in {"TU116", "TU117"} or "gtx 16" in gpu.name.lower()


# --- device memory -------------------------------------------------------------------------


def peak_dram_bytes_per_s(gpu: Gpu) -> float:
    """
    Peak of the device memory, reads and writes together: 2 x memory clock x bus width / 8.

    In bytes/s; NaN where clock or bus is unknown. The factor 2 is NVML's convention: it reports
    half the data rate of a pin, for HBM and all kinds of GDDR.
    """
    if gpu.memory_clock_max_hz is None or gpu.memory_bus_bits is None:
        return math.nan
    return 2.0 * gpu.memory_clock_max_hz * gpu.memory_bus_bits / 8.0


def practical_dram_bytes_per_s(gpu: Gpu) -> float:
    """What of `peak_dram_bytes_per_s` a good program reaches, in bytes/s: measured, else by `DRAM_ROOF`."""
    measured = calibrated(gpu, "dram")
    return peak_dram_bytes_per_s(gpu) * DRAM_ROOF.share if math.isnan(measured) else measured


# --- L2 ------------------------------------------------------------------------------------

_L2_BYTES_PER_CLOCK_AND_SM = 64
"""What one SM can take in from the L2 per clock, on every chip since Volta."""

# What all slices can deliver together, where NVIDIA has published it (A100 white paper, which
# also gives V100's).
_L2_BYTES_PER_CLOCK: Mapping[str, int] = {"GV100": 2048, "GA100": 5120}


def l2_read_limit_bytes_per_s(gpu: Gpu, clock_hz: float) -> float:
    """
    An upper bound on what the L2 can deliver to the SMs at *clock_hz*, in bytes/s.

    A bound, no roof: nothing reaches it. It is there to recognise broken data, since the L2 traffic
    that a sample implies has to be physically possible. NaN where SMs or clock are unknown.
    """
    if gpu.sm_count is None or not clock_hz > 0:
        return math.nan
    by_sms = gpu.sm_count * _L2_BYTES_PER_CLOCK_AND_SM
    by_slices = _L2_BYTES_PER_CLOCK.get(family_of(gpu), by_sms)
    return min(by_sms, by_slices) * clock_hz


def practical_l2_bytes_per_s(gpu: Gpu) -> float:
    """What the L2 delivers to the SMs in practice, in bytes/s: measured, else by `L2_ROOF_GH100`; or NaN."""
    measured = calibrated(gpu, "l2")
    if not math.isnan(measured) or family_of(gpu) != "GH100":
        return measured
    return l2_read_limit_bytes_per_s(gpu, gpu.sm_clock_max_hz or math.nan) * L2_ROOF_GH100.share


# --- PCIe ----------------------------------------------------------------------------------

# Bytes per second, lane and direction after line coding: 8b/10b for 1 and 2, 128b/130b for
# 3 to 5, flits of 242 useful in 256 bytes for 6.
_PCIE_LANE: Mapping[int, float] = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}


def pcie_raw_bytes_per_s(generation: int, width: int) -> float:
    """What the link carries per direction after line coding, in bytes/s; NaN for an unknown link."""
    lane = _PCIE_LANE.get(generation)
    return math.nan if lane is None or width <= 0 else lane * width


def pcie_bytes_per_s(generation: int, width: int, *, gpu: Gpu | None = None) -> float:
    """
    What the PCIe counters read per direction when the link is full, in bytes/s (`PCIE_ROOF`).

    The roof for `pcie_rx_bytes` and `pcie_tx_bytes`, which count the protocol too. Where it was
    measured on *gpu*, the better direction, with the protocol that `PCIE_PAYLOAD_ROOF` left out.
    """
    share = PCIE_ROOF.share
    measured = [] if gpu is None else [calibrated(gpu, name) for name in ("pcie_rx", "pcie_tx")]
    payload = max((m for m in measured if not math.isnan(m)), default=math.nan)
    if not math.isnan(payload):
        share = payload * PCIE_ROOF.share / PCIE_PAYLOAD_ROOF.share
    return pcie_raw_bytes_per_s(generation, width) * share


# --- data sheets ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DataSheet:
    """
    What NVIDIA prints about a board, in the data sheet's own units; None where it has no such figure.

    `tensor_mhz` is the clock its tensor figures imply, where that is not the boost clock; on
    chips without BF16 `bf16_tflops` is FP16. Memory clock and bus are what the driver reports.
    NVLink is the sum of both directions.
    """

    model: str
    compute_capability: tuple[int, int]
    sm_count: int
    boost_mhz: float
    tensor_mhz: float | None
    fp32_tflops: float
    tf32_tflops: float | None
    bf16_tflops: float
    fp8_tflops: float | None
    memory_mhz: float
    bus_bits: int
    dram_gb_per_s: float
    l2_mb: float | None
    pcie: tuple[int, int]
    nvlink_gb_per_s: float | None
    tdp_w: float | None

    def gpu(self) -> Gpu:
        """The board as the driver would describe it."""
        return Gpu(
            index=0,
            uuid="",
            name=f"NVIDIA {self.model}",
            compute_capability=self.compute_capability,
            sm_count=self.sm_count,
            sm_clock_max_hz=self.boost_mhz * 1e6,
            memory_clock_max_hz=self.memory_mhz * 1e6,
            memory_bus_bits=self.bus_bits,
            pcie_generation_max=self.pcie[0],
            pcie_width_max=self.pcie[1],
        )


_X16_3, _X16_4, _X16_5, _X16_6 = (3, 16), (4, 16), (5, 16), (6, 16)

# fmt: off
# ruff: noqa: E501 - a table is read across
DATA_SHEETS: tuple[DataSheet, ...] = (
    #          model                   cc       SM  boost  tensor  FP32  TF32  BF16    FP8    mem MHz bus  GB/s   L2    PCIe   NVLink  W
    DataSheet("V100 SXM2",            (7, 0),   80, 1530, None,  15.7, None,  125.0, None,   877.0, 4096,  900.0,   6, _X16_3, 300.0, 300),
    DataSheet("V100 PCIe",            (7, 0),   80, 1380, None,  14.0, None,  112.0, None,   877.0, 4096,  900.0,   6, _X16_3, 300.0, 250),
    DataSheet("T4",                   (7, 5),   40, 1590, None,   8.1, None,   65.0, None,  5001.0,  256,  320.0,   4, _X16_3, None,   70),
    DataSheet("A10",                  (8, 6),   72, 1695, None,  31.2,  62.5, 125.0, None,  6251.0,  384,  600.0,   6, _X16_4, None,  150),
    DataSheet("A30",                  (8, 0),   56, 1440, None,  10.3,  82.0, 165.0, None,  1215.0, 3072,  933.0,  24, _X16_4, 200.0, 165),
    DataSheet("A40",                  (8, 6),   84, 1740, None,  37.4,  74.8, 149.7, None,  7251.0,  384,  696.0,   6, _X16_4, 112.5, 300),
    DataSheet("A100-PCIE-40GB",       (8, 0),  108, 1410, None,  19.5, 156.0, 312.0, None,  1215.0, 5120, 1555.0,  40, _X16_4, 600.0, 250),
    DataSheet("A100-SXM4-40GB",       (8, 0),  108, 1410, None,  19.5, 156.0, 312.0, None,  1215.0, 5120, 1555.0,  40, _X16_4, 600.0, 400),
    DataSheet("A100 80GB PCIe",       (8, 0),  108, 1410, None,  19.5, 156.0, 312.0, None,  1512.0, 5120, 1935.0,  40, _X16_4, 600.0, 300),
    DataSheet("A100-SXM4-80GB",       (8, 0),  108, 1410, None,  19.5, 156.0, 312.0, None,  1593.0, 5120, 2039.0,  40, _X16_4, 600.0, 400),
    DataSheet("L4",                   (8, 9),   58, 2040, None,  30.3,  60.6, 121.0,  242.0, 6251.0,  192,  300.0,  48, _X16_4, None,   72),
    DataSheet("L40S",                 (8, 9),  142, 2520, None,  91.6, 183.0, 362.0,  733.0, 9001.0,  384,  864.0,  96, _X16_4, None,  350),
    DataSheet("GeForce RTX 3090",     (8, 6),   82, 1695, None,  35.6,  35.6,  71.2, None,  9751.0,  384,  936.0,   6, _X16_4, 112.5, 350),
    DataSheet("GeForce RTX 4090",     (8, 9),  128, 2520, None,  82.6,  82.6, 165.2,  330.0, 10501.0, 384, 1008.0,  72, _X16_4, None,  450),
    DataSheet("GeForce RTX 5090",     (12, 0), 170, 2407, None, 104.8, 104.8, 209.5,  419.0, 14001.0, 512, 1792.0,  96, _X16_5, None,  575),
    DataSheet("RTX 6000 Ada",         (8, 9),  142, 2505, None,  91.1, 182.0, 364.0,  728.0, 10001.0, 384,  960.0,  96, _X16_4, None,  300),
    DataSheet("H100 PCIe",            (9, 0),  114, 1755, 1620,  51.2, 378.0, 756.0, 1513.0, 1593.0, 5120, 2039.0,  50, _X16_5, 600.0, 350),
    DataSheet("H100 SXM",             (9, 0),  132, 1980, 1830,  67.0, 495.0, 989.0, 1979.0, 2619.0, 5120, 3352.0,  50, _X16_5, 900.0, 700),
    DataSheet("H100 NVL",             (9, 0),  132, 1785, None,  60.0, 418.0, 835.0, 1671.0, 2619.0, 6016, 3938.0,  50, _X16_5, 600.0, 400),
    DataSheet("H200 SXM",             (9, 0),  132, 1980, 1830,  67.0, 495.0, 989.0, 1979.0, 3201.0, 6144, 4800.0,  50, _X16_5, 900.0, 700),
    DataSheet("GH200 96GB",           (9, 0),  132, 1980, 1830,  67.0, 495.0, 989.0, 1979.0, 2619.0, 6144, 4000.0, None, _X16_5, 900.0, None),
    DataSheet("GH200 144GB",          (9, 0),  132, 1980, 1830,  67.0, 495.0, 989.0, 1979.0, 3201.0, 6144, 4900.0, None, _X16_5, 900.0, None),
    DataSheet("B200",                 (10, 0), 148, 1965, 1850,  75.0, 1125.0, 2250.0, 4500.0, 3996.0, 8192, 8000.0, None, _X16_5, 1800.0, 1000),
    DataSheet("B300",                 (10, 3), 148, 1900, None,  75.0, 1125.0, 2250.0, 4500.0, 3996.0, 8192, 8000.0, None, _X16_6, 1800.0, None),
)
# fmt: on
