"""
The program that `perfzero calibrate` runs on an idle GPU: what can this one do, by its own clock?

It stands alone, the standard library and torch (else cupy) apart, since it runs in the Python that
has the framework, which need not be perfzero's. It prints one line of JSON:

    {"framework": "torch 2.11.0",
     "stages": {name: {"amount": ..., "seconds": ..., "start_ns": ..., "end_ns": ...}},
     "skipped": {name: "why"}}

`amount`: bytes or FLOP of one call. `seconds`: the median time of a call, by the device's own events.
`start_ns`, `end_ns`: Unix time of the measured stretch, so that the clock meanwhile can be looked up.

    triad, copy           c = a + s b and b = a, far larger than the L2 (as in STREAM, McCalpin 1995)
    pcie_rx, pcie_tx      256 MiB of pinned memory to the GPU and from it
    l2_chain              x = s x on 16 MiB that stay in the L2
    l2_reread             row sums over 64 overlapping rows in 16 MiB: each SM reads what others have read.
                          The rows are shifted, so that no two SMs ask for one line at the same time: the
                          L2 of Hopper would answer them together.
    bf16, fp16, tf32, fp32   a product of two 8192² matrices (2 n³ FLOP)

All data is random: zeros switch fewer transistors, draw less power and so clock higher.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from functools import partial
from typing import Any, Callable  # noqa: UP035 - the framework's Python may be older than 3.9

Call = Callable[[], Any]

MIB = 1 << 20
LARGE_BYTES = 1024 * MIB
SMALL_BYTES = 16 * MIB
PINNED_BYTES = 256 * MIB
ROWS = 64
MATRIX = 8192

WARM = 1 / 3
"""Part of a stage that goes before its measurement, for clocks and caches to settle."""

GROUP_S = 0.005
"""Calls are timed in groups at least so long, in which the time between two of them does not count."""

FEWEST_GROUPS = 3


class Torch:
    """The stages in PyTorch."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.name = f"torch {torch.__version__}"
        torch.cuda.init()
        self.synchronize: Call = torch.cuda.synchronize

    def event(self) -> Any:
        """A point in time on the device, taken when it gets there."""
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_s(self, first: Any, last: Any) -> float:
        """Seconds from one event to another, both past."""
        return float(first.elapsed_time(last)) / 1e3

    def free_bytes(self) -> int:
        """Device memory that is free."""
        return int(self.torch.cuda.mem_get_info()[0])

    def clean(self) -> None:
        """Give memory that is no longer used back to the device."""
        self.torch.cuda.empty_cache()

    def random(self, *shape: int, dtype: str = "float32") -> Any:
        """An array of normal numbers on the device."""
        return self.torch.randn(*shape, device="cuda", dtype=getattr(self.torch, dtype))

    def triad(self, count: int) -> Call:
        """c = a + s b."""
        a, b = self.random(count), self.random(count)
        c = self.torch.empty_like(a)
        return lambda: self.torch.add(a, b, alpha=0.5, out=c)

    def copy(self, count: int) -> Call:
        """b = a."""
        a = self.random(count)
        b = self.torch.empty_like(a)
        return lambda: b.copy_(a)

    def pcie(self, count: int, to_gpu: bool) -> Call:
        """A copy between pinned memory and the device."""
        here = self.torch.randn(count).pin_memory()
        there = self.random(count)
        if to_gpu:
            return lambda: there.copy_(here, non_blocking=True)
        return lambda: here.copy_(there, non_blocking=True)

    def chain(self, count: int) -> Call:
        """x = s x."""
        x = self.random(count)
        return lambda: x.mul_(-1.0)

    def reread(self, count: int) -> Call:
        """Sums of overlapping rows."""
        x = self.random(count)
        rows = x.as_strided((ROWS, count // 2), (count // 2 // ROWS, 1))
        sums = self.torch.empty(ROWS, device="cuda")
        return lambda: self.torch.sum(rows, dim=1, out=sums)

    def product(self, kind: str) -> Call:
        """A matrix product in the type *kind*."""
        dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(kind, "float32")
        self.torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
        a, b = self.random(MATRIX, MATRIX, dtype=dtype), self.random(MATRIX, MATRIX, dtype=dtype)
        c = self.torch.empty_like(a)
        return lambda: self.torch.matmul(a, b, out=c)


class Cupy:
    """The stages in CuPy, which multiplies neither in bf16 nor, unless told so from outside, in TF32."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.name = f"cupy {cupy.__version__}"
        self.synchronize: Call = cupy.cuda.runtime.deviceSynchronize

    def event(self) -> Any:
        """A point in time on the device, taken when it gets there."""
        event = self.cupy.cuda.Event()
        event.record()
        return event

    def between_s(self, first: Any, last: Any) -> float:
        """Seconds from one event to another, both past."""
        return float(self.cupy.cuda.get_elapsed_time(first, last)) / 1e3

    def free_bytes(self) -> int:
        """Device memory that is free."""
        return int(self.cupy.cuda.runtime.memGetInfo()[0])

    def clean(self) -> None:
        """Give memory that is no longer used back to the device."""
        self.cupy.get_default_memory_pool().free_all_blocks()

    def random(self, *shape: int, dtype: str = "float32") -> Any:
        """An array of normal numbers on the device."""
        return self.cupy.random.standard_normal(shape, dtype="float32").astype(dtype)

    def triad(self, count: int) -> Call:
        """c = a + s b."""
        a, b = self.random(count), self.random(count)
        c = self.cupy.empty_like(a)
        kernel = self.cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a + 0.5f * b", "triad")
        return lambda: kernel(a, b, c)

    def copy(self, count: int) -> Call:
        """b = a."""
        a = self.random(count)
        b = self.cupy.empty_like(a)
        return lambda: self.cupy.copyto(b, a)

    def pcie(self, count: int, to_gpu: bool) -> Call:
        """A copy between pinned memory and the device."""
        import numpy

        there = self.random(count)
        here = numpy.frombuffer(self.cupy.cuda.alloc_pinned_memory(4 * count), "float32", count)
        here[...] = there.get()
        stream = self.cupy.cuda.get_current_stream()
        if to_gpu:
            return lambda: there.set(here, stream=stream)
        return lambda: there.get(stream=stream, out=here, blocking=False)

    def chain(self, count: int) -> Call:
        """x = s x."""
        x = self.random(count)
        return lambda: self.cupy.multiply(x, -1.0, out=x)

    def reread(self, count: int) -> Call:
        """Sums of overlapping rows."""
        x = self.random(count)
        strides = (count // 2 // ROWS * 4, 4)
        rows = self.cupy.lib.stride_tricks.as_strided(x, (ROWS, count // 2), strides)
        sums = self.cupy.empty(ROWS, "float32")
        return lambda: self.cupy.sum(rows, axis=1, out=sums)

    def product(self, kind: str) -> Call:
        """A matrix product in the type *kind*."""
        dtype = {"fp16": "float16", "fp32": "float32"}[kind]
        a, b = self.random(MATRIX, MATRIX, dtype=dtype), self.random(MATRIX, MATRIX, dtype=dtype)
        c = self.cupy.empty_like(a)
        return lambda: self.cupy.matmul(a, b, out=c)


def framework() -> Any:
    """PyTorch, else CuPy; the error of the first where neither can be loaded."""
    first: Exception | None = None
    for name, wrap in (("torch", Torch), ("cupy", Cupy)):
        try:
            return wrap(importlib.import_module(name))
        except Exception as error:  # noqa: BLE001 - a framework may fail to load in any way
            first = first or error
    raise SystemExit(f"{type(first).__name__}: {first}")


def stages(device: Any) -> list[tuple[str, int, Callable[[], Call]]]:
    """Name, amount of one call, and what makes the call, for every stage in turn."""
    large = min(LARGE_BYTES, device.free_bytes() // 8) // 4
    small = SMALL_BYTES // 4
    pinned = PINNED_BYTES // 4
    flop = 2 * MATRIX**3
    return [
        ("triad", 12 * large, partial(device.triad, large)),
        ("copy", 8 * large, partial(device.copy, large)),
        ("pcie_rx", PINNED_BYTES, partial(device.pcie, pinned, True)),
        ("pcie_tx", PINNED_BYTES, partial(device.pcie, pinned, False)),
        ("l2_chain", 2 * SMALL_BYTES, partial(device.chain, small)),
        ("l2_reread", ROWS * SMALL_BYTES // 2, partial(device.reread, small)),
        *((kind, flop, partial(device.product, kind)) for kind in ("fp32", "tf32", "fp16", "bf16")),
    ]


def measure(device: Any, call: Call, seconds: float) -> dict[str, Any]:
    """The median time of *call* in *seconds* of calls, a third of them to warm up, and when that was."""
    call()
    device.synchronize()
    begun, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begun < seconds * WARM:
        for _ in range(1 + calls // 2):
            call()
            calls += 1
        device.synchronize()
    each = (time.perf_counter() - begun) / calls
    size = max(1, round(GROUP_S / each))
    groups = max(FEWEST_GROUPS, round(seconds * (1 - WARM) / (each * size)))
    start_ns = time.time_ns()
    events = [device.event()]
    for _ in range(groups):
        for _ in range(size):
            call()
        events.append(device.event())
    device.synchronize()
    end_ns = time.time_ns()
    pairs = zip(events, events[1:])  # noqa: B905, RUF007 - for Pythons before 3.10
    times = [device.between_s(first, last) / size for first, last in pairs]
    return {"seconds": statistics.median(times), "start_ns": start_ns, "end_ns": end_ns}


def main(seconds: float) -> None:
    """Measure every stage in *seconds* altogether, and print what came out."""
    device = framework()
    found: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    planned = stages(device)
    for name, amount, prepare in planned:
        try:
            found[name] = {"amount": amount, **measure(device, prepare(), seconds / len(planned))}
        except Exception as error:  # noqa: BLE001 - a stage that this GPU cannot run leaves the others
            skipped[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        device.clean()
    sys.stdout.write(json.dumps({"framework": device.name, "stages": found, "skipped": skipped}) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]))
