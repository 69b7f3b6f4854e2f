"""
A look of a real GPU, whole: what the report tells of it, and Nsight Compute of the same step.

`tests/recordings/_looks` has the recording, and README.md there how to make it anew. What is asked for holds
of every run of that program, and no figure belongs to one alone.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from perfzero.attribute.breakdown import OPTIMIZER_ROW, OUTSIDE_ROW, UNATTRIBUTED_ROW, Breakdown, Module, Row
from perfzero.attribute.roofline import kind_of_reuse
from perfzero.attribute.tree import break_down
from perfzero.report.ceilings import ceilings
from perfzero.store.kineto import read_trace
from perfzero.store.reader import Recording, open_recording
from perfzero.traces import Trace
from perfzero.values import Samples

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "recordings" / "_looks" / "resnet50_fp32"

LIMIT_BYTES = 1_000_000

LAYERS = {
    "ResNet": 1, "Sequential": 8, "Bottleneck": 16, "Conv2d": 53, "BatchNorm2d": 53, "ReLU": 17, "Linear": 1,
    "MaxPool2d": 1, "AdaptiveAvgPool2d": 1,
}  # fmt: skip
"""Of a ResNet-50: 16 blocks of three convolutions in four layers, the first of each with a shortcut."""


@dataclass(frozen=True)
class Replayed:
    """The recording and what is made of it."""

    recording: Recording
    trace: Trace
    samples: Samples
    breakdown: Breakdown
    truth: Sequence[dict[str, Any]]

    def module(self, path: str) -> Module:
        return next(m for m in self.breakdown.modules if m.path == path)

    def elsewhere(self, name: str) -> Row:
        return next(row for row in self.breakdown.elsewhere if row.name == name)


@pytest.fixture(scope="module")
def replayed() -> Replayed:
    recording = open_recording(FOLDER)
    [look] = recording.looks
    trace = read_trace(FOLDER / look.file)
    seen = recording.observation(0)
    samples = seen.close_up
    truth = json.loads(gzip.decompress((FOLDER / "truth-resnet50_fp32.json.gz").read_bytes()))["kernels"]
    breakdown = break_down(trace, samples, ceilings(seen, look), l2_bytes=seen.gpu.l2_bytes)
    return Replayed(recording, trace, samples, breakdown, truth)


@pytest.fixture(scope="module")
def hold() -> Iterator[ModuleType]:
    """benchmarks/attribution/hold.py, which holds the same on a GPU before a release."""
    spec = importlib.util.spec_from_file_location("hold", ROOT / "benchmarks" / "attribution" / "hold.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hold"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["hold"]


# --- what is kept


def test_the_recording_is_small_whole_and_undoubted(replayed: Replayed) -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < LIMIT_BYTES
    assert replayed.recording.complete
    assert replayed.recording.doubts == ()
    assert replayed.trace.doubts == ()


def test_it_says_which_command_made_it(replayed: Replayed) -> None:
    ours, theirs = (FOLDER / "command.txt").read_text().split(" -- ")
    _, *program = replayed.recording.manifest.process.command

    assert ours == f"perfzero record --agent -o {FOLDER.name}"
    assert shlex.split(theirs)[1:] == program
    assert (ROOT / program[0]).is_file()


def test_it_tells_nothing_of_whose_machine_it_was(replayed: Replayed) -> None:
    [look] = replayed.recording.looks
    told = "".join((FOLDER / name).read_text() for name in ("manifest.json", "events.jsonl", "command.txt"))
    told += gzip.decompress((FOLDER / look.file).read_bytes()).decode()

    assert not [w for w in ("/home/", "/root/", "/tmp/", "/run/", "/opt/", "hostname", ".venv") if w in told]
    assert {m.site.file for m in replayed.trace.modules if m.site is not None} == {"programs.py"}


# --- where the time goes


def test_all_steps_are_there_and_all_of_their_time_has_an_owner(replayed: Replayed) -> None:
    breakdown, [look] = replayed.breakdown, replayed.recording.looks

    assert breakdown.steps == len(look.steps_ns) - 1 >= 3
    assert breakdown.doubts == ()
    assert replayed.elsewhere(UNATTRIBUTED_ROW).time.gpu_ns == 0
    assert replayed.elsewhere(OUTSIDE_ROW).time.share < 0.01  # the loss, and the copy of it to the host
    assert 0 < replayed.elsewhere(OPTIMIZER_ROW).time.share < 0.05


def test_each_view_adds_up_to_the_total(replayed: Replayed) -> None:
    breakdown = replayed.breakdown
    modules = [m.own for m in breakdown.modules]
    total = breakdown.total

    for rows in (
        [*modules, *breakdown.elsewhere],
        [*(a.row for a in breakdown.alike), *breakdown.elsewhere],
        breakdown.operators,
        [k.row for k in breakdown.kernels],
    ):
        assert sum(row.time.gpu_ns for row in rows) == total.gpu_ns
        assert sum(row.time.launches for row in rows) == total.launches
        assert sum(row.time.share for row in rows) == pytest.approx(total.gpu_ns / breakdown.busy_ns)
    assert total.forward_ns + total.backward_ns + total.optimizer_ns + total.other_ns == total.gpu_ns
    # One stream: hardly anything runs at once.
    assert 1 <= total.gpu_ns / breakdown.busy_ns < 1.01


def test_a_step_takes_as_long_as_nsight_compute_says(replayed: Replayed) -> None:
    """It measures each kernel by itself; steps of training are not the same to the percent."""
    true_ns = sum(kernel["duration_ns"] for kernel in replayed.truth)

    assert replayed.breakdown.total.per_step_ns == pytest.approx(true_ns, rel=0.05)


def test_the_modules_are_those_of_the_network(replayed: Replayed) -> None:
    assert Counter(m.class_name for m in replayed.breakdown.modules) == LAYERS
    assert replayed.module("layer4.2.conv3").parent == "layer4.2"
    assert {m.own.source.file for m in replayed.breakdown.modules if m.own.source} == {"programs.py"}


def test_the_backward_pass_of_each_convolution_is_found_and_takes_about_twice_as_long(
    replayed: Replayed,
) -> None:
    """A gradient of the input and one of the weights; of the first layer's images none is asked for."""
    total = replayed.breakdown.total
    convolutions = [m for m in replayed.breakdown.modules if m.class_name == "Conv2d"]

    assert 1.5 < total.backward_ns / total.forward_ns < 3
    assert all(m.own.time.forward_ns > 0 and m.own.time.backward_ns > 0 for m in convolutions)


def test_the_first_convolution_is_told_with_its_images_their_layout_and_kernels(replayed: Replayed) -> None:
    conv1 = replayed.module("conv1")
    call = conv1.own.call

    assert call is not None
    assert call.operator == "aten::cudnn_convolution"
    assert call.main == 0
    assert [tensor.shape for tensor in call.inputs] == [(64, 3, 224, 224), (64, 3, 7, 7)]
    assert {tensor.dtype for tensor in call.inputs} == {"float"}
    assert call.layout == "NCHW"
    assert conv1.own.kernel
    assert 0.01 < conv1.own.time.share < 0.1


def test_like_layers_are_taken_together(replayed: Replayed) -> None:
    [alike] = [a for a in replayed.breakdown.alike if a.row.name == "layer3.*.conv2" and a.count > 1]

    assert (alike.class_name, alike.count) == ("Conv2d", 5)  # the first of six has a stride
    assert alike.row.call is not None
    assert alike.row.call.inputs[0].shape == (64, 256, 14, 14)


# --- what each kernel read and wrote


def test_reads_of_each_kind_of_kernel_are_those_of_nsight_compute(
    replayed: Replayed, hold: ModuleType
) -> None:
    """As fine as they were sampled, and half as fine. Sharing out by overlap in time is far off."""
    held = hold.hold(replayed.trace, replayed.samples, replayed.truth, periods_us=[100.0])
    fine, coarse = (one for one in held if one.quantity == "read_bytes")

    assert fine.period_us <= 52
    assert fine.kinds <= 0.03
    assert coarse.period_us == pytest.approx(100, rel=0.2)
    assert coarse.kinds <= 0.08
    for one in (fine, coarse):
        assert one.total == pytest.approx(1, abs=0.02)
        assert one.module_points <= 2
        assert one.naive_kinds > 3 * one.kinds
        assert 1.96 * one.offset_error_us <= 2
    # What is written may leave the L2 only while the next kernels run, and those ran alone there.
    writes = next(one for one in held if one.quantity == "write_bytes")
    assert writes.kinds <= 0.08
    assert writes.module_points <= 2


def test_samples_in_another_order_would_be_found_out(replayed: Replayed, hold: ModuleType) -> None:
    samples = replayed.samples
    order = np.random.default_rng(0).permutation(len(samples))
    columns = {name: column[order] for name, column in samples.columns.items()}
    shuffled = Samples(samples.start_ns, samples.end_ns, columns)
    [reads, _] = hold.hold(replayed.trace, shuffled, replayed.truth, periods_us=[])

    assert reads.kinds > 0.2


def test_another_step_is_not_held_against_this_truth(replayed: Replayed, hold: ModuleType) -> None:
    """If the kernels are others, the truth is to be measured again."""
    with pytest.raises(ValueError, match="no step has the 736 kernels"):
        hold.hold(replayed.trace, replayed.samples, replayed.truth[:-1], periods_us=[])


def test_what_the_report_tells_is_the_same_and_reaches_as_far_as_it_says(replayed: Replayed) -> None:
    breakdown = replayed.breakdown
    assert breakdown.sampled is not None
    assert breakdown.counted is not None
    reads, writes = breakdown.counted.dram_read_bytes, breakdown.counted.dram_write_bytes
    assert reads is not None
    assert writes is not None
    true_reads, true_writes = (
        sum(kernel[name] for kernel in replayed.truth) * breakdown.steps
        for name in ("read_bytes", "write_bytes")
    )

    assert reads.value == pytest.approx(true_reads, rel=0.03)
    assert writes.value == pytest.approx(true_writes, rel=0.03)
    assert reads.low < reads.value < reads.high
    assert breakdown.sampled.clock.known
    assert breakdown.sampled.seen > 0.5
    for quantity in breakdown.sampled.quantities:
        assert abs(quantity.unattributed_share) < 0.01


def test_convolutions_use_the_tensor_cores_and_activations_the_memory(replayed: Replayed) -> None:
    """What is known of such layers beforehand; each that takes time is told."""
    tensor: dict[str, list[float]] = {}
    reads: Counter[str] = Counter()
    time: Counter[str] = Counter()
    for module in replayed.breakdown.modules:
        if module.own.time.gpu_ns:
            counted = module.own.counted
            assert counted is not None
            assert counted.dram_read_bytes is not None
            assert counted.tensor_active is not None
            tensor.setdefault(module.class_name, []).append(counted.tensor_active.value)
            reads[module.class_name] += counted.dram_read_bytes.share
            time[module.class_name] += module.own.time.share

    assert min(tensor["Conv2d"]) > 0.05
    assert max(tensor["BatchNorm2d"] + tensor["ReLU"]) < 0.01
    assert reads["ReLU"] > 1.3 * time["ReLU"]
    assert reads["Conv2d"] < time["Conv2d"]


# --- what it computes and has to move


def test_a_step_computes_what_is_known_of_the_network(replayed: Replayed) -> None:
    """
    4,089,184,256 multiply-adds per image forward, three times that in training; but no gradient of images.

    The first layer makes 64 results of 7 x 7 x 3 values at 112 x 112 places.
    """
    first = 112 * 112 * 64 * 7 * 7 * 3
    flops = 2 * 64 * (3 * 4_089_184_256 - first)
    breakdown = replayed.breakdown

    assert breakdown.roofline.flops == breakdown.steps * flops
    assert sum(row.roofline.flops for row in breakdown.operators if row.time.gpu_ns) == pytest.approx(
        breakdown.steps * flops
    )
    assert replayed.module("conv1").own.roofline.flops == breakdown.steps * 2 * 64 * 2 * first


def test_of_what_has_to_be_moved_nsight_compute_and_the_look_say_the_same(replayed: Replayed) -> None:
    """
    Bytes of elementwise kernels in Nsight Compute's step over the compulsory ones, and the look's reuse.

    The backward pass of a large batch norm has to read both of its inputs twice, and the L2 has a part of it.
    """
    operators = {row.name: row.roofline for row in replayed.breakdown.operators}
    steps = replayed.breakdown.steps

    def true(*words: str) -> float:
        found = [k for k in replayed.truth if all(word in k["name"] for word in words)]
        return sum(kernel["read_bytes"] + kernel["write_bytes"] for kernel in found)

    for operator, *words in (
        ("aten::threshold_backward", "threshold"),
        ("aten::clamp_min_", "clamp"),
        ("aten::cudnn_batch_norm", "bn_fw"),
        ("aten::cudnn_batch_norm_backward", "bn_bw"),
        ("aten::max_pool2d_with_indices", "max_pool_forward"),
    ):
        found = operators[operator]
        reuse = true(*words) * steps / found.compulsory_bytes
        assert found.reuse == pytest.approx(reuse, rel=0.06), operator
        assert found.reuse_low < reuse < found.reuse_high, operator
    assert kind_of_reuse(operators["aten::threshold_backward"]) == "streaming"
    assert kind_of_reuse(operators["aten::cudnn_batch_norm_backward"]) == "streaming"


def test_large_batch_norms_move_what_two_passes_have_to_and_none_is_blamed(replayed: Replayed) -> None:
    norms = {m.path: m.own.roofline for m in replayed.breakdown.modules if m.class_name == "BatchNorm2d"}

    # 205, 205 and 103 MB, under an L2 of 63 MB.
    for large in ("layer1.1.bn3", "bn1", "layer2.1.bn3"):
        assert norms[large].reuse == pytest.approx(1, abs=0.1), large
    # cuDNN keeps each of its channels of 50 kB in an SM, and reads it once.
    assert norms["layer3.1.bn3"].reuse == pytest.approx(1, abs=0.1)
    assert not any(kind_of_reuse(norm) == "poor reuse" for norm in norms.values())


def test_rows_stand_under_the_roof_that_they_are_near(replayed: Replayed) -> None:
    operators = {row.name: row.roofline for row in replayed.breakdown.operators}

    assert 0.8 < operators["aten::threshold_backward"].roof < 1.05
    assert operators["aten::threshold_backward"].limit == "dram"
    [deep] = [a.row for a in replayed.breakdown.alike if a.row.name == "layer3.*.conv2"]
    assert deep.roofline.limit == "compute"
    for module in replayed.breakdown.modules:
        roofline, known = module.own.roofline, module.own.time.share >= 0.01
        assert math.isfinite(roofline.roof) == known, module.path
        assert not known or 0 < roofline.roof_low < roofline.roof_high < 1.1, module.path
