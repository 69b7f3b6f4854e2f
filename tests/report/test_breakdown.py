"""
The breakdown as a file and as lines.

The GPU's events are written by hand from the format (`hand_written_look`): graphs, lost launches and the
like are in no recording of ours. One of a real GPU is read in `tests/attribute/test_real_look.py`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hand_written_look import ENGINE, Look
from perfzero import __version__
from perfzero.attribute.breakdown import Breakdown, Row
from perfzero.attribute.clock import Clock
from perfzero.attribute.counted import Counted, Figure, Quantity, Sampled
from perfzero.attribute.roofline import Ceilings
from perfzero.attribute.tree import break_down
from perfzero.report.breakdown import (
    LINES,
    SCHEMA_VERSION,
    WIDTH,
    breakdown_json,
    lines,
    overlap,
    within_model,
)

ROOT = Path(__file__).parents[2]


def a_step() -> Look:
    look = Look()
    look.step(0, 0, 1000)
    look.frame("train.py(9): train_step", 1, 990)
    look.module("", "ResNet", 10, 200)
    look.frame("model.py(41): forward", 11, 199)
    for i in range(2):
        look.module(f"layer1.{i}.conv1", "Conv2d", 20 + 40 * i, 50 + 40 * i)
        look.op(
            "aten::cudnn_convolution", 25 + 40 * i, 45 + 40 * i,
            shapes=[[256, 64, 56, 56], [64, 64, 1, 1]],
            strides=[[200704, 3136, 56, 1], [64, 1, 1, 1]],
            types=["c10::BFloat16", "c10::BFloat16"],
            sequence=i,
        )  # fmt: skip
        look.work("fprop", 300 + 30 * i, 325 + 30 * i, at=30 + 40 * i)
    look.module("fc", "Linear", 150, 180)
    look.op("aten::addmm", 155, 175, shapes=[[10], [8, 64], [64, 10]])
    look.work("gemm", 400, 430, at=160)
    look.op("CudnnConvolutionBackward0", 200, 210, ENGINE, sequence=1, forward_thread=1)
    look.optimizer(600, 700)
    look.op("aten::_foreach_add_", 610, 650)
    look.work("adam", 620, 635, at=620)
    look.kernel("stray", 700, 705, correlation=0)
    return look


def broken_down(folder: Path, look: Look | None = None) -> Breakdown:
    return break_down((look or a_step()).trace(folder))


# --- lines


def test_the_heaviest_are_told_a_line_each(tmp_path: Path) -> None:
    assert lines(broken_down(tmp_path)) == [
        "layer1.*.conv1  Conv2d ×2            50 %  [256,64,56,56] NCHW bf16  model.py:41",
        "fc              Linear               30 %  [8,64] fp32               model.py:41",
        "optimizer       aten::_foreach_add_  15 %                            train.py:9",
        "unattributed                          5 %",
    ]


def test_at_most_five_lines_and_nothing_small(tmp_path: Path) -> None:
    look = Look()
    for i in range(8):
        look.module(f"part{chr(97 + i)}", "Linear", 10 * i, 10 * i + 9)
        look.work("gemm", 100 + 20 * i, 110 + 20 * i, at=10 * i + 2)

    assert len(lines(broken_down(tmp_path, look))) == LINES


def test_what_takes_next_to_nothing_is_not_told(tmp_path: Path) -> None:
    look = Look()
    for name, at, length in (("a", 0, 100), ("b", 20, 0.9)):
        look.module(name, "Linear", at, at + 10)
        look.work("gemm", 100 + 5 * at, 100 + 5 * at + length, at=at + 2)
    look.work("copy", 500, 500.9, at=95)

    assert lines(broken_down(tmp_path, look)) == ["a  Linear  98 %  gemm"]


def test_a_replay_is_told(tmp_path: Path) -> None:
    look = Look()
    look.module("", "Net", 0, 20)
    look.kernel("a", 30, 40, correlation=look.launch(5, name="cudaGraphLaunch"))

    assert lines(broken_down(tmp_path, look)) == ["(model)  Net  100 %  by replay"]


def test_a_function_that_ran_already_is_told_without_a_line(tmp_path: Path) -> None:
    look = Look()
    look.frame("train.py(88): <module>", -5, 100)
    look.step(0, 0, 90)
    look.module("", "Net", 0, 20)
    look.work("a", 30, 40, at=5)

    assert lines(broken_down(tmp_path, look)) == ["(model)  Net  100 %  a  train.py"]


def test_whole_paths_are_told_without_the_folder_they_have_in_common(tmp_path: Path) -> None:
    look = Look()
    look.frame("other.py(3): run", -5, 100)
    look.module("", "Net", 0, 20, site="/home/me/work/train.py:88")
    look.module("a", "Linear", 4, 10, site="/home/me/work/model/net.py:7")
    look.work("x", 30, 40, at=2)
    look.work("y", 40, 49, at=5)
    look.work("z", 49, 57, at=50)

    assert lines(broken_down(tmp_path, look)) == [
        "(model)          Net     37 %  x  train.py:88",
        "a                Linear  33 %  y  model/net.py:7",
        "outside modules  z       30 %     other.py:3",
    ]


def test_paths_with_nothing_in_common_are_told_whole(tmp_path: Path) -> None:
    look = Look()
    look.module("a", "Linear", 0, 10, site="/home/me/train.py:8")
    look.module("b", "Linear", 20, 30, site="/opt/net.py:7")
    look.work("x", 30, 40, at=2)
    look.work("y", 40, 49, at=22)

    assert [line.split()[-1] for line in lines(broken_down(tmp_path, look))] == [
        "/home/me/train.py:8",
        "/opt/net.py:7",
    ]


THREE = ("gemm", "void add<float>(float*)", "add2")


def kernels_alone(steps: int, names: Sequence[str] = THREE) -> Look:
    """As CUPTI alone tells them: the first runs twice in a step, 30 us each, the others 15 us, a copy 10."""
    look = Look()
    for number in range(steps):
        at = 200 * number
        for place, name in enumerate((names[0], *names)):
            look.kernel(name, at + 40 * place, at + 40 * place + (30 if place < 2 else 15), correlation=0)
        look.kernel("Memcpy DtoH (Device -> Pinned)", at + 170, at + 180, cat="gpu_memcpy", correlation=0)
    return look


@pytest.mark.parametrize(("beside", "told"), [(0, True), (60, False)])
def test_where_one_module_has_everything_its_operators_are_told(
    tmp_path: Path, beside: int, told: bool
) -> None:
    """As of a simulation whose model is one class: that it takes 100 % of the time tells nobody where."""
    look = Look()
    look.step(0, 0, 1000)
    look.module("", "Market", 10, 200)
    for place, (name, length) in enumerate({"aten::pow": 60, "aten::mul": 30}.items()):
        look.op(name, 20 + 40 * place, 50 + 40 * place, shapes=[[4096]], types=["double"])
        look.work("elementwise", 300 + 100 * place, 300 + 100 * place + length, at=30 + 40 * place)
    if beside:
        look.op("aten::sum", 250, 280, shapes=[[4096]])
        look.work("reduce", 500, 500 + beside, at=260)
    names = [line.split("  ")[0] for line in lines(broken_down(tmp_path, look))]

    assert names[0] == "(model)"
    assert [name for name in names if name.startswith("aten::")] == ["aten::pow", "aten::mul"] * told


def test_without_modules_and_operators_kernels_are_told(tmp_path: Path) -> None:
    assert lines(broken_down(tmp_path, kernels_alone(6))) == [
        "gemm                            kernel ×2  60 %",
        "add2                            kernel     15 %",
        "add<float>(float*)              kernel     15 %",
        "Memcpy DtoH (Device -> Pinned)  memcpy     10 %",
    ]


@pytest.mark.parametrize("rest_us", [3, 30])
def test_of_a_step_that_is_one_graph_its_kernels_are_told_and_else_that_there_is_one(
    tmp_path: Path, rest_us: int
) -> None:
    """As of an inference server: whose kernels of a graph are was known when it was captured."""
    look = Look()
    for number in range(4):
        at = 1000 * number
        look.step(number, at, at + 500)
        look.replay(at + 1, at + 9, site="/job/serve.py:12")
        launch = look.launch(at + 5, name="cudaGraphLaunch")
        for place, name in enumerate(("gemm", "gemm", "norm")):
            look.kernel(name, at + 40 * place + 20, at + 40 * place + 50, correlation=launch)
        look.op("aten::argmax", at + 12, at + 18)
        look.work("sample", at + 200, at + 200 + rest_us, at=at + 15)

    told = lines(broken_down(tmp_path, look))
    if rest_us == 3:
        assert told == [
            "gemm    kernel ×2   65 %  by replay  serve.py:12",
            "norm    kernel      32 %  by replay  serve.py:12",
            "sample  kernel     3.2 %",
        ]
    else:
        assert told == [
            "graph replays                  75 %  by replay  serve.py:12",
            "outside modules  aten::argmax  25 %",
        ]


def test_kernels_of_a_trace_without_steps_are_told_without_how_often(tmp_path: Path) -> None:
    look = Look()
    look.kernel("gemm", 0, 45, correlation=0)
    look.kernel("gemm", 100, 145, correlation=0)
    look.kernel("add", 200, 210, correlation=0)
    look.kernel("next_to_nothing", 220, 220.3, correlation=0)

    assert lines(broken_down(tmp_path, look)) == ["gemm  kernel  90 %", "add   kernel  10 %"]


def test_a_long_name_of_a_kernel_is_told_from_its_beginning(tmp_path: Path) -> None:
    named = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128>(Params)"
    line, *_ = lines(broken_down(tmp_path, kernels_alone(6, (named, "b", "c"))))

    assert line.startswith("cutlass::Kernel2<cutlass_80_tensorop_bf16_s…  kernel ×2")


JAX = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_"


def test_kernels_that_differ_at_the_end_of_their_names_are_told_apart(tmp_path: Path) -> None:
    """As JAX launched them on an H200; also in a column that is narrower, and without what all have."""
    first, second = JAX + "bias_NNT", JAX + "TNT"
    breakdown = broken_down(tmp_path, kernels_alone(6, (first, second, "sm80_xmma_gemm_f32", "my_prism90_x")))
    counted = [replace(k, row=read(k.row, 0.242)) for k in breakdown.kernels]
    narrow = [replace(k, row=replace(k.row, time=replace(k.row.time, replay_ns=10**9))) for k in counted]
    for kernels in (counted, narrow):
        told = lines(replace(breakdown, kernels=tuple(kernels)))
        names = {line.split()[0] for line in told}
        assert len(names) == len(told) == 5
        assert {n[:22] + n[-4:] for n in names if "256" in n} == {
            "nvjet_tst_256x128_64x4_NNT", "nvjet_tst_256x128_64x4_TNT",
        }  # fmt: skip
        assert {"xmma_gemm_f32", "my_prism90_x"} <= names
        assert max(map(len, told)) <= WIDTH


def ranks(folder: Path) -> Breakdown:
    """A product of 80 us, beside it half of an exchange of 40 us."""
    look = Look()
    look.module("0", "Linear", 0, 10)
    look.work("gemm", 100, 180, at=5)
    look.op("record_param_comms", 20, 30, shapes=[[1024]], types=["c10::BFloat16"])
    look.work("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs<4>)", 160, 200, at=25, stream=20)
    return broken_down(folder, look)


def test_of_collectives_it_is_told_which_and_what_of_them_nothing_hides(tmp_path: Path) -> None:
    assert lines(ranks(tmp_path)) == [
        "(model).0    Linear     80 %  gemm",
        "collectives  AllReduce  40 %  50 % exposed [1024] bf16",
    ]


def test_what_shares_add_up_to_is_told_where_streams_overlap(tmp_path: Path) -> None:
    assert overlap(ranks(tmp_path)) == 1.2
    assert math.isnan(overlap(broken_down(tmp_path)))
    assert math.isnan(overlap(broken_down(tmp_path, Look())))


def test_a_path_that_is_numbers_only_is_told_within_the_model() -> None:
    told = [within_model(path) for path in ("", "0", "*", "*.1", "fc", "*.bn3", "(Loss)")]
    assert told == ["(model)", "(model).0", "(model).*", "(model).*.1", "fc", "*.bn3", "(Loss)"]


def test_an_operator_is_told_and_not_its_kernel(tmp_path: Path) -> None:
    """As where a program has no modules: all is launched outside of them."""
    look = Look()
    look.op("aten::mm", 0, 20)
    look.work("gemm", 30, 40, at=5)

    assert lines(broken_down(tmp_path, look)) == ["outside modules  aten::mm  100 %"]


def test_a_kernel_that_no_operator_launched_is_told_by_its_name(tmp_path: Path) -> None:
    """As one written in Triton, which the program launches itself beside small operators."""
    look = Look()
    look.work("attend", 30, 90, at=5)
    look.op("aten::mul", 10, 20, shapes=[[8, 64]])
    look.work("elementwise", 90, 100, at=15)
    look.module("head", "Head", 200, 220)
    look.op("aten::empty", 201, 203, shapes=[[4, 4]])
    look.work("void sm90_project", 300, 350, at=210)
    look.op("aten::add", 212, 218, shapes=[[16]])
    look.work("elementwise", 350, 355, at=215)

    assert lines(broken_down(tmp_path, look)) == [
        "outside modules  attend  56 %",
        "head             Head    44 %  project",
    ]


def test_a_kernel_with_less_than_half_of_the_time_does_not_stand_for_its_row(tmp_path: Path) -> None:
    look = Look()
    look.work("attend", 30, 70, at=5)
    look.op("aten::mul", 10, 20, shapes=[[8, 64]])
    look.work("elementwise", 70, 105, at=15)
    look.op("aten::add", 20, 30, shapes=[[8, 64]])
    look.work("another", 105, 130, at=25)

    assert lines(broken_down(tmp_path, look)) == ["outside modules  aten::mul  100 %  [8,64] fp32"]


def test_no_gpu_work_no_lines(tmp_path: Path) -> None:
    assert lines(broken_down(tmp_path, Look())) == []


def test_a_long_line_gives_way_where_it_says_least(tmp_path: Path) -> None:
    look = Look()
    look.frame("a/very/long/way/to/the/file/of/the/model/model.py(41): forward", 1, 90)
    look.step(0, 0, 95)
    look.module(".".join(f"part_{i}" for i in range(20)) + ".conv", "ConvolutionWithAVeryLongName", 10, 90)
    look.op(
        "aten::conv2d", 20, 80,
        shapes=[[256, 64, 56, 56]], strides=[[200704, 1, 3584, 64]], types=["c10::Half"],
    )  # fmt: skip
    look.work("a", 100, 140, at=30)

    (line,) = lines(broken_down(tmp_path, look))

    assert len(line) <= WIDTH
    assert re.fullmatch(
        r"….*part_19\.conv +ConvolutionWith\w*… +100 %  \[256,64,56,56\] channels-last fp16  ….*model\.py:41",
        line,
    )


def test_a_wide_cell_does_not_widen_every_line(tmp_path: Path) -> None:
    look = Look()
    look.step(0, 0, 100)
    look.module("a" * 60, "ALongNameOfAClass" * 3, 1, 30, site="a/folder" * 9 + "/file.py:3")
    look.op("aten::x", 2, 20, shapes=[[2**61] * 16], types=["Type" * 1000])
    look.work("k", 200, 210, at=5)
    look.module("b" * 60, "Linear", 51, 60, site="file.py:4")
    look.op("aten::addmm", 52, 59, shapes=[[2, 2]], types=["c10::BFloat16"])
    look.work("k", 210, 220, at=55)

    told = lines(broken_down(tmp_path, look))

    assert [len(line) <= WIDTH for line in told] == [True, True]
    assert "[2305843009213693952,23…" in told[0]
    assert "[2,2] bf16" in told[1]


def test_what_goes_in_gives_way_at_last(tmp_path: Path) -> None:
    look = Look()
    look.module("a" * 60, "ALongNameOfAClass" * 3, 1, 30, site="a/folder" * 9 + "/file.py:3")
    look.op(
        "aten::convolution", 2, 20,
        shapes=[[2**40] * 4], strides=[[2**120 // 2**61, 1, 2**60, 2**40]], types=["Type" * 9],
    )  # fmt: skip
    look.kernel("k", 200, 210, correlation=look.launch(5, name="cudaGraphLaunch"))

    (line,) = lines(broken_down(tmp_path, look))

    assert len(line) <= WIDTH
    assert re.fullmatch(r"…a+  A\w+…  100 %  \[1099511627776,10995116… strided TypeTypeTyp…  ….*py:3", line)


def test_names_cannot_drive_the_terminal(tmp_path: Path) -> None:
    look = Look()
    look.module("a\nb\tc", "Net", 0, 20)
    look.work("a", 30, 40, at=5)

    assert lines(broken_down(tmp_path, look)) == ["a b c  Net  100 %  a"]


def test_shares_of_what_is_read_stand_beside_those_of_time(tmp_path: Path) -> None:
    breakdown = sampled(broken_down(tmp_path), {})
    alike = [
        replace(a, row=read(a.row, share))
        for a, share in zip(breakdown.alike, (0.311, math.nan), strict=True)
    ]
    elsewhere = [read(row, 0.12) if row.name == "optimizer" else row for row in breakdown.elsewhere]
    breakdown = replace(breakdown, alike=tuple(alike), elsewhere=tuple(elsewhere))

    assert lines(breakdown) == [
        "layer1.*.conv1  Conv2d ×2        50 %  31 % of DRAM reads  [256,64,56,56] NCHW bf16  model.py:41",
        "fc              Linear           30 %                      [8,64] fp32               model.py:41",
        "optimizer       aten::_foreach…  15 %  12 % of DRAM reads                            train.py:9",
        "unattributed                      5 %",
    ]


def test_with_shares_of_reads_a_long_line_fits_as_well(tmp_path: Path) -> None:
    look = Look()
    look.module("a" * 60, "ALongNameOfAClass" * 3, 1, 30, site="a/folder" * 9 + "/file.py:3")
    look.op("aten::x", 2, 20, shapes=[[2**61] * 16], types=["Type" * 1000])
    look.kernel("k", 200, 210, correlation=look.launch(5, name="cudaGraphLaunch"))
    breakdown = broken_down(tmp_path, look)
    (alike,) = breakdown.alike
    (line,) = lines(replace(breakdown, alike=(replace(alike, row=read(alike.row, 0.999)),)))

    assert len(line) <= WIDTH
    assert " 100 %  99.9 % of DRAM reads  [2305843009213693952,2…  …" in line


def read(row: Row, share: float) -> Row:
    """*row* with a share of the reads; not told where that is NaN."""
    return replace(row, counted=Counted(dram_read_bytes=Figure(share * 1e9, 0.0, 1e9, share)))


def sampled(breakdown: Breakdown, reads: dict[str, Figure]) -> Breakdown:
    """*breakdown* as if counters had been sampled, with what kernels read by name."""
    return replace(
        breakdown,
        kernels=tuple(
            replace(k, row=replace(k.row, counted=Counted(dram_read_bytes=reads.get(k.row.name))))
            for k in breakdown.kernels
        ),
        counted=Counted(dram_read_bytes=Figure(8e9, 7.9e9, 8.1e9, 1.0)),
        sampled=Sampled(
            900, 20_000.0, 0.97, Clock(1, 1500.0, known=True),
            (Quantity("dram_read_bytes", 8e9, 4e8, 0.05, 0.8, -900.0),),
        ),
    )  # fmt: skip


# --- the file


def document(folder: Path) -> dict[str, Any]:
    text = breakdown_json({"look-4242.json.gz": broken_down(folder)}, recording="runs/one")
    found: dict[str, Any] = json.loads(text, parse_constant=lambda name: 1 / 0)
    return found


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    found = document(tmp_path)

    assert found["schema"] == SCHEMA_VERSION == 1
    assert found["perfzero"] == __version__
    assert found["recording"] == "runs/one"
    assert [look["file"] for look in found["looks"]] == ["look-4242.json.gz"]


def test_a_module_in_the_file(tmp_path: Path) -> None:
    (look,) = document(tmp_path)["looks"]
    module = next(m for m in look["modules"] if m["path"] == "layer1.0.conv1")
    time = {
        "gpu_ns": 25000, "share": 0.25, "per_step_ns": 25000.0, "launches": 1,
        "forward_ns": 25000, "backward_ns": 0, "optimizer_ns": 0, "other_ns": 0, "replay_ns": 0,
    }  # fmt: skip
    nothing = {
        "flops": None, "compulsory_bytes": None, "intensity": None, "reuse": None, "reuse_low": None,
        "reuse_high": None, "roof": None, "roof_low": None, "roof_high": None, "limit": "",
    }  # fmt: skip

    assert module == {
        "path": "layer1.0.conv1",
        "class_name": "Conv2d",
        "parent": "layer1.0",
        "depth": 3,
        "own": {
            "name": "layer1.0.conv1",
            "time": time,
            "call": {
                "operator": "aten::cudnn_convolution",
                "inputs": [
                    {
                        "shape": [256, 64, 56, 56],
                        "strides": [200704, 3136, 56, 1],
                        "dtype": "c10::BFloat16",
                    },
                    {"shape": [64, 64, 1, 1], "strides": [64, 1, 1, 1], "dtype": "c10::BFloat16"},
                ],
                "main": 0,
                "layout": "NCHW",
            },
            "kernel": "fprop",
            "module": "layer1.0.conv1",
            "source": {"file": "model.py", "line": 41, "function": "forward"},
            "counted": None,
            "roofline": nothing,
        },
        "total": time,
        "total_counted": None,
        "total_roofline": nothing,
    }


def test_what_is_computed_and_has_to_be_moved_is_in_the_file(tmp_path: Path) -> None:
    (look,) = document(tmp_path)["looks"]
    product = next(row for row in look["operators"] if row["name"] == "aten::addmm")

    assert product["roofline"]["flops"] == 2 * 8 * 64 * 10
    assert look["roofline"]["flops"] is None  # of the rest it is not known
    assert look["ceilings"] is None


def test_what_it_was_held_against_is_in_the_file(tmp_path: Path) -> None:
    breakdown = replace(broken_down(tmp_path), ceilings=Ceilings({"bf16": 9e14, "fp8": math.nan}, 4.3e12))
    (look,) = json.loads(breakdown_json({"x": breakdown}, recording="x"))["looks"]

    assert look["ceilings"] == {"flops": {"bf16": 9e14, "fp8": None}, "dram": 4.3e12}


def test_sums_in_the_file_add_up(tmp_path: Path) -> None:
    (look,) = document(tmp_path)["looks"]
    total = look["total"]["gpu_ns"]

    assert total == sum(m["own"]["time"]["gpu_ns"] for m in look["modules"]) + sum(
        row["time"]["gpu_ns"] for row in look["elsewhere"]
    )
    assert total == sum(row["time"]["gpu_ns"] for row in look["operators"])
    assert total == sum(kernel["row"]["time"]["gpu_ns"] for kernel in look["kernels"])


def test_a_missing_number_is_null(tmp_path: Path) -> None:
    text = breakdown_json({"look-1.json.gz": broken_down(tmp_path, Look())}, recording="x")

    assert json.loads(text)["looks"][0]["total"]["share"] is None


def test_without_counters_they_are_null(tmp_path: Path) -> None:
    (look,) = document(tmp_path)["looks"]
    assert look["counted"] is look["sampled"] is None
    assert all(row["counted"] is None for row in look["operators"])


def test_counters_are_in_the_file(tmp_path: Path) -> None:
    breakdown = sampled(broken_down(tmp_path), {"gemm": Figure(math.nan, 0.0, 5e9, math.nan, ("adam",), 4e9)})
    text = breakdown_json({"x": breakdown}, recording="x")
    (look,) = json.loads(text)["looks"]
    gemm = next(k["row"]["counted"] for k in look["kernels"] if k["row"]["name"] == "gemm")

    assert gemm["dram_read_bytes"] == {
        "value": None, "low": 0.0, "high": 5e9, "share": None, "with_rows": ["adam"], "together": 4e9,
    }  # fmt: skip
    assert gemm["dram_write_bytes"] is None
    assert look["sampled"]["clock"]["offset_ns"] == 1500.0
    assert look["sampled"]["clock"]["drift_error"] is None
    assert look["sampled"]["quantities"] == [
        {
            "name": "dram_read_bytes", "counted": 8e9, "unattributed": 4e8,
            "unattributed_share": 0.05, "misfit": 0.8, "lag_ns": -900.0,
        }
    ]  # fmt: skip


def test_every_field_of_the_file_is_documented(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "attribution.md").read_text()
    counted = sampled(broken_down(tmp_path), {"gemm": Figure(1e9, 0.0, 5e9)})
    text = breakdown_json({"x": counted}, recording="x")
    found = names(document(tmp_path)) | names(json.loads(text))
    undocumented = {name for name in found if f"`{name}`" not in page}

    assert undocumented == set()


def names(value: Any) -> set[str]:
    """All names of fields in *value*."""
    if isinstance(value, dict):
        return set(value) | {name for item in value.values() for name in names(item)}
    if isinstance(value, list):
        return {name for item in value for name in names(item)}
    return set()
