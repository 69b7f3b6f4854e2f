"""Lines to type: a real shell reads back what was meant."""

from __future__ import annotations

import os
import subprocess

import pytest

from perfzero.report.typed import folder, typed
from perfzero.text import printable

WORDS = [
    ("python", "train.py"),
    ("python3", "-c", 'import os\nprint("a  b")'),
    ("echo", "  two  spaces  ", "", "'", '"', "\\", "$HOME `x` !!", "a\tb"),
    ("x", "\x1b[31mred\x07", "\r", "\x85", "no\xa0break", "\u202egnp.exe", "\u2028", "\ue000", "\x1f"),
    ("x", "it's\n\\n\\", "1\x01" + "7", "\x011", "录  制\n", "e\u0301"),
    ("x", os.fsdecode(b"caf\xe9 \xff1")),
]


def read_by_bash(line: str) -> tuple[str, ...]:
    """The words that bash calls `perfzero` with by *line*."""
    script = "perfzero() { printf '%s\\0' \"$@\"; }\n" + line + "\n"
    done = subprocess.run(["bash"], input=script.encode(), capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return tuple(map(os.fsdecode, done.stdout.split(b"\0")[:-1]))


@pytest.mark.parametrize("words", WORDS)
def test_a_shell_reads_every_word_as_it_was(words: tuple[str, ...]) -> None:
    line = typed(("perfzero", *words))

    assert line is not None
    assert read_by_bash(line) == words


@pytest.mark.parametrize("words", WORDS)
def test_a_line_shows_all_that_is_in_it(words: tuple[str, ...]) -> None:
    line = typed(words)

    assert line is not None
    assert line.isprintable()
    assert printable(line).replace(" ", "") == line.replace(" ", "")


def test_what_needs_no_quotes_has_none() -> None:
    assert typed(("python", "train.py", "--lr=0.1")) == "python train.py --lr=0.1"
    assert typed(("a b", "a\nb")) == "'a b' $'a\\nb'"


def test_no_line_calls_a_program_with_what_no_program_can_be_called_with() -> None:
    assert typed(("python", "a\0b")) is None


@pytest.mark.parametrize(
    ("path", "told"),
    [("r", "r"), ("-r", "./-r"), ("last", "./last"), ("lasting", "lasting"), ("a/last", "a/last")],
)
def test_a_folder_is_no_option_and_not_the_last_recording(path: str, told: str) -> None:
    assert folder(path) == told
