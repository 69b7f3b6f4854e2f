"""The display itself, by Textual's pilot: what is on the screen, what keys do, what it leaves behind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.color import Color

from perfzero.errors import SourceError
from perfzero.live.close_look import CloseLook, Looked
from perfzero.live.lines import ASCII, UNICODE
from perfzero.live.snapshot import Snapshot
from perfzero.live.top import Top
from perfzero.values import Gpu
from perfzero.words.said import say

RECORDINGS = Path(__file__).parents[1] / "recordings"

Golden = Callable[[str, str], None]
Scenario = Callable[[Top, Any], Awaitable[None]]


class Still:
    """A reading that always shows the same."""

    def __init__(self, snapshot: Snapshot, *, close_looks: bool = True) -> None:
        self.snapshot = snapshot
        self.close_looks = close_looks
        self.reads = self.skips = 0
        self.trouble: Exception | None = None

    @property
    def gpus(self) -> list[Gpu]:
        return [gpu.gpu for gpu in self.snapshot.gpus]

    def open(self) -> None: ...

    def read(self) -> Snapshot:
        self.reads += 1
        if self.trouble is not None:
            raise self.trouble
        return self.snapshot

    def skip(self) -> None:
        self.skips += 1

    def forward(self) -> None: ...

    def close(self) -> None: ...


class Puppet:
    """A close look that ends when it is told to."""

    takes_s = 6.0
    elapsed_s = 2.0

    def __init__(self, gpu: Gpu, folder: Path) -> None:
        self.gpu, self.folder = gpu, folder
        self.looked: Looked | None = None
        self.cancelled = 0

    def ended(self) -> Looked | None:
        return self.looked

    def cancel(self) -> None:
        self.cancelled += 1


class Stage:
    """A display with a still reading and puppets for close looks."""

    def __init__(self, snapshot: Snapshot, folder: Path, **options: Any) -> None:
        self.reading = Still(snapshot, close_looks=options.pop("close_looks", True))
        self.puppets: list[Puppet] = []
        self.folder = folder
        self.app = Top(
            self.reading,
            every_s=0.05,
            every="1s",
            glyphs=options.pop("glyphs", UNICODE),
            new_folder=lambda gpu: folder,
            begin=self._begin,  # type: ignore[arg-type]
            language=options.pop("language", "en"),
        )

    def _begin(self, gpu: Gpu, folder: Path) -> Puppet:
        self.puppets.append(Puppet(gpu, folder))
        return self.puppets[-1]

    @property
    def text(self) -> str:
        return self.app._canvas.text

    def play(self, scenario: Callable[[Any], Awaitable[None]], *, size: tuple[int, int] = (80, 24)) -> None:
        async def go() -> None:
            async with self.app.run_test(size=size) as pilot:
                await until(pilot, lambda: "perfzero top" in self.text)
                await scenario(pilot)

        asyncio.run(go())


async def until(pilot: Any, what: Callable[[], bool]) -> None:
    for _ in range(200):
        if what():
            return
        await pilot.pause(0.02)
    pytest.fail("it never came about")


@pytest.fixture(autouse=True)
def in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
@pytest.mark.parametrize("gpus", ["one", "eight"])
def test_what_is_on_the_screen(
    gpus: str, size: tuple[int, int], request: pytest.FixtureRequest, tmp_path: Path, golden: Golden
) -> None:
    stage = Stage(request.getfixturevalue(gpus), tmp_path)
    seen: list[str] = []

    async def look(pilot: Any) -> None:
        seen.append(stage.text)

    stage.play(look, size=size)

    golden(f"screen_{gpus}_{size[0]}x{size[1]}", seen[0])


ENGLISH = re.compile(r"(?<![\w./-])[a-z']{2,} [a-z']{2,}")
"""Two words in a row; names of keys, programs and tools have capitals, digits or dashes in them."""


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "none"])
@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
@pytest.mark.parametrize("gpus", ["one", "eight"])
def test_what_is_on_the_screen_in_chinese(
    gpus: str,
    size: tuple[int, int],
    colour: bool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    stage = Stage(request.getfixturevalue(gpus), tmp_path, language="zh")
    seen: list[str] = []
    used: list[set[Any]] = []
    widths: list[int] = []

    async def look(pilot: Any) -> None:
        for key in ("question_mark", "c", "enter"):
            seen.append(stage.text)
            await pilot.press(key)
        await until(pilot, lambda: "还有 4 s" in stage.text)
        seen.append(stage.text)
        used.append(colours(stage.app))
        widths.extend(strip.cell_length for strip in stage.app.screen._compositor.render_strips())

    stage.play(look, size=size)

    golden(f"screen_zh_{gpus}_{size[0]}x{size[1]}", "\n".join(seen))
    assert set(widths) == {size[0]}
    assert max(cell_len(line) for screen in seen for line in screen.splitlines()) <= size[0]
    own = re.compile(r"perfzero top|python3 .*", re.M)
    assert [ENGLISH.findall(own.sub("", screen)) for screen in seen] == [[]] * 4
    assert ("green" in used[0]) is colour


def test_english_on_a_chinese_screen_would_be_found(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path)
    seen: list[str] = []

    async def look(pilot: Any) -> None:
        seen.append(stage.text)

    stage.play(look)

    assert ENGLISH.findall(seen[0].replace("perfzero top", "")) != []


def test_a_close_look_ends_with_its_verdict_in_chinese(one: Snapshot) -> None:
    stage = Stage(one, RECORDINGS / "input_starved_resnet50", language="zh")

    async def look(pilot: Any) -> None:
        await pilot.press("c", "enter")
        await until(pilot, lambda: bool(stage.puppets))
        stage.puppets[0].looked = Looked("recorded")
        await until(pilot, lambda: "的时间在等数据" in stage.text)
        assert "细看 GPU 0" in stage.text
        for _ in range(10):
            await pilot.press("pagedown")
        assert "录制：perfzero analyze" in stage.text

    stage.play(look, size=(100, 40))


@pytest.mark.parametrize(
    ("looked", "said"),
    [
        (Looked("busy", "DCGM"), ("另一个工具占用着", "DCGM", "没有干扰任何程序")),
        (Looked("refused", "RmProfilingAdminOnly"), ("这里读不到硬件计数器", "怎样解锁")),
        (Looked("failed", say("top.look_code", code=1)), ("细看没有成功", "录制进程以 1 结束")),
    ],
)
def test_a_look_without_a_verdict_says_why_in_chinese(
    one: Snapshot, tmp_path: Path, looked: Looked, said: tuple[str, ...]
) -> None:
    stage = Stage(one, tmp_path, language="zh")

    async def look(pilot: Any) -> None:
        await pilot.press("c", "enter")
        await until(pilot, lambda: bool(stage.puppets))
        stage.puppets[0].looked = looked
        await until(pilot, lambda: said[0] in stage.text)
        assert all(part in stage.text for part in said)

    stage.play(look)


def test_passing_words_and_errors_are_told_in_chinese(
    one: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stage = Stage(one, tmp_path / "nothing", language="zh")

    async def look(pilot: Any) -> None:
        await pilot.press("w")
        assert "已写入：perfzero-top-" in stage.text
        await pilot.press("p")
        assert "已暂停" in stage.text
        await pilot.press("c", "enter")
        await until(pilot, lambda: bool(stage.puppets))
        await pilot.press("escape")
        await until(pilot, lambda: "设备已释放" in stage.text)
        await pilot.press("c", "enter")
        await until(pilot, lambda: len(stage.puppets) == 2)
        stage.puppets[1].looked = Looked("recorded")
        await until(pilot, lambda: "采样 GPU" not in stage.text and "正在判断" not in stage.text)
        assert "请做一次录制" in stage.text

    stage.play(look)


def colours(app: Top) -> set[Any]:
    """All colours on the screen, as the terminal would be asked for them; "default" asks for none."""
    found = set()
    for strip in app.screen._compositor.render_strips():
        for line_filter in app._filters:
            if line_filter.enabled:
                strip = strip.apply_filter(line_filter, Color(0, 0, 0))
        for segment in strip:
            if segment.style is not None:
                found |= {c.name for c in (segment.style.color, segment.style.bgcolor) if c is not None}
    return found


def test_without_colour_the_screen_says_the_same(
    eight: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: dict[str, str] = {}
    used: dict[str, set[Any]] = {}
    for name in ("colour", "none"):
        if name == "none":
            monkeypatch.setenv("NO_COLOR", "1")
        stage = Stage(eight, tmp_path)

        async def look(pilot: Any, name: str = name, stage: Stage = stage) -> None:
            await pilot.press("down", "down")
            texts[name] = stage.text
            used[name] = colours(stage.app)

        stage.play(look)

    assert texts["colour"] == texts["none"]
    assert {"green", "yellow", "cyan"} <= used["colour"]
    assert used["none"] <= {"default"}


def test_in_ascii_no_other_character_is_drawn(eight: Snapshot, tmp_path: Path) -> None:
    stage = Stage(eight, tmp_path, glyphs=ASCII)
    seen: list[str] = []

    async def look(pilot: Any) -> None:
        await pilot.press("question_mark")
        seen.append(stage.text)
        await pilot.press("escape", "c")
        seen.append(stage.text)

    stage.play(look)

    assert all(text.isascii() for text in seen)


def test_in_ascii_there_is_no_chinese(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path, glyphs=ASCII, language="zh")
    seen: list[str] = []

    async def look(pilot: Any) -> None:
        await pilot.press("c")
        seen.append(stage.text)

    stage.play(look)

    assert seen[0].isascii()
    assert "A close look samples" in seen[0]
    assert "Esc close" in seen[0]


def test_arrows_and_tab_choose_a_gpu_and_go_round(eight: Snapshot, tmp_path: Path) -> None:
    stage = Stage(eight, tmp_path)
    chosen: list[str] = []

    async def look(pilot: Any) -> None:
        for key in ("down", "tab", "up", "up", "up"):
            await pilot.press(key)
            chosen.append(next(line for line in stage.text.splitlines() if line.startswith("▸"))[2])

    stage.play(look)

    assert chosen == ["1", "2", "1", "0", "7"]


def test_a_pause_reads_nothing_and_going_on_leaves_out_what_came_meanwhile(
    one: Snapshot, tmp_path: Path
) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.press("p")
        assert "PAUSED" in stage.text
        await pilot.pause(0.15)
        before = stage.reading.reads
        await pilot.pause(0.3)
        assert stage.reading.reads == before
        await pilot.press("p")
        await until(pilot, lambda: stage.reading.reads > before)
        assert stage.reading.skips == 1
        assert "PAUSED" not in stage.text

    stage.play(look)


def test_processes_can_be_sorted(eight: Snapshot, tmp_path: Path) -> None:
    stage = Stage(eight, tmp_path)

    async def look(pilot: Any) -> None:
        for heading in ("PID*", "USER*", "COMMAND*", "MEMORY*"):
            await pilot.press("s")
            assert heading in stage.text

    stage.play(look)


def test_only_lines_that_have_changed_are_drawn_again(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.pause(0.1)
        drawn, reads = stage.app._canvas.drawn, stage.reading.reads
        await until(pilot, lambda: stage.reading.reads > reads + 3)
        assert stage.app._canvas.drawn == drawn
        stage.reading.snapshot = replace(one, time_ns=one.time_ns + 1_000_000_000)
        await until(pilot, lambda: stage.app._canvas.drawn > drawn)
        assert stage.app._canvas.drawn == drawn + 1  # the title, with its clock

    stage.play(look)


def test_help_can_be_opened_and_closed(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        before = stage.text
        await pilot.press("question_mark")
        assert "keys and figures" in stage.text
        await pilot.press("escape")
        assert stage.text == before

    stage.play(look)


def test_the_screen_can_be_written_into_a_file(
    one: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        shown = stage.text
        await pilot.press("w")
        [file] = tmp_path.glob("perfzero-top-*.txt")
        assert file.read_text() == shown
        assert "written" in stage.text
        await pilot.press("w")  # within the same second perhaps: nothing is overwritten
        assert file.read_text() == shown

    stage.play(look)


def test_a_screen_that_cannot_be_written_is_told(
    one: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("perfzero.live.top.write_whole", full)
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.press("w")
        assert "No space left" in stage.text

    stage.play(look)


def test_a_close_look_tells_its_price_first_and_then_its_verdict(one: Snapshot) -> None:
    stage = Stage(one, RECORDINGS / "input_starved_resnet50")

    async def look(pilot: Any) -> None:
        await pilot.press("c")
        assert "10 ms" in stage.text
        assert "No other tool" in stage.text
        assert not stage.puppets
        await pilot.press("enter")
        await until(pilot, lambda: "Sampling the hardware counters of GPU 0: 4 s more" in stage.text)
        stage.puppets[0].looked = Looked("recorded")
        await until(pilot, lambda: "The GPU waits for data" in stage.text)
        assert "close look at GPU 0" in stage.text
        for _ in range(10):
            await pilot.press("pagedown")
        assert "perfzero analyze" in stage.text
        await pilot.press("escape")
        assert "waits for data" not in stage.text

    stage.play(look, size=(100, 40))

    assert stage.puppets[0].cancelled == 0


def test_a_close_look_can_be_left_before_it_begins(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.press("c", "escape", "enter")

    stage.play(look)

    assert not stage.puppets


def test_escape_ends_a_close_look_and_gives_the_device_back(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.press("c", "enter")
        await until(pilot, lambda: "Sampling" in stage.text)
        await pilot.press("escape")
        await until(pilot, lambda: "the device is free again" in stage.text)
        assert "Sampling" not in stage.text

    stage.play(look)

    assert stage.puppets[0].cancelled == 1


def test_ending_the_display_ends_a_close_look(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.press("c", "enter")
        await until(pilot, lambda: "Sampling" in stage.text)
        await pilot.press("q")

    stage.play(look)

    assert stage.puppets[0].cancelled == 1


def test_only_one_close_look_at_a_time(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.press("c", "enter")
        await until(pilot, lambda: "Sampling" in stage.text)
        await pilot.press("c", "enter", "c", "enter")

    stage.play(look)

    assert len(stage.puppets) == 1


@pytest.mark.parametrize(
    ("looked", "said"),
    [
        (Looked("busy", "GPU 0 is in use by DCGM."), ("Another tool holds", "DCGM", "Nothing was disturbed")),
        (Looked("refused", "The driver keeps the counters."), ("cannot be read here", "perfzero doctor")),
        (Looked("failed", "the recorder ended with 1"), ("did not succeed", "ended with 1")),
    ],
)
def test_a_look_without_a_verdict_says_why(
    one: Snapshot, tmp_path: Path, looked: Looked, said: tuple[str, ...]
) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.press("c", "enter")
        await until(pilot, lambda: bool(stage.puppets))
        stage.puppets[0].looked = looked
        await until(pilot, lambda: said[0] in stage.text)
        assert all(part in stage.text for part in said)

    stage.play(look)


def test_a_recording_that_cannot_be_judged_is_told(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path / "nothing")

    async def look(pilot: Any) -> None:
        await pilot.press("c", "enter")
        await until(pilot, lambda: bool(stage.puppets))
        stage.puppets[0].looked = Looked("recorded")
        await until(pilot, lambda: "Sampling" not in stage.text and "Judging" not in stage.text)
        assert "nothing" in stage.text

    stage.play(look)


def test_a_replay_offers_no_close_look(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path, close_looks=False)

    async def look(pilot: Any) -> None:
        assert "c close look" not in stage.text
        await pilot.press("c", "enter")
        assert "no GPU that could be looked at" in stage.text

    stage.play(look)

    assert not stage.puppets


def test_an_idle_gpu_is_said_to_have_little_to_see(one: Snapshot, tmp_path: Path) -> None:
    idle = replace(one, gpus=(replace(one.gpus[0], shares={"idle": 1.0}),))
    stage = Stage(idle, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.press("c")
        assert "little to see" in stage.text

    stage.play(look)


def test_what_goes_wrong_ends_the_display_and_is_the_callers(one: Snapshot, tmp_path: Path) -> None:
    stage = Stage(one, tmp_path)

    async def look(pilot: Any) -> None:
        stage.reading.trouble = SourceError("The driver is gone.")
        await until(pilot, lambda: stage.app.trouble is not None)

    stage.play(look)

    assert isinstance(stage.app.trouble, SourceError)


def test_another_size_is_drawn_anew(eight: Snapshot, tmp_path: Path) -> None:
    stage = Stage(eight, tmp_path)

    async def look(pilot: Any) -> None:
        await pilot.resize_terminal(200, 50)
        await until(pilot, lambda: "of MHz" in stage.text)
        await pilot.resize_terminal(30, 5)
        await until(pilot, lambda: "too small" in stage.text)

    stage.play(look)


def test_the_real_recorder_is_what_begins_a_look(one: Snapshot, tmp_path: Path) -> None:
    app = Top(Still(one), every_s=1.0, every="1s", glyphs=UNICODE, new_folder=lambda gpu: tmp_path)

    assert isinstance(app._begin, partial)
    assert app._begin.func is CloseLook
    assert app._begin.keywords == {"language": "en"}


def test_the_recorder_of_a_look_speaks_as_the_display_does(one: Snapshot, tmp_path: Path) -> None:
    for glyphs, language in ((UNICODE, "zh"), (ASCII, "en")):
        app = Top(
            Still(one), every_s=1.0, every="1s", glyphs=glyphs, new_folder=lambda gpu: tmp_path, language="zh"
        )

        assert isinstance(app._begin, partial)
        assert app._begin.keywords == {"language": language}


def test_textual_is_known_to_one_file_alone() -> None:
    source = Path(__file__).parents[2] / "src" / "perfzero"
    found = [p for p in source.rglob("*.py") if re.search(r"^\s*(from|import) textual", p.read_text(), re.M)]

    assert found == [source / "live" / "top.py"]
