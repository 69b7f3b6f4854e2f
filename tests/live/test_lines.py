"""What a screen says, at any width, with and without block characters."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from perfzero.live.lines import ASCII, UNICODE, Glyphs, View, page, plain, short, spark, words
from perfzero.live.snapshot import GpuNow, ProcessNow, Snapshot
from perfzero.values import Gpu
from perfzero.words.said import say

Golden = Callable[[str, str], None]

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "[red]markup[/red] [/] [link=http://x]",
    "x" * 4096,
    "训练模型.py " * 40,
    "a\u0301\u200b\u202egnp.exe",
    "two\nlines\r\n\ttab",
)


def with_processes(snapshot: Snapshot, *commands: str) -> Snapshot:
    found = tuple(ProcessNow(0, 100 + n, "ada", c, 1e9 * n) for n, c in enumerate(commands))
    return replace(snapshot, gpus=(replace(snapshot.gpus[0], processes=found), *snapshot.gpus[1:]))


def text_of(
    snapshot: Snapshot, width: int, height: int, view: View | None = None, language: str = "en"
) -> str:
    lines = page(snapshot, view or View(every="1s"), width=width, height=height, language=language)
    return "".join(plain(line).rstrip() + "\n" for line in lines)


def test_one_gpu_at_80_columns(one: Snapshot, golden: Golden) -> None:
    golden("one_80x23", text_of(one, 80, 23))


def test_one_gpu_at_200_columns(one: Snapshot, golden: Golden) -> None:
    golden("one_200x49", text_of(one, 200, 49))


def test_eight_gpus_at_80_columns(eight: Snapshot, golden: Golden) -> None:
    golden("eight_80x23", text_of(eight, 80, 23, View(selected=2, every="1s")))


def test_the_screen_in_the_docs_is_this_one(eight: Snapshot) -> None:
    said = text_of(eight, 80, 23, View(selected=2, every="1s"))

    assert f"```\n{said}```" in (Path(__file__).parents[2] / "docs" / "top.md").read_text()


def test_eight_gpus_at_200_columns(eight: Snapshot, golden: Golden) -> None:
    golden("eight_200x49", text_of(eight, 200, 49, View(selected=2, every="1s")))


def cells(line: str) -> list[str]:
    """What stands in each column of *line*; in the second one of a wide character nothing."""
    return [part for c in line for part in (c, *[""] * (cell_len(c) - 1))]


def ends(line: str) -> list[int]:
    """The columns in which the words of *line* end."""
    return [cell_len(line[: word.end()]) for word in re.finditer(r"\S+", line)]


@pytest.mark.parametrize(("width", "held"), [(80, 72), (200, 172)])
def test_chinese_stands_in_the_same_columns_as_english(eight: Snapshot, width: int, held: int) -> None:
    """In a row the class differs, columns 4 to 23, and what holds it; on a card the label and the note."""
    view = View(selected=2, every="1s")
    english, chinese = (text_of(eight, width, 23, view, lang).splitlines() for lang in ("en", "zh"))

    assert len(chinese) == len(english)
    assert [e for e in ends(chinese[1]) if 36 < e <= held] == [e for e in ends(english[1]) if 36 < e <= held]
    lines = list(zip(map(cells, chinese), map(cells, english), strict=True))
    for mine, theirs in lines[2:10]:
        assert mine[23:held] == theirs[23:held]
        assert mine[held + 8 :] == theirs[held + 8 :]
    card = [(mine, theirs) for mine, theirs in lines[10:] if "%" in theirs[15:20]]
    assert len(card) >= 6
    note = min(width - 25, 142)
    assert all(mine[15:note] == theirs[15:note] for mine, theirs in card)


def test_gpus_without_counters_are_told_so_in_chinese(one: Snapshot) -> None:
    without = GpuNow(
        Gpu(0, "GPU-b", "NVIDIA A100-SXM4-40GB"),
        "nvml",
        smi_utilization=1.0,
        without_gpm="NVIDIA A100-SXM4-40GB has no GPM: it needs a Hopper or later data-centre GPU.",
        held_down=("capped_power", "capped_thermal"),
    )

    said = text_of(replace(one, gpus=(without,)), 200, 23, language="zh")

    assert "只说明有内核在跑，不说明 GPU 用得好不好。NVIDIA A100-SXM4-40GB 没有 GPM" in said
    assert "时钟受限于  功耗墙、过热" in said


def test_a_lost_gpu_is_told_in_chinese_and_cannot_break_the_screen(eight: Snapshot) -> None:
    lost = replace(eight.gpus[3], lost="The GPU GPU-x\x1b[2J no longer answers: GPU is lost.")
    gpus = (*eight.gpus[:3], lost, *eight.gpus[4:])

    said = text_of(replace(eight, gpus=gpus), 120, 23, language="zh")

    assert "失联：GPU GPU-x[2J 不再应答" in said
    assert "\x1b" not in said


def test_notices_are_told_in_chinese(one: Snapshot) -> None:
    replayed = replace(one, notices=(say("top.replayed", path="runs/a"), "a name of somebody's"))

    said = text_of(replayed, 80, 40, language="zh")

    assert "重放在真实 GPU 上测得的录制：runs/a" in said
    assert "a name of somebody's" in said
    assert "A replay of what was measured on a real GPU: runs/a" in text_of(replayed, 80, 40)


def test_eight_gpus_in_ascii(eight: Snapshot, golden: Golden) -> None:
    said = words(eight, View(), width=80, glyphs=ASCII)

    assert said.isascii()
    golden("eight_80_ascii", said)


@pytest.mark.parametrize("width", [40, 53, 79, 80, 81, 132, 200, 400])
@pytest.mark.parametrize("height", [8, 12, 24, 60])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_line_is_wider_or_lower_than_the_screen(
    eight: Snapshot, width: int, height: int, glyphs: Glyphs, language: str
) -> None:
    hostile = with_processes(eight, *HOSTILE)

    lines = page(hostile, View(selected=7), width=width, height=height, glyphs=glyphs, language=language)

    assert len(lines) <= height
    assert max(cell_len(plain(line)) for line in lines) <= width
    assert glyphs is UNICODE or all(plain(line).isascii() for line in lines)


@pytest.mark.parametrize("command", HOSTILE)
def test_a_process_cannot_break_the_screen(one: Snapshot, command: str) -> None:
    from perfzero.live.processes import short_command

    said = text_of(with_processes(one, short_command([command])), 80, 23)

    assert "\x1b" not in said
    assert "\r" not in said
    assert said.count("\n") == text_of(with_processes(one, "train.py"), 80, 23).count("\n")


def test_the_selected_row_is_marked_without_colour(eight: Snapshot) -> None:
    lines = [plain(line) for line in page(eight, View(selected=5), width=80, height=23)]

    assert [line[3] for line in lines if line.startswith("▸")] == [" "]
    assert next(line for line in lines if line.startswith("▸"))[1:3] == " 5"


def test_a_screen_too_low_for_all_rows_shows_the_selected_one(eight: Snapshot) -> None:
    said = text_of(eight, 80, 8, View(selected=7))

    assert "▸ 7" in said


def test_a_terminal_too_small_says_so(one: Snapshot) -> None:
    assert "too small" in text_of(one, 30, 5)


def test_gpus_without_counters_say_what_that_cannot_prove(one: Snapshot) -> None:
    plain_nvml = GpuNow(
        Gpu(0, "GPU-b", "NVIDIA A100-SXM4-40GB"),
        "nvml",
        smi_utilization=1.0,
        power=300.0,
        without_gpm="NVIDIA A100-SXM4-40GB has no GPM: it needs a Hopper or later data-centre GPU.",
    )

    said = text_of(replace(one, gpus=(plain_nvml,)), 200, 23)

    assert "some kernel ran, and not how well" in said
    assert "has no GPM" in said
    assert "SMs busy" not in said


def test_a_lost_gpu_says_why_and_the_others_go_on(eight: Snapshot) -> None:
    lost = replace(eight.gpus[3], lost="The GPU GPU-x no longer answers: GPU is lost.")
    gpus = (*eight.gpus[:3], lost, *eight.gpus[4:])

    said = text_of(replace(eight, gpus=gpus), 80, 23)

    assert "no longer answers" in said
    assert "tensor cores 8" in said


def test_what_holds_the_clocks_down_stands_in_words(eight: Snapshot) -> None:
    assert "held down by  power cap" in text_of(eight, 80, 23, View(selected=2))
    assert "held down" not in text_of(eight, 80, 23, View(selected=0))


def test_processes_of_the_selected_gpu_come_first(eight: Snapshot) -> None:
    lines = text_of(eight, 80, 40, View(selected=6)).splitlines()
    heading = next(n for n, line in enumerate(lines) if "COMMAND" in line)

    assert lines[heading + 1].split()[0] == "6"


def test_processes_are_sorted_as_asked(one: Snapshot) -> None:
    three = with_processes(one, "c", "a", "b")

    by_memory = [line.split()[1] for line in text_of(three, 80, 40).splitlines() if " ada " in line]
    by_name = text_of(three, 80, 40, View(sort="command")).splitlines()

    assert by_memory == ["102", "101", "100"]
    assert [line.split()[1] for line in by_name if " ada " in line] == ["101", "102", "100"]
    assert any("COMMAND*" in line for line in by_name)


def test_processes_that_do_not_fit_are_counted_and_can_be_reached(one: Snapshot) -> None:
    many = with_processes(one, *(f"job{n:02}" for n in range(40)))

    first, last = text_of(many, 80, 23), text_of(many, 80, 23, View(scrolled=1000))

    assert "more" in first
    assert "job39" in first
    assert "job00" not in first
    assert "job00" in last


def test_columns_stay_in_line_where_ascii_takes_the_place_of_wide_characters(one: Snapshot) -> None:
    found = tuple(ProcessNow(0, n, user, "job", 1e9) for n, user in enumerate(("ada", "训练组")))
    both = replace(one, gpus=(replace(one.gpus[0], processes=found),))

    for glyphs in (ASCII, UNICODE):
        lines = words(both, View(), width=80, glyphs=glyphs).splitlines()
        ends = {cell_len(line.partition("1 GB")[0]) for line in lines if line.endswith("job")}
        assert len(ends) == 1
    assert words(both, View(), width=80, glyphs=ASCII).isascii()


def test_hidden_processes_are_told_of(one: Snapshot) -> None:
    hidden = replace(one, gpus=(replace(one.gpus[0], processes=()),))

    assert "outside of this container" in text_of(hidden, 80, 23)


def test_an_idle_gpu_without_processes_hides_none(one: Snapshot) -> None:
    idle = replace(one.gpus[0], processes=(), memory_used=0.0, sm_active=0.0)

    assert "No process is on the GPU." in text_of(replace(one, gpus=(idle,)), 80, 23)


def test_a_spark_rises_from_low_to_high_and_has_its_gaps() -> None:
    assert spark([0.0, 0.5, 1.0, math.nan, 0.2], width=6, glyphs=UNICODE) == " ▁▅█ ▂"
    assert spark([0.0, 0.5, 1.0], width=2, glyphs=ASCII) == "=#"


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, "0%"), (0.001, "<1%"), (0.81, "81%"), (1.0, "100%"), (math.nan, "–"), (42.0, "999%")],
)
def test_a_share_takes_four_columns_at_most(share: float, expected: str) -> None:
    assert short(share) == expected


@pytest.mark.parametrize("reasons", [1, 2, 3])
def test_what_holds_the_clocks_down_never_touches_the_column_before_it(eight: Snapshot, reasons: int) -> None:
    held = ("capped_power", "capped_thermal", "capped_hardware")[:reasons]
    gpus = tuple(replace(gpu, held_down=held) for gpu in eight.gpus)

    row = text_of(replace(eight, gpus=gpus), 120, 30).splitlines()[2].split()

    assert ("power", "power+1", "power+2")[reasons - 1] in row


@pytest.mark.parametrize(("width", "height"), [(60, 15), (80, 24), (80, 8)])
def test_the_selected_gpu_has_its_card_however_many_there_are(
    eight: Snapshot, width: int, height: int
) -> None:
    sixteen = replace(eight, gpus=tuple(
        replace(gpu, gpu=replace(gpu.gpu, index=k)) for k, gpu in enumerate(eight.gpus * 2)
    ))  # fmt: skip
    lines = text_of(with_processes(sixteen, *"abcdef"), width, height, View(selected=12)).splitlines()

    assert len(lines) <= height
    assert any(line.startswith("▸12") for line in lines)
    assert any("SMs busy" in line and "last" not in line[:8] for line in lines[3:])


@pytest.mark.parametrize("height", range(8, 26))
def test_no_heading_of_processes_stands_without_anything_below_it(eight: Snapshot, height: int) -> None:
    lines = text_of(with_processes(eight, *"abcdef"), 80, height).rstrip("\n").splitlines()

    at = [k for k, line in enumerate(lines) if "COMMAND" in line]
    assert all(k + 1 < len(lines) and lines[k + 1].strip() for k in at)


def test_why_a_gpu_is_lost_cannot_break_the_screen(eight: Snapshot) -> None:
    lost = replace(eight.gpus[3], lost="gone \x1b[2J\u202e away")
    gpus = (*eight.gpus[:3], lost, *eight.gpus[4:])

    said = text_of(replace(eight, gpus=gpus), 80, 24, View(selected=3))

    assert said.count("gone") == 2  # in its row and on its card
    assert "\x1b" not in said
    assert "\u202e" not in said
