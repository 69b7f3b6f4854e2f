"""What rows of a breakdown compute and have to move, and their places under the roof."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from called import BF16, call, tensor
from hand_written_look import BASE_NS, Look
from perfzero.attribute.breakdown import Breakdown, Call, Row
from perfzero.attribute.counted import Counted, Figure
from perfzero.attribute.roofline import OUT_OF_L2, POOR_REUSE, Ceilings, Roofline, kind_of_reuse
from perfzero.attribute.tree import break_down
from perfzero.attribute.work import KNOWN, demand
from perfzero.values import FloatArray, Samples

ROOFS = Ceilings({"bf16": 1e15, "fp32": 5e13}, 4e12)
STEPS, STEP_US = 40, 1000.0

PRODUCT = call("mm", tensor(512, 1024, dtype=BF16), tensor(1024, 256, dtype=BF16))
FLOPS, BYTES = 2 * 512 * 1024 * 256, 2 * (512 * 1024 + 1024 * 256 + 512 * 256)
SUM = call("add_", tensor(512, 256, dtype=BF16), tensor(512, 256, dtype=BF16))


def program(
    folder: Path, *layers: tuple[str, Call, dict[str, float]], l2_bytes: int | None = None
) -> Breakdown:
    """Layers, each with a call and the kernels that it launches, by name with how long they run in us."""
    look = Look()
    for step in range(STEPS):
        at, run = STEP_US * step, STEP_US * step + 100.0
        look.step(step, at, at + STEP_US - 10)
        for number, (module, one, kernels) in enumerate(layers):
            began = at + 10 * number
            look.module(module, "Layer", began, began + 9)
            look.op(
                one.operator, began + 1, began + 8,
                shapes=[list(t.shape) for t in one.inputs], strides=[list(t.strides) for t in one.inputs],
                types=[t.dtype for t in one.inputs],
            )  # fmt: skip
            for place, (name, us) in enumerate(kernels.items()):
                look.kernel(
                    name, run, run + us, correlation=look.launch(began + 2 + place),
                    cat="gpu_memset" if name.startswith("Memset") else "kernel",
                )  # fmt: skip
                run += us
    return break_down(look.trace(folder), l2_bytes=l2_bytes)


def module(breakdown: Breakdown, path: str) -> Row:
    return next(m.own for m in breakdown.modules if m.path == path)


def demand_of(folder: Path, lengths: list[int]) -> FloatArray:
    """The bytes by kernel of one call of `PRODUCT` whose kernels run so long, in us."""
    look, at = Look(), 30.0
    look.op("aten::mm", 0, 20, shapes=[list(t.shape) for t in PRODUCT.inputs])
    for place, us in enumerate(lengths):
        look.kernel(f"part {place}", at, at + us, correlation=look.launch(1 + place))
        at += us
    none = np.zeros(len(lengths), np.int64)
    made = demand(look.trace(folder).work, none, none, {0: PRODUCT}, none > 0, None)
    return made.bytes


def test_each_view_has_the_operations_of_all_calls(tmp_path: Path) -> None:
    breakdown = program(tmp_path, ("a", PRODUCT, {"gemm": 50}), ("b", PRODUCT, {"gemm": 40, "splitK": 30}))
    per_view = (
        [m.own for m in breakdown.modules], breakdown.operators, [k.row for k in breakdown.kernels],
    )  # fmt: skip

    assert breakdown.roofline.flops == 2 * STEPS * FLOPS
    for rows in per_view:
        assert sum(row.roofline.flops for row in rows if row.time.gpu_ns) == 2 * STEPS * FLOPS
    root = next(m for m in breakdown.modules if not m.path)
    assert root.total_roofline.flops == 2 * STEPS * FLOPS
    assert root.total_roofline.compulsory_bytes == 2 * STEPS * BYTES


def test_a_kernel_that_is_a_part_of_its_call_has_no_compulsory_bytes(tmp_path: Path) -> None:
    breakdown = program(tmp_path, ("a", PRODUCT, {"gemm": 50, "splitKreduce": 9, "Memset (Device)": 1}))
    helped = program(tmp_path, ("a", PRODUCT, {"gemm": 50, "Memset (Device)": 1}))

    assert module(breakdown, "a").roofline.compulsory_bytes == STEPS * BYTES
    assert math.isnan(breakdown.kernels[0].row.roofline.compulsory_bytes)
    assert helped.kernels[0].row.roofline.compulsory_bytes == STEPS * BYTES


def test_the_bytes_of_a_call_stand_with_its_longest_kernel_wherever_that_runs(tmp_path: Path) -> None:
    assert demand_of(tmp_path, [2, 48, 5]).tolist() == [0, BYTES, 0]
    assert demand_of(tmp_path, [9, 3, 2]).tolist() == [BYTES, 0, 0]


def test_a_batch_norm_larger_than_the_l2_has_to_read_twice(tmp_path: Path) -> None:
    given, channels = tensor(8, 64, 32, 32), tensor(64)
    size, small = 4 * 8 * 64 * 32 * 32, 8 * 4 * 64
    layer = ("bn", call("cudnn_batch_norm", given, *4 * [channels]), {"bn_fw_tr_1C11_kernel_NCHW": 9.0})
    inferred = (*layer[:2], {"bn_fw_inf_1C11_kernel_NCHW": 9.0})

    def needs(one: tuple[str, Call, dict[str, float]], l2_bytes: int | None) -> float:
        return program(tmp_path, one, l2_bytes=l2_bytes).roofline.compulsory_bytes / STEPS

    assert needs(layer, size) == 3 * size + small
    assert needs(layer, 3 * size) == 2 * size + small
    assert needs(inferred, size) == 2 * size + small
    assert math.isnan(needs(layer, None))


def test_a_product_larger_than_the_l2_has_to_move_more_than_each_matrix_once(tmp_path: Path) -> None:
    large = tensor(4096, 4096, dtype=BF16)
    layer = ("fc", call("mm", large, large), {"gemm": 50.0})

    def needs(l2_bytes: int | None) -> float:
        return program(tmp_path, layer, l2_bytes=l2_bytes).roofline.compulsory_bytes / STEPS

    assert needs(2 << 20) == 252 << 20
    assert needs(60 << 20) == 96 << 20
    assert math.isnan(needs(None))


def test_of_a_row_in_which_something_is_not_known_nothing_is_told(tmp_path: Path) -> None:
    other = Call("mine::product", PRODUCT.inputs)
    much = program(tmp_path, ("a", PRODUCT, {"gemm": 97}), ("b", other, {"mine": 3}))
    little = program(tmp_path, ("a", PRODUCT, {"gemm": 99}), ("b", other, {"mine": 1}))

    assert 0.97 < KNOWN < 0.99
    assert math.isnan(much.roofline.flops)
    assert math.isnan(module(much, "b").roofline.flops)
    assert little.roofline.flops == STEPS * FLOPS


def test_what_replays_of_graphs_compute_is_not_known(tmp_path: Path) -> None:
    look = Look()
    look.op("aten::mm", 0, 20, shapes=[[8, 8], [8, 8]])
    look.kernel("gemm", 30, 40, correlation=look.launch(5, name="cudaGraphLaunch"))

    assert math.isnan(break_down(look.trace(tmp_path)).roofline.flops)


def test_what_a_compiler_fuses_multiplies_nothing_unless_it_is_a_template(tmp_path: Path) -> None:
    fused = Call("triton_poi_fused_add_0", SUM.inputs)
    template = Call("triton_tem_fused_mm_0", SUM.inputs)

    assert program(tmp_path, ("a", fused, {"triton_poi_fused_add_0": 9})).roofline.flops == 0
    assert math.isnan(program(tmp_path, ("a", template, {"triton_tem_fused_mm_0": 9})).roofline.flops)


def test_what_comes_from_the_host_is_not_read_from_device_memory(tmp_path: Path) -> None:
    copy = call("copy_", tensor(512, 256), tensor(512, 256))

    for name, known in (("Memcpy DtoD (Device -> Device)", True), ("Memcpy HtoD (Pinned -> Device)", False)):
        look = Look()
        look.op("aten::copy_", 0, 20, shapes=[[512, 256]] * 2, strides=[list(t.strides) for t in copy.inputs])
        look.kernel(name, 30, 40, correlation=look.launch(5), cat="gpu_memcpy")
        found = break_down(look.trace(tmp_path)).roofline

        assert math.isnan(found.compulsory_bytes) != known
        assert found.flops == 0


# --- with counters


def sampled(folder: Path, *, us: float, bytes_per_us: float, one: Call = PRODUCT) -> Roofline:
    """A call whose kernel of *us* reads and writes at an even rate, under `ROOFS`, of all steps."""
    look = Look()
    for step in range(STEPS):
        at = STEP_US * step
        look.step(step, at, at + 990)
        look.module("fc", "Linear", at + 10, at + 30)
        look.op(
            one.operator, at + 11, at + 29, shapes=[list(t.shape) for t in one.inputs],
            strides=[list(t.strides) for t in one.inputs], types=[t.dtype for t in one.inputs],
        )  # fmt: skip
        look.work("gemm", at + 100, at + 100 + us, at=at + 20)
    start = BASE_NS + np.arange(795, dtype=np.int64) * 50_000
    within = (start - BASE_NS) % 1_000_000
    busy = np.clip(np.minimum(within + 50_000, (100 + us) * 1000) - np.maximum(within, 100_000), 0, None)
    amount = busy / 1000 * bytes_per_us / 2
    samples = Samples(start, start + 50_000, {"dram_read_bytes": amount, "dram_write_bytes": amount})
    breakdown = break_down(look.trace(folder), samples, ROOFS)
    assert breakdown.ceilings == ROOFS
    [module] = [m for m in breakdown.modules if m.path == "fc"]
    assert module.own.roofline == module.total_roofline
    assert breakdown.kernels[0].row.roofline.flops == module.own.roofline.flops
    return breakdown.roofline


def test_below_the_ridge_the_memory_is_the_roof(tmp_path: Path) -> None:
    """The product moves 2 MB per us, half of what the memory can, and computes next to nothing."""
    found = sampled(tmp_path, us=600, bytes_per_us=2e6)

    assert found.intensity == pytest.approx(FLOPS / 1.2e9, rel=0.02)
    assert found.roof == pytest.approx(0.5, rel=0.02)
    assert found.limit == "dram"
    assert found.reuse == pytest.approx(1.2e9 / BYTES, rel=0.02)
    assert found.reuse_low < found.reuse < found.reuse_high
    assert found.roof_low < found.roof < found.roof_high


def test_above_it_the_peak_of_the_type_is(tmp_path: Path) -> None:
    """268 MFLOP in 600 us are 0.45 TFLOP/s."""
    found = sampled(tmp_path, us=600, bytes_per_us=1e3)

    assert found.roof == pytest.approx(FLOPS / 600e-6 / 1e15, rel=0.02)
    assert found.limit == "compute"


def test_what_multiplies_nothing_stands_under_the_memorys_roof(tmp_path: Path) -> None:
    found = sampled(tmp_path, us=600, bytes_per_us=1e6, one=SUM)

    assert (found.flops, found.intensity, found.limit) == (0, 0, "dram")
    assert found.roof == pytest.approx(0.25, rel=0.02)


def test_attention_has_no_place_for_a_mask_may_halve_it(tmp_path: Path) -> None:
    one = tensor(2, 4, 128, 64, dtype=BF16)
    found = sampled(tmp_path, us=600, bytes_per_us=1e6, one=call("_cudnn_attention_forward", one, one, one))

    assert found.flops > 0
    assert found.intensity > 0
    assert math.isnan(found.roof)
    assert found.limit == ""


def test_without_a_peak_of_the_type_there_is_no_place(tmp_path: Path) -> None:
    wide = tensor(512, 512, dtype="double")

    assert math.isnan(sampled(tmp_path, us=600, bytes_per_us=1e6, one=call("mm", wide, wide)).roof)


def place(folder: Path, *, start: float = 300, length: float = 600, stream: int = 7) -> float:
    """Of a product that runs from 100 to 200 us, where a sum runs for *length* from *start* on."""
    look, step_us = Look(), length + 400
    for step in range(STEPS):
        at = step_us * step
        look.step(step, at, at + step_us - 10)
        for path, one, began in (("fc", PRODUCT, at + 10), ("other", SUM, at + 50)):
            look.module(path, "Layer", began, began + 20)
            look.op(
                one.operator, began + 1, began + 19, shapes=[list(t.shape) for t in one.inputs],
                strides=[list(t.strides) for t in one.inputs], types=[t.dtype for t in one.inputs],
            )  # fmt: skip
        look.work("gemm", at + 100, at + 200, at=at + 20)
        look.work("add", at + start, at + start + length, at=at + 60, stream=stream)
    begins = np.arange(int(STEPS * step_us / 50), dtype=np.int64) * 50_000
    within = begins % int(1000 * step_us)
    moves = 1e3 * np.clip(np.minimum(within + 50_000, 200_000) - np.maximum(within, 100_000), 0, None)
    columns = {"dram_read_bytes": moves, "dram_write_bytes": moves}
    samples = Samples(BASE_NS + begins, BASE_NS + begins + 50_000, columns)
    return module(break_down(look.trace(folder), samples, ROOFS), "fc").roofline.roof


def test_a_row_beside_which_another_stream_works_has_no_place(tmp_path: Path) -> None:
    assert place(tmp_path, start=300, stream=9) > 0
    assert place(tmp_path, start=199, stream=9) > 0  # for 1 % of its time
    assert math.isnan(place(tmp_path, start=195, stream=9))
    assert place(tmp_path, start=195) > 0  # the next kernel begins while this one ends


def test_a_row_of_less_than_a_hundredth_of_the_time_has_no_place(tmp_path: Path) -> None:
    assert place(tmp_path, length=9_600) > 0
    assert math.isnan(place(tmp_path, length=10_600))


def test_intervals_of_reuse_and_place_are_those_of_reads_and_writes_together() -> None:
    counted = Counted(Figure(6e6, 5e6, 7e6), Figure(4e6, 3e6, 5e6))
    found = Roofline(flops=0.0, compulsory_bytes=5e6).measured(counted, 5_000, 0.0, ROOFS)

    assert (found.reuse_low, found.reuse, found.reuse_high) == (1.6, 2.0, 2.4)
    assert (found.roof_low, found.roof, found.roof_high) == pytest.approx((0.4, 0.5, 0.6))
    computes = Roofline(flops=1e9).measured(counted, 5_000, 4e-6, ROOFS)
    assert (computes.roof_low, computes.roof, computes.roof_high) == pytest.approx((0.8, 0.8, 0.8))


@pytest.mark.parametrize(("low", "told"), [(0.4, False), (0.6, True), (0.0, False)])
def test_a_reuse_that_may_be_anything_is_not_told(low: float, told: bool) -> None:
    counted = Counted(Figure(1e3, 1e3 * low, 1.5e3), Figure(0.0, 0.0, 0.0))
    found = Roofline(compulsory_bytes=1e3).measured(counted, 5_000, 0.0, ROOFS)

    assert math.isfinite(found.reuse) == math.isfinite(found.reuse_high) == told
    assert found.roof > 0


def test_a_row_that_counters_do_not_tell_keeps_what_follows_from_shapes() -> None:
    known = Roofline(flops=1e9, compulsory_bytes=1e6)
    nothing = Figure(math.nan, 0.0, 1e9)

    assert known.measured(Counted(), 1000, 0.1, ROOFS) == known
    assert known.measured(Counted(nothing, nothing), 1000, 0.1, ROOFS) == known


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (0.3, 0.7, "from L2"),
        (0.9, 1.1, "streaming"),
        (1.6, 1.8, "poor reuse"),
        (0.7, 0.9, ""),
        (1.4, 1.6, ""),
        (math.nan, math.nan, ""),
    ],
)
def test_reuse_is_named_where_its_interval_lies_on_one_side(low: float, high: float, kind: str) -> None:
    assert OUT_OF_L2 < 0.9 < 1.4 < POOR_REUSE
    assert kind_of_reuse(Roofline(reuse=(low + high) / 2, reuse_low=low, reuse_high=high)) == kind
