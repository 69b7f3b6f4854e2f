"""The bytes that a call has to move, and refusals where they do not follow from its inputs."""

from __future__ import annotations

import pytest

from called import BF16, FLOAT, HALF, call, tensor
from perfzero.attribute import operators
from perfzero.attribute.breakdown import Call
from perfzero.attribute.compulsory import (
    BIAS,
    SMALLEST_L2,
    broadcast,
    compulsory_bytes,
    different,
    passed,
    promoted,
    second_pass,
    through_l2,
)
from perfzero.attribute.outputs import outputs
from perfzero.traces import Tensor

MB = 1 << 20
ONE = tensor(1024, 1024, dtype=BF16)
"""2 MiB."""


def alone(one: Call, made: tuple[bool, bool] | None = None) -> float | None:
    """What is known of a call without any other."""
    return compulsory_bytes(one, outputs([one]), made)


# --- what is read


def test_an_expanded_dimension_is_read_once() -> None:
    assert different(tensor(64, 1024, dtype=FLOAT, strides=(0, 1))) == 4096
    assert different(tensor(64, 32, dtype=FLOAT, strides=(1, 64))) == 4 * 64 * 32  # transposed
    assert different(tensor(64, 32, dtype=FLOAT, strides=(100, 1))) == 4 * 64 * 32  # with gaps
    assert different(tensor(0, 32, dtype=FLOAT)) == 0


def test_overlapping_elements_and_strides_that_were_not_recorded_are_not_known() -> None:
    assert different(tensor(64, 32, dtype=FLOAT, strides=(1, 1))) is None
    assert different(Tensor((64, 32), (), FLOAT)) is None
    assert different(tensor(64, dtype="a type of next year")) is None


# --- element by element


@pytest.mark.parametrize(
    ("operator", "tensors", "expected"),
    [
        ("add", [ONE, ONE], 6 * MB),
        ("mul", [ONE], 4 * MB),  # by a number
        ("mul", [ONE, tensor(dtype="double")], 4 * MB),
        ("add_", [ONE, ONE], 6 * MB),
        ("clamp_min_", [ONE], 4 * MB),
        ("gelu_backward", [ONE, ONE], 6 * MB),
        ("add", [ONE, tensor(1024, dtype=FLOAT)], 2 * MB + 4096 + 4 * MB),  # becomes float32
        ("masked_fill_", [ONE, tensor(1024, 1024, dtype="bool", strides=(0, 1))], 4 * MB + 1024),
        ("where", [tensor(1024, 1024, dtype="bool"), ONE, tensor(dtype=FLOAT)], MB + 4 * MB),
        ("eq", [ONE], 3 * MB),
        ("native_dropout", [ONE], 5 * MB),
        ("native_dropout_backward", [ONE, tensor(1024, 1024, dtype="bool")], 5 * MB),
        ("mul", [ONE, ONE, ONE], 6 * MB),  # into the last
        ("copy_", [tensor(1024, 1024), ONE], 6 * MB),
        ("copy_", [ONE, tensor(1024, 1024, dtype=BF16, strides=(1, 0))], 2 * MB + 2048),
        ("fill_", [ONE], 2 * MB),
        ("zero_", [ONE], 2 * MB),
    ],
)
def test_what_works_on_elements_reads_each_input_and_writes_the_result(
    operator: str, tensors: list[Tensor], expected: float
) -> None:
    assert alone(call(operator, *tensors)) == expected


@pytest.mark.parametrize(
    ("operator", "tensors"),
    [
        ("add", [tensor(8, 8, dtype="long int")]),  # of what type is the number?
        ("pow", [ONE, ONE]),  # an exponent, or where the result goes
        ("clamp", [ONE, ONE]),
        ("eq", [ONE, tensor(1024, 1024, dtype="bool")]),
        ("add", [ONE, Tensor((1024, 1024), (), BF16)]),
        ("add", [ONE, tensor(1024, 1024, dtype="")]),
        ("add", [ONE, tensor(1000, 1024)]),
        ("add", [ONE, ONE, ONE, ONE]),
        ("add_", [tensor(1024, 1024, strides=(0, 1)), ONE]),
        ("copy_", [ONE]),
        ("sum", [ONE]),
        ("cat", [ONE, ONE]),
        ("index_select", [ONE, tensor(8, dtype="long int")]),
        ("_foreach_add_", [ONE, ONE]),
    ],
)
def test_what_does_not_follow_from_the_inputs_is_not_told(operator: str, tensors: list[Tensor]) -> None:
    assert alone(call(operator, *tensors)) is None


@pytest.mark.parametrize("operator", sorted(operators.ELEMENTWISE | operators.COPY))
@pytest.mark.parametrize("end", ["", "_"])
def test_of_a_call_without_recorded_tensors_nothing_is_told(operator: str, end: str) -> None:
    assert passed(call(f"{operator}{end}")) is None
    assert alone(call(f"{operator}{end}")) is None


def test_another_librarys_operator_is_not_known() -> None:
    assert alone(Call("triton_poi_add", (ONE, ONE))) is None


def test_types_are_promoted_among_floats_only() -> None:
    assert promoted({BF16, FLOAT}) == FLOAT
    assert promoted({BF16, HALF}) == FLOAT
    assert promoted({HALF, "long int"}) == HALF
    assert promoted({"long int"}) is None
    assert promoted({FLOAT, "c10::complex<float>"}) is None


def test_shapes_are_broadcast_or_do_not_fit() -> None:
    assert broadcast([(8, 1, 4), (3, 1)]) == (8, 3, 4)
    assert broadcast([(8, 2), (3,)]) is None


# --- products


@pytest.mark.parametrize(
    ("operator", "tensors", "expected"),
    [
        ("mm", [ONE, ONE], 6 * MB),
        ("mm", [ONE, ONE, ONE], 6 * MB),
        ("addmm", [tensor(1024, dtype=BF16), ONE, ONE], 6 * MB + 2048),
        ("addmm", [tensor(1024, dtype=BF16), ONE, ONE, ONE], 6 * MB + 2048),
        ("bmm", [tensor(4, 512, 512), tensor(4, 512, 512)], 12 * MB),
        ("linear", [ONE, ONE, tensor(1024, dtype=BF16)], 6 * MB + 2048),
    ],
)
def test_a_product_reads_both_factors_and_writes_the_result(
    operator: str, tensors: list[Tensor], expected: float
) -> None:
    assert alone(call(operator, *tensors)) == expected


@pytest.mark.parametrize(
    ("operator", "tensors"),
    [
        ("addmm", [ONE, ONE, ONE]),  # with beta = 0 the first is not read
        ("baddbmm", [tensor(4, 512, 512), tensor(4, 512, 512), tensor(4, 512, 512)]),
        ("mm", [ONE, ONE, tensor(1024, 1024)]),
        ("mm", [ONE, tensor(1024, 1024)]),
        ("_scaled_mm", [ONE, ONE]),
    ],
)
def test_a_product_whose_result_or_sum_is_open_is_not_told(operator: str, tensors: list[Tensor]) -> None:
    assert alone(call(operator, *tensors)) is None


def test_a_small_matrix_that_is_added_counts_whether_it_is_read_or_not() -> None:
    """10,000 by 10,000 by 110 and 90 columns: what is added is 1.08 and 0.88 % of the rest."""
    for columns, known in ((110, False), (90, True)):
        factors = [tensor(10_000, 10_000), tensor(10_000, columns)]
        added = 4 * 10_000 * columns
        rest = 4 * 10_000 * 10_000 + 2 * added
        assert (added <= BIAS * rest) == known
        found = alone(call("addmm", tensor(10_000, columns), *factors))
        assert found == (rest + added if known else None)


# --- convolutions and pools

IMAGE, WEIGHTS, RESULT = tensor(8, 64, 32, 32), tensor(128, 64, 3, 3), tensor(8, 128, 16, 16)
X, W, Y = 4 * 8 * 64 * 32 * 32, 4 * 128 * 64 * 9, 4 * 8 * 128 * 16 * 16
FORWARD = call("cudnn_convolution", IMAGE, WEIGHTS)
BACKWARD = call("convolution_backward", RESULT, IMAGE, WEIGHTS)


def test_a_convolution_and_its_gradients() -> None:
    seen = outputs([FORWARD, BACKWARD])

    assert compulsory_bytes(FORWARD, seen) == X + W + Y
    assert compulsory_bytes(BACKWARD, seen, (True, True)) == Y + W + X + X + W
    assert compulsory_bytes(BACKWARD, seen, (False, True)) == Y + X + W
    assert compulsory_bytes(BACKWARD, seen, (True, False)) == Y + W + X


def test_a_convolution_whose_result_or_gradients_are_open_is_not_told() -> None:
    assert alone(FORWARD) is None
    assert alone(BACKWARD) is None


def test_of_an_image_of_which_a_part_is_skipped_nothing_is_told() -> None:
    weights = tensor(128, 64, 1, 1)
    forward = call("cudnn_convolution", IMAGE, weights)
    backward = call("convolution_backward", RESULT, IMAGE, weights)

    assert compulsory_bytes(forward, outputs([forward, backward])) is None
    assert alone(backward, (True, True)) is None


def test_a_pool_has_places_beside_its_result() -> None:
    image, result = tensor(8, 64, 32, 32), tensor(8, 64, 16, 16)
    forward = call("max_pool2d_with_indices", image)
    backward = call(
        "max_pool2d_with_indices_backward", result, image, tensor(8, 64, 16, 16, dtype="long int")
    )
    both = 8 * 64 * 16 * 16 * (4 + 8) + 8 * 64 * 32 * 32 * 4

    assert compulsory_bytes(forward, outputs([forward, backward])) == both
    assert alone(backward) == both
    assert alone(forward) is None


# --- products that are larger than the L2

LARGE = tensor(4096, 4096, dtype=BF16)
"""32 MiB."""


def through(one: Call, l2_bytes: int | None) -> float | None:
    once = alone(one)
    assert once is not None
    return through_l2(one, once, l2_bytes)


@pytest.mark.parametrize(
    ("one", "beside"),
    [
        (call("mm", LARGE, LARGE), 0),
        (call("mm", tensor(4096, 4096, dtype=BF16, strides=(1, 4096)), LARGE), 0),
        (call("addmm", tensor(4096, dtype=BF16), LARGE, LARGE), 8192),
    ],
)
def test_a_product_of_which_no_matrix_fits_the_l2_moves_what_hong_and_kung_say(
    one: Call, beside: int
) -> None:
    # 1024 x 1024 elements fit: 2 x 4096**3 / 1024 less 2 x 1024**2 are 126 Mi elements.
    assert through(one, 2 * MB) == 252 * MB
    # As long as each matrix once is more it stays at that, whether one fits or not.
    assert through(one, 31 * MB) == 96 * MB + beside
    assert through(one, 32 * MB) == 96 * MB + beside


def test_of_products_in_a_batch_each_is_one() -> None:
    three = tensor(3, 4096, 4096, dtype=BF16)

    assert through(call("bmm", three, three), 2 * MB) == 3 * 252 * MB
    assert through(call("bmm", three, three), 32 * MB) == 3 * 96 * MB


def test_elements_in_32_bits_fill_the_l2_sooner() -> None:
    wide = tensor(4096, 4096)

    assert through(call("mm", wide, wide), 4 * MB) == 504 * MB


def test_one_long_side_alone_makes_a_product_read_nothing_twice() -> None:
    """As the head of a language model on an H200: its input of 25 MB fits, and the others pass by it."""
    head = call("mm", tensor(16384, 768, dtype=BF16), tensor(768, 50304, dtype=BF16))

    assert through(head, 60 * MB) == alone(head)


def test_with_an_l2_of_unknown_size_products_are_known_that_any_lets_pass_once() -> None:
    small = call("mm", ONE, ONE)
    assert SMALLEST_L2 == 4 * MB

    assert through(small, None) == 6 * MB
    assert through(call("mm", LARGE, LARGE), None) is None


def test_the_bound_is_of_products_whose_elements_all_differ() -> None:
    same = call("mm", tensor(4096, 4096, dtype=BF16, strides=(0, 0)), LARGE)
    total = call("add", LARGE, LARGE)

    for l2_bytes in (2 * MB, None):
        assert through(same, l2_bytes) == 64 * MB + 2
        assert through(total, l2_bytes) == 96 * MB


# --- norms, softmax, attention


def test_norms_read_and_write_once() -> None:
    given, channels = tensor(8, 64, 32, 32), tensor(64)
    batch = [given, channels, channels, channels, channels]
    backward = [given, given, channels, channels, channels, channels, channels, tensor(0)]
    size = 4 * 8 * 64 * 32 * 32

    assert alone(call("cudnn_batch_norm", *batch)) == 2 * size + 8 * 256
    assert alone(call("cudnn_batch_norm_backward", *backward)) == 3 * size + 5 * 256
    native = [given, given, *[channels] * 5]
    assert alone(call("native_batch_norm_backward", *native), (True, True)) == 3 * size + 5 * 256
    assert alone(call("native_batch_norm_backward", *native)) is None


@pytest.mark.parametrize(
    ("norm", "again"),
    [
        ("cudnn_batch_norm", 1), ("native_batch_norm", 1),
        ("cudnn_batch_norm_backward", 2), ("native_batch_norm_backward", 2),
    ],
)  # fmt: skip
def test_a_batch_norm_larger_than_the_l2_reads_again_what_it_makes_sums_of(norm: str, again: int) -> None:
    given, channels = tensor(8, 64, 32, 32), tensor(64)
    one = call(norm, *again * [given], *4 * [channels])
    size = 4 * 8 * 64 * 32 * 32

    assert second_pass(one, once=4.0 * size, l2_bytes=4 * size - 1) == again * size
    assert second_pass(one, once=4.0 * size, l2_bytes=4 * size) == 0
    assert second_pass(one, once=4.0 * size, l2_bytes=None) is None


def test_a_layer_norm_and_its_gradients() -> None:
    given, means, weights = tensor(16, 256, 768), tensor(16, 256, 1), tensor(768)
    size, rows, row = 4 * 16 * 256 * 768, 4 * 16 * 256, 4 * 768
    backward = call("native_layer_norm_backward", given, given, means, means, weights, weights)

    assert alone(call("native_layer_norm", given, weights, weights)) == 2 * size + 2 * rows + 2 * row
    assert alone(backward, (True, True)) == 3 * size + 2 * rows + 3 * row
    assert alone(backward, (False, True)) == 2 * size + 2 * rows + 2 * row
    assert alone(backward, (True, False)) == 3 * size + 2 * rows + row
    assert alone(backward) is None
    assert alone(call("native_layer_norm", given)) is None


def test_a_softmax_of_16_bits_is_known_with_its_backward_pass() -> None:
    scores, wide = tensor(64, 64, dtype=BF16), tensor(64, 64)
    forward = call("_softmax", scores)
    same = call("_softmax_backward_data", scores, scores)
    widened = call("_softmax_backward_data", wide, wide)

    assert alone(forward) is None
    assert compulsory_bytes(forward, outputs([forward, same])) == 4096 * (2 + 2)
    assert compulsory_bytes(forward, outputs([forward, widened])) == 4096 * (2 + 4)
    assert compulsory_bytes(widened, outputs([forward, widened])) == 4096 * (4 + 4 + 2)
    assert compulsory_bytes(forward, outputs([forward, same, widened])) is None
    assert alone(call("_softmax", wide)) == 4096 * 8
    assert alone(widened) is None


def test_attention_reads_query_key_and_value_and_writes_the_sums_for_its_backward_pass() -> None:
    one, sums = tensor(2, 12, 128, 64, dtype=BF16), tensor(2, 12, 128, 1)
    size, small = 2 * 2 * 12 * 128 * 64, 4 * 2 * 12 * 128
    forward = call("_cudnn_attention_forward", one, one, one)
    backward = call("_cudnn_attention_backward", one, one, one, one, one, sums)

    assert compulsory_bytes(forward, outputs([forward, backward])) == 4 * size + small
    assert alone(backward) == 8 * size + small
    assert alone(forward) is None  # whether sums are written is open
    assert alone(call("_cudnn_attention_backward", one, one, one, one, sums, one)) is None
