"""
The live display: the only file that knows Textual.

The whole screen is one widget, whose lines come from `perfzero.live.lines`; of these only the ones that have
changed are drawn again. That keeps the display's own cost small (docs/top.md), lets the tests compare what is
on the screen with text files, and works wherever a cursor can be moved: colours are the sixteen of the
terminal, on its own background, and none with NO_COLOR.

    read (a thread, since NVML takes milliseconds) -> Snapshot -> page + panel + help -> changed lines
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style as Look
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from perfzero.errors import PerfzeroError
from perfzero.live import panel
from perfzero.live.close_look import CloseLook
from perfzero.live.lines import SORT_KEYS, Glyphs, Line, Style, View, fitted, page, plain, rule, voice
from perfzero.live.reading import Reading
from perfzero.live.snapshot import Snapshot
from perfzero.report.analysis import judged_report
from perfzero.report.atomic import write_whole
from perfzero.report.terminal import words as report_words
from perfzero.values import Gpu
from perfzero.words.said import CALLED_EN, say
from perfzero.words.told import told

COLOURED: dict[Style, Look] = {
    "": Look(),
    "bold": Look(bold=True),
    "dim": Look(dim=True),
    "good": Look(color="green"),
    "warn": Look(color="yellow", bold=True),
    "accent": Look(color="cyan"),
    "selected": Look(bold=True, reverse=True),
}
PLAIN: dict[Style, Look] = {**COLOURED, "good": Look(), "warn": Look(bold=True), "accent": Look(bold=True)}
"""Without colour: what is told by a style is told in words besides."""

FIRST_S = 0.3
"""The first figures: GPM needs an eighth of a second between two snapshots."""

POLL_S = 0.2
"""How often a close look is asked how far it is."""

LEAST_LIVE = 7
"""Lines that a panel leaves to the live figures."""

NARROWEST_REPORT = 60
"""A report is laid out for this width at least."""

WIDEST_REPORT = 100
"""And for this one at most, as everywhere."""

TOLD_S = 4.0
"""How long a passing word stays in the place of the help line."""

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""What ends the display as `q` does: a lost connection must not leave a close look behind."""

Stage = Literal["none", "help", "asked", "looking", "judging", "told"]

NewFolder = Callable[[Gpu], Path]
Begin = Callable[[Gpu, Path], CloseLook]


class Terminal(LinuxDriver):
    """
    The terminal, which is taken again only after it has been given up.

    Textual 8.2 takes it at every SIGCONT. After one without a Ctrl-Z before it (a debugger, `kill -STOP`)
    two threads read the keys, the display cannot end, and the terminal stays as it was taken.
    """

    def _sigcont_application(self, *arguments: object) -> None:
        if getattr(self, "_must_signal_resume", True):
            super()._sigcont_application(*arguments)
        else:
            self._app.call_later(self._app.refresh)


class Canvas(Widget):
    """All lines of the screen."""

    DEFAULT_CSS = """
    Canvas { width: 1fr; height: 1fr; background: ansi_default; color: ansi_default; }
    """

    def __init__(self, looks: dict[Style, Look]) -> None:
        super().__init__()
        self._looks = looks
        self._lines: list[Line] = []
        self._strips: list[Strip] = []
        self.drawn = 0
        """How many lines have been drawn anew so far."""

    @property
    def text(self) -> str:
        """What is on the screen, without styles."""
        return "".join(plain(line).rstrip() + "\n" for line in self._lines)

    def show(self, lines: Sequence[Line]) -> None:
        """Draw *lines*, as far as they have changed."""
        before, self._lines = self._lines, list(lines)
        self._strips = self._strips[: len(lines)]
        for y, line in enumerate(lines):
            if y < len(self._strips) and y < len(before) and before[y] == line:
                continue
            strip = Strip([Segment(part, self._looks[style]) for part, style in line])
            self._strips[y : y + 1] = [strip]
            self.drawn += 1
            self.refresh(Region(0, y, self.size.width, 1))
        for y in range(len(lines), len(before)):
            self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """One line, as wide as the screen."""
        strip = self._strips[y] if y < len(self._strips) else Strip([])
        return strip.adjust_cell_length(self.size.width, self._looks[""])


class Top(App[None]):
    """
    The display of *reading*, read every *every_s* seconds, in *language* as far as *glyphs* can write it.

    *new_folder* makes the folder of a close look's recording. *begin* takes the place of what starts one.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { background: ansi_default; color: ansi_default; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,ctrl+q", "leave", "end", priority=True),
        Binding("up,k,shift+tab,left", "choose(-1)", "GPU before", priority=True),
        Binding("down,j,tab,right", "choose(1)", "next GPU", priority=True),
        Binding("pageup", "scroll(-1)", "back"),
        Binding("pagedown,space", "scroll(1)", "on"),
        Binding("s", "sort", "sort processes"),
        Binding("p", "pause", "pause"),
        Binding("w", "write", "write the screen"),
        Binding("c", "look", "close look"),
        Binding("enter", "confirm", "look now"),
        Binding("escape", "close_panel", "close"),
        Binding("question_mark,h", "help", "help"),
        Binding("ctrl+z", "suspend_process", "suspend"),
    ]

    def __init__(
        self,
        reading: Reading,
        *,
        every_s: float,
        every: str,
        glyphs: Glyphs,
        new_folder: NewFolder,
        begin: Begin | None = None,
        language: str = CALLED_EN,
    ) -> None:
        super().__init__(driver_class=Terminal, ansi_color=True)
        self._reading = reading
        self._every_s = every_s
        self._glyphs = glyphs
        self._new_folder = new_folder
        self._voice = voice(language, glyphs)
        self._begin = begin or partial(CloseLook, language=self._voice.language)
        self._view = View(every=every)
        self._snapshot: Snapshot | None = None
        self._stage: Stage = "none"
        self._panel: list[str] = []
        self._panel_title = ""
        self._panel_from = 0
        self._look: CloseLook | None = None
        self._looked_at: Gpu | None = None
        self._word, self._word_until = "", 0.0
        self._paused_before = False
        self.trouble: Exception | None = None
        """What ended the display, if it was not its user."""
        self._canvas = Canvas(PLAIN if self.no_color else COLOURED)

    # --- the course of things

    def compose(self) -> ComposeResult:
        """The one widget."""
        yield self._canvas

    def on_mount(self) -> None:
        """Begin to read."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
                loop.add_signal_handler(number, self.action_leave)
        self.run_worker(self._keep_reading(), exclusive=False)

    def on_unmount(self) -> None:
        """Whatever ends the display ends a close look too, and waits until its device is free."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
                loop.remove_signal_handler(number)
        self.end_look()

    def end_look(self) -> None:
        """End a close look, if there is one. Harmless when called twice."""
        look, self._look = self._look, None
        if look is not None:
            look.cancel()

    def on_resize(self) -> None:
        """The same, for another size."""
        self._draw()

    async def _keep_reading(self) -> None:
        """Read until the end. What goes wrong is the affair of who called `show`, not a screen full of it."""
        try:
            await self._read_on()
        except Exception as error:  # noqa: BLE001 - it is raised again
            self.trouble = error
            self.exit()

    async def _read_on(self) -> None:
        due = time.monotonic() + min(FIRST_S, self._every_s)
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if self._view.paused:
                self._paused_before = True
                due = time.monotonic() + min(POLL_S, self._every_s)
                continue
            if self._paused_before:  # what came meanwhile is no figure of now
                self._paused_before = False
                await asyncio.to_thread(self._reading.skip)
                await asyncio.sleep(min(FIRST_S, self._every_s))
            self._snapshot = await asyncio.to_thread(self._reading.read)
            # No hurry to make up for a machine that slept.
            due = max(due + self._every_s, time.monotonic())
            self._draw()

    # --- what is on the screen

    def _draw(self) -> None:
        width, height = self._canvas.size
        if width <= 0 or height <= 0:
            return
        below = self._panel_lines(width, height - 1)
        if self._snapshot is None:
            lines: list[Line] = [((self._told(say("top.reading")), "dim"),)]
        else:
            room = height - 1 - len(below)
            lines = page(
                self._snapshot,
                self._view,
                width=width,
                height=room,
                glyphs=self._glyphs,
                language=self._voice.language,
            )
        lines += [()] * (height - 1 - len(below) - len(lines))
        self._canvas.show([*lines, *below, self._help_line(width)])

    def _panel_lines(self, width: int, height: int) -> list[Line]:
        if self._stage == "none":
            return []
        whole = panel.wrapped(self._panel, width - 2)
        shown = max(2, min(len(whole), height - LEAST_LIVE - 1))
        self._panel_from = max(0, min(self._panel_from, len(whole) - shown))
        more = len(whole) - shown
        title = self._panel_title
        if more > 0:
            title += f"  {self._told(say('top.more_lines', more=more))}"
        return [
            rule(title, width=width, glyphs=self._glyphs),
            *(
                fitted(f" {line}", "", width=width, glyphs=self._glyphs)
                for line in whole[self._panel_from : self._panel_from + shown]
            ),
        ]

    def _help_line(self, width: int) -> Line:
        if self._word and time.monotonic() < self._word_until:
            return fitted(self._word, "warn", width=width, glyphs=self._glyphs)
        several = self._snapshot is not None and len(self._snapshot.gpus) > 1
        keys = [
            *([say("top.key_gpu")] if several else []),
            say("top.key_end"),
            *([say("top.key_look")] if self._reading.close_looks else []),
            say("top.key_sort"),
            say("top.key_pause"),
            say("top.key_write"),
            say("top.key_help"),
        ]
        if self._stage != "none":
            keys = [say("top.key_close"), say("top.key_scroll"), say("top.key_end")]
        return fitted("  ".join(map(self._told, keys)), "dim", width=width, glyphs=self._glyphs)

    def _told(self, sentence: str) -> str:
        return told(sentence, self._voice.language)

    def _open(self, stage: Stage, title: str, lines: Sequence[str]) -> None:
        if stage != self._stage:
            self._panel_from = 0
        self._stage, self._panel_title, self._panel = stage, self._told(title), list(lines)
        self._draw()

    def _say(self, word: str) -> None:
        self._word, self._word_until = self._told(word), time.monotonic() + TOLD_S
        self._draw()
        self.set_timer(TOLD_S + 0.1, self._draw)

    # --- keys

    def action_leave(self) -> None:
        """End."""
        self.exit()

    def action_choose(self, by: int) -> None:
        """Choose another GPU."""
        if self._snapshot is not None:
            selected = (self._view.selected + by) % max(1, len(self._snapshot.gpus))
            self._view = replace(self._view, selected=selected, scrolled=0)
            self._draw()

    def action_scroll(self, by: int) -> None:
        """Scroll the panel, or where there is none the processes."""
        if self._stage != "none":
            self._panel_from = max(0, self._panel_from + by * max(1, self._canvas.size.height // 3))
        else:
            count = 0 if self._snapshot is None else sum(len(g.processes or ()) for g in self._snapshot.gpus)
            scrolled = self._view.scrolled + by * max(1, self._canvas.size.height // 4)
            self._view = replace(self._view, scrolled=max(0, min(scrolled, count - 1)))
        self._draw()

    def action_sort(self) -> None:
        """Sort the processes by the next column."""
        after = (SORT_KEYS.index(self._view.sort) + 1) % len(SORT_KEYS)
        self._view = replace(self._view, sort=SORT_KEYS[after], scrolled=0)
        self._draw()

    def action_pause(self) -> None:
        """Stop reading, or go on."""
        self._view = replace(self._view, paused=not self._view.paused)
        self._draw()

    def action_write(self) -> None:
        """Write what is on the screen into a file of its own."""
        stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%S")
        path = Path(f"perfzero-top-{stamp}.txt")
        try:
            if path.exists():
                raise FileExistsError(say("top.one_there"))
            write_whole(path, self._canvas.text.encode())
        except OSError as error:
            why = error.strerror or (error.args[0] if error.args else error)
            self._say(say("top.unwritten", path=path, why=why))
        else:
            self._say(say("top.written", path=path))

    def action_help(self) -> None:
        """Show what keys and figures mean."""
        if self._stage in ("none", "told", "asked"):
            self._open("help", say("top.title_help"), panel.help_lines(self._voice))

    def action_close_panel(self) -> None:
        """Close the panel; a close look that goes on is ended."""
        look, self._look = self._look, None
        self._stage = "none"
        if look is not None:
            self.run_worker(self._end(look), exclusive=False)
        self._draw()

    async def _end(self, look: CloseLook) -> None:
        self._say(say("top.ending"))
        await asyncio.to_thread(look.cancel)  # which takes a second or two
        self._say(say("top.ended"))

    def action_look(self) -> None:
        """Say what a close look costs; asked again, begin it."""
        if self._snapshot is None or self._stage in ("looking", "judging"):
            return
        if not self._reading.close_looks:
            self._say(say("top.no_look"))
            return
        if self._stage == "asked":
            self.action_confirm()
            return
        gpu = self._snapshot.gpus[min(self._view.selected, len(self._snapshot.gpus) - 1)]
        self._looked_at = gpu.gpu
        title = say("top.title_look", gpu=gpu.gpu.index)
        self._open("asked", title, panel.before(gpu, self._voice))

    def action_confirm(self) -> None:
        """Begin the close look that was asked for."""
        if self._stage != "asked" or self._looked_at is None:
            return
        try:
            # In this thread, which lives as long as the display: the kernel ends the recorder with it.
            self._look = self._begin(self._looked_at, self._new_folder(self._looked_at))
        except (OSError, PerfzeroError) as error:
            why = error.sentence if isinstance(error, PerfzeroError) else str(error)
            self._open("told", self._panel_title, self._told(why).splitlines())
            return
        self._open("looking", self._panel_title, [])
        self.run_worker(self._follow(self._look), exclusive=False)

    async def _follow(self, look: CloseLook) -> None:
        """Tell how far *look* is, and in the end its verdict."""
        index = look.gpu.index
        title = say("top.title_look", gpu=index)
        while (looked := look.ended()) is None:
            left = panel.during(
                index, self._voice, elapsed_s=look.elapsed_s, takes_s=look.takes_s, judging=False
            )
            self._open("looking", title, left)
            await asyncio.sleep(POLL_S)
            if self._look is not look:  # it was ended meanwhile
                return
        self._look = None
        if looked.ending != "recorded":
            self._open("told", title, panel.without_verdict(looked, self._voice))
            return
        judging = panel.during(index, self._voice, elapsed_s=0, takes_s=0, judging=True)
        self._open("judging", title, judging)
        width = max(NARROWEST_REPORT, min(WIDEST_REPORT, self._canvas.size.width - 3))
        try:
            words = await asyncio.to_thread(
                lambda: report_words(judged_report(look.folder), language=self._voice.language, width=width)
            )
        except PerfzeroError as error:
            lines = self._told(error.sentence).splitlines()
        else:
            lines = panel.verdict(words, look.folder, self._voice)
        self._open("told", title, lines)


def show(
    reading: Reading,
    *,
    every_s: float,
    every: str,
    glyphs: Glyphs,
    new_folder: NewFolder,
    language: str = CALLED_EN,
) -> int:
    """Run the display until it is ended, and a close look with it; returns the exit code."""
    app = Top(reading, every_s=every_s, every=every, glyphs=glyphs, new_folder=new_folder, language=language)
    try:
        app.run(mouse=False)  # so that text can be marked and copied by the terminal
    finally:
        app.end_look()
    if app.trouble is not None:
        raise app.trouble
    return app.return_code or 0
