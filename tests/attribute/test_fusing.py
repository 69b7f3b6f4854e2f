"""
What fusing leaves of the time, held against what it gained: programs of known operators, compiled.

The ResNet-50 trains on 256 images in channels-last and bf16: by its operators in their order, with the time
that each took in a look on an H200 (2026-11-30).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from called import BF16, FLOAT, call, tensor
from hand_written_look import Look
from perfzero.attribute.breakdown import Breakdown, Call
from perfzero.attribute.conditions import conditions
from perfzero.attribute.parts import Condition
from perfzero.attribute.roofline import Ceilings
from perfzero.attribute.tree import break_down

ROOF = 4.31e12
"""Bytes/s that the memory of an H200 moves in practice."""

L2 = 60 << 20

Launched = tuple[Call, Mapping[str, float]]

SIDES = {256: 56, 512: 28, 1024: 14, 2048: 7}
WIDTHS = {256: 64, 512: 128, 1024: 256, 2048: 512}
BLOCKS = {256: 3, 512: 4, 1024: 6, 2048: 3}
"""Of the four layers of a ResNet-50, by their channels."""

NORM, RELU, ADD = "native_batch_norm", "clamp_min_", "add_"
NORM_BACK, RELU_BACK, ADD_BACK = "native_batch_norm_backward", "threshold_backward", "add_ back"

MEASURED_US: Mapping[tuple[int, int], Mapping[str, float]] = {
    (64, 112): {RELU: 191, NORM: 1158, NORM_BACK: 884, RELU_BACK: 282},
    (64, 56): {ADD_BACK: 68, RELU: 289, NORM: 1796, NORM_BACK: 1359, RELU_BACK: 410},
    (256, 56): {ADD_BACK: 832, ADD: 839, RELU: 576, NORM: 3378, NORM_BACK: 2726, RELU_BACK: 847},
    (128, 56): {RELU: 96, NORM: 503, NORM_BACK: 371, RELU_BACK: 139},
    (128, 28): {RELU: 171, NORM: 956, NORM_BACK: 723, RELU_BACK: 238},
    (512, 28): {ADD_BACK: 553, ADD: 561, RELU: 387, NORM: 2202, NORM_BACK: 1778, RELU_BACK: 570},
    (256, 28): {RELU: 48, NORM: 226, NORM_BACK: 183, RELU_BACK: 70},
    (256, 14): {RELU: 116, NORM: 669, NORM_BACK: 633, RELU_BACK: 194},
    (1024, 14): {ADD_BACK: 414, ADD: 420, RELU: 292, NORM: 1724, NORM_BACK: 1449, RELU_BACK: 432},
    (512, 14): {RELU: 23, NORM: 131, NORM_BACK: 110, RELU_BACK: 35},
    (512, 7): {RELU: 27, NORM: 153, NORM_BACK: 138, RELU_BACK: 47},
    (2048, 7): {ADD_BACK: 67, ADD: 103, RELU: 75, NORM: 513, NORM_BACK: 437, RELU_BACK: 202},
}
"""Per step, by channels and pixels of a side."""

BUSY_US = 53_181.0
GAINED = 54.4 / 38.9
"""The step in ms by the program's own clock, and that of the same program under torch.compile."""

KERNELS = {
    NORM: ("batch_norm_collect_statistics_channels_last", "batch_norm_transform_input_channels_last"),
    NORM_BACK: ("batch_norm_backward_reduce_channels_last", "batch_norm_backward_elemt_channels_last"),
}


def broken_down(folder: Path, launched: Sequence[Launched], l2_bytes: int | None = None) -> Breakdown:
    """One step of calls one after another, each with its kernels and how long they run in us."""
    look, at, run = Look(), 10.0, 1e6
    for one, kernels in launched:
        shapes, strides, types = zip(
            *((list(t.shape), list(t.strides), t.dtype) for t in one.inputs), strict=True
        )
        look.op(one.operator, at, at + 9, shapes=list(shapes), strides=list(strides), types=list(types))
        for place, (name, us) in enumerate(kernels.items()):
            look.kernel(name, run, run + us, correlation=look.launch(at + 1 + place))
            run += us
        at += 10
    look.step(0, 0, at)
    return break_down(look.trace(folder), l2_bytes=l2_bytes)


def told(b: Breakdown, roof: float = ROOF) -> Condition:
    return conditions(replace(b, ceilings=Ceilings({}, roof)))["chains"]


def gain(seen: Condition) -> tuple[float, float]:
    """As the report has it, of a GPU that is never idle."""
    assert seen.left is not None
    share = seen.share + seen.beside
    least, most = (1 / (1 - share * (1 - part)) for part in reversed(seen.left))
    return least, most


# --- a ResNet-50


def image(channels: int, side: int, dtype: str = BF16) -> tuple[tuple[int, ...], list[int], str]:
    return (256, channels, side, side), [channels * side * side, 1, channels * side, channels], dtype


def of(name: str, channels: int, side: int, inputs: int) -> Launched:
    shape, strides, dtype = image(channels, side)
    x = tensor(*shape, dtype=dtype, strides=strides)
    operator = name.removesuffix(" back")
    small = [tensor(channels)] * ({NORM: 4, NORM_BACK: 5}.get(name, 0))
    return call(operator, *[x] * inputs, *small), dict.fromkeys(KERNELS.get(name, (name,)), 1.0)


def resnet50() -> Iterator[Launched]:
    """
    Forward and backward pass in their order. Products stand between, and in the backward pass beside what
    they make small kernels: flags of the batch norms, and the gradients of weights as float32.
    """
    product: Launched = (call("mm", tensor(64, 64), tensor(64, 64)), {"gemm": 1.0})
    weight: Launched = (call("copy_", tensor(64, 64), tensor(64, 64, dtype=BF16)), {"cast": 1.0})
    flags: Launched = (call("fill_", tensor(8, dtype="int")), {"fill": 1.0})

    def forward(channels: int, side: int, *, relu: bool = True) -> Iterator[Launched]:
        yield product
        yield of(NORM, channels, side, 1)
        if relu:
            yield of(RELU, channels, side, 1)

    def backward(channels: int, side: int, *, relu: bool = True) -> Iterator[Launched]:
        if relu:
            yield of(RELU_BACK, channels, side, 2)
        yield flags
        yield of(NORM_BACK, channels, side, 2)
        yield product
        yield weight

    def blocks() -> Iterator[tuple[int, int, int, int, bool]]:
        before = 64
        for channels, many in BLOCKS.items():
            for number in range(many):
                side = SIDES[channels] * (2 if not number and channels > 256 else 1)
                yield channels, side, before, WIDTHS[channels], not number
                before = channels

    yield from forward(64, 112)
    for channels, side, _, width, first in blocks():
        small = SIDES[channels]
        yield from forward(width, side)
        yield from forward(width, small)
        yield from forward(channels, small, relu=False)
        if first:
            yield from forward(channels, small, relu=False)
        yield of(ADD, channels, small, 2)
        yield of(RELU, channels, small, 1)
    for channels, side, before, width, first in reversed(list(blocks())):
        small = SIDES[channels]
        yield of(RELU_BACK, channels, small, 2)
        if first:
            yield from backward(channels, small, relu=False)
        yield from backward(channels, small, relu=False)
        yield from backward(width, small)
        yield from backward(width, side)
        yield of(ADD_BACK, before, side, 2)
        yield weight
    yield product
    yield from backward(64, 112)


def measured(launched: Sequence[Launched]) -> list[Launched]:
    """*launched* with times as measured: those of one name and size share what they took together."""

    def key(one: Launched) -> tuple[str, tuple[int, int]] | None:
        shape, kernels = one[0].inputs[0].shape, tuple(one[1])
        if len(shape) != 4:
            return None
        name = next((name for name, its in KERNELS.items() if its == kernels), kernels[0])
        return name, (shape[1], shape[2])

    keys = [key(one) for one in launched]
    found = []
    for one, its in zip(launched, keys, strict=True):
        if its is not None:
            us = MEASURED_US[its[1]][its[0]] / keys.count(its)
            one = (one[0], dict.fromkeys(one[1], us / len(one[1])))
        found.append(one)
    rest = BUSY_US - sum(sum(kernels.values()) for _, kernels in found)
    return [*found, (call("mm", tensor(64, 64), tensor(64, 64)), {"gemm": rest})]


def test_what_compiling_a_resnet50_gained_lies_between_the_ends(tmp_path: Path) -> None:
    """Inductor fuses the batch norms too: all elementwise operators together are 19 % of the time."""
    low, high = gain(told(broken_down(tmp_path, measured(list(resnet50())), L2)))

    assert 1.05 < low < GAINED < high
    assert high / low < 1.6


def test_of_a_resnet50_without_batch_norms_too_little_would_be_told(tmp_path: Path) -> None:
    """The twin: with each norm called by a name that is not known, what is left holds no 1.40."""
    others = [
        (replace(one, operator="aten::unknown_norm") if "batch_norm" in one.operator else one, kernels)
        for one, kernels in measured(list(resnet50()))
    ]
    _, high = gain(told(broken_down(tmp_path, others, L2)))

    assert high < GAINED


# --- the elementwise chain of the zoo


CHAIN_GAINED = 4.05
"""zoo/elementwise_chain.py with --compile, H200, 2026-11-29."""


def test_what_compiling_the_chain_of_the_zoo_gained_lies_between_the_ends(tmp_path: Path) -> None:
    """y = x * 1.5 + b; relu(y) * x - 0.5: that x is read twice no trace says."""
    x = tensor(1 << 18, 1024)
    operators = (("mul", 1), ("add", 2), ("relu", 1), ("mul", 2), ("sub", 1))
    us = [(inputs + 1) * 4 * (1 << 28) / ROOF * 1e6 for _, inputs in operators]
    launched = [
        (call(name, *[x] * inputs), {"elementwise": length})
        for (name, inputs), length in zip(operators, us, strict=True)
    ]
    low, high = gain(told(broken_down(tmp_path, launched, L2)))

    assert low < CHAIN_GAINED < high
    # Of 12 tensors 4 reads go at least, and one read and one result stay at least.
    assert (low, high) == pytest.approx((12 / 8, 12 / 2), rel=1e-3)


# --- each end


N = 64 * 1024 * 1024 * 2
WIDE = tensor(64 * 1024, 1024, dtype=BF16)


def pair(first: Call, second: Call, us: float = 200.0) -> list[Launched]:
    return [(first, {"one": us}), (second, {"other": us})]


def test_at_least_the_read_between_goes_at_the_roof_and_at_most_all_but_what_must_move(
    tmp_path: Path,
) -> None:
    b = broken_down(tmp_path, pair(call("add", WIDE, WIDE), call("gelu", WIDE)), L2)
    seen = told(b)
    now_s = 400e-6

    assert seen.spared == pytest.approx((1 / 5, 2 / 5))
    assert seen.left == pytest.approx((3 * N / ROOF / now_s, 1 - N / ROOF / now_s))


def test_out_of_the_l2_a_chain_keeps_the_rate_that_it_has(tmp_path: Path) -> None:
    us = 2 * N / ROOF * 1e6  # a quarter faster than the roof
    seen = told(broken_down(tmp_path, pair(call("add", WIDE, WIDE), call("gelu", WIDE), us), L2))

    assert seen.left == pytest.approx((3 / 5, 4 / 5))


def test_without_counters_the_roof_is_the_fastest_of_these_operators(tmp_path: Path) -> None:
    launched = [*pair(call("add", WIDE, WIDE), call("gelu", WIDE)), (call("mm", WIDE, WIDE), {"gemm": 1.0})]
    launched += [(call("mul", WIDE), {"fast": 100.0})]
    b = broken_down(tmp_path, launched, L2)
    seen = conditions(b)["chains"]

    # The chain moves 5 n in 400 us, what stands alone 2 n in 100.
    assert seen.left == pytest.approx(((3 * 50) / 500, (400 - 50 + 100) / 500))


@pytest.mark.parametrize("many", [1, 2])
def test_kernels_without_length_change_nothing_of_what_is_left(tmp_path: Path, many: int) -> None:
    """A trace may say 0 us of each, as of a norm that stands alone, or of two additions one after another."""
    chain, product = (
        pair(call("add", WIDE, WIDE), call("gelu", WIDE)),
        (call("mm", WIDE, WIDE), {"gemm": 1.0}),
    )
    scale = tensor(1024, dtype=FLOAT)
    one = call("native_layer_norm", WIDE, scale, scale) if many == 1 else call("add", WIDE, WIDE)
    others: list[Launched] = [*chain, product]
    without, with_it = (
        told(broken_down(tmp_path, launched, L2))
        for launched in (others, [*others, *[(one, {"none": 0.0})] * many])
    )

    assert (with_it.left, with_it.share) == (without.left, without.share)


@pytest.mark.parametrize(
    ("operator", "left"),
    [("gelu", 0.0), ("native_layer_norm", 1.0)],
)
def test_alone_an_operator_may_go_with_its_neighbours_but_a_norm_has_to_move_its_bytes(
    tmp_path: Path, operator: str, left: float
) -> None:
    roof, weights = N / 50e-6, [tensor(1024, dtype=FLOAT)] * 2
    given = [WIDE, *(weights if "norm" in operator else [])]
    launched = [*pair(call("add", WIDE, WIDE), call("gelu", WIDE), 125.0)]
    launched += [(call("mm", WIDE, WIDE), {"gemm": 1.0}), (call(operator, *given), {"alone": 400.0})]
    seen = told(broken_down(tmp_path, launched, L2), roof)

    assert seen.left is not None
    # Of the chain 3 n stay, and 2 n of the norm, in 650 us together.
    assert seen.left[0] == pytest.approx((150 + left * 100) / 650, rel=0.01)


def written_out(tmp_path: Path, *operators: Call) -> Condition:
    """Each moves what it has to at the roof."""
    us = [(len(c.inputs) + 1) * N / ROOF * 1e6 for c in operators]
    launched = [(c, {"one": length}) for c, length in zip(operators, us, strict=True)]
    return told(broken_down(tmp_path, launched, L2))


def test_a_norm_that_is_written_out_becomes_one_kernel_sums_over_rows_among_it(tmp_path: Path) -> None:
    """x.pow(2).mean(-1, keepdim=True), the small ones of which nobody need know, and x * rsqrt(...)."""
    small = tensor(64 * 1024, 1, dtype=BF16)
    seen = written_out(
        tmp_path, call("neg", WIDE), call("pow", WIDE), call("mean", WIDE), call("rsqrt", small),
        call("mul", WIDE, small), call("neg", WIDE),
    )  # fmt: skip
    [row] = seen.rows

    assert row.share > 0.8  # all but the small one, which takes as long here
    # Of 9 passes one read and one result stay, at half of the rate at least.
    assert seen.spared == pytest.approx((4 / 9, 7 / 9), rel=1e-3)


def test_a_sum_over_columns_stands_between_two_chains(tmp_path: Path) -> None:
    """As of the gradient of a weight: the same operator, and no norm."""
    both = [call("neg", WIDE), call("abs", WIDE)]
    seen = written_out(tmp_path, *both, call("sum", WIDE), *both)

    assert seen.spared == pytest.approx((1 / 4, 2 / 4), rel=1e-3)


def test_a_long_chain_is_known_to_gain_as_much_as_a_kernel_at_half_of_its_rate(tmp_path: Path) -> None:
    """Ten passes over one tensor, of which two stay: four of twenty at most."""
    seen = written_out(tmp_path, *[call(name, WIDE) for name in ("neg", "abs") * 5])

    assert seen.left == pytest.approx((2 / 20, 4 / 20), rel=1e-3)


def test_inputs_from_outside_are_different_ones_there(tmp_path: Path) -> None:
    """A sum of eleven tensors: of 30 passes 12 stay, at half of the rate 24, so it is the reads between."""
    seen = written_out(tmp_path, *[call("add", WIDE, WIDE)] * 10)

    assert seen.left is not None
    assert seen.left[1] == pytest.approx(21 / 30, rel=1e-3)
