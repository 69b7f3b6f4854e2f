"""
Every case of the zoo: complete, and a program as a user writes it, without a hint of what is wrong with it.

A hint is a word in a comment, in a text or in a name that the program gives; what it calls has its own name.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfzero.words.en.remedies import REMEDIES

ZOO = Path(__file__).parents[2] / "zoo"
IDS = sorted(path.parent.name for path in ZOO.glob("*/case.toml"))
MOST_LINES = 80

HINTS = frozenset(
    """
    slow slower slowly slowness bottleneck bottlenecked bug buggy inefficient wasteful waste wasted naive
    mistake wrong bad bound starved starving starvation stall stalls stalled sync syncs synchronises
    synchronizes serial serialised serialized unfused unpinned pageable unoptimised unoptimized suboptimal
    expensive costly overhead needless needlessly unnecessary unnecessarily redundant redundantly culprit
    cause problem problematic issue fix fixes perfzero profile profiler idle healthy unhealthy
    deliberate deliberately intentionally purpose forgotten forgot accidental accidentally hog
    """.split()  # noqa: SIM905 (a list of sixty literals is not read)
)
"""Words that say that something is wrong, or what. `fixed` is the one that a program may have."""

every_case = pytest.mark.parametrize("name", IDS)


def program_of(name: str) -> Path:
    [program] = [path for path in (ZOO / name).iterdir() if path.suffix == ".py"]
    return program


def test_the_zoo_is_large_and_a_sixth_of_it_is_healthy(scorer) -> None:
    healthy = [name for name in IDS if scorer("case").read_case(ZOO / name).truth.healthy]

    assert len(IDS) >= 60
    assert len(healthy) >= 12
    assert len(healthy) >= len(IDS) / 6


@every_case
def test_a_case_is_complete_and_right(scorer, name: str) -> None:
    case = scorer("case").read_case(ZOO / name)

    assert re.fullmatch(r"[a-z]+\d+[a-z]?", case.id)
    assert all(source.startswith("https://") for source in case.sources)
    files = {path.name for path in case.folder.iterdir() if path.name != "__pycache__"}
    assert files == {"case.toml", case.program}


@every_case
def test_the_fix_is_one_that_perfzero_may_advise_if_it_is_said_to_be(scorer, name: str) -> None:
    """A pattern that matches no advice would find none in a report either."""
    remedy = scorer("case").read_case(ZOO / name).fix.remedy
    advice = [text for key, text in REMEDIES.items() if key.startswith("try.")]

    assert not remedy or [text for text in advice if re.search(remedy, text, re.IGNORECASE)]


@every_case
def test_a_program_is_short_and_has_both_options(name: str) -> None:
    text = program_of(name).read_text()

    assert len(text.splitlines()) <= MOST_LINES
    assert missing(text) == []


@every_case
def test_a_program_gives_no_hint(name: str) -> None:
    assert hints(program_of(name)) == []


def missing(text: str) -> list[str]:
    """What a program of the zoo has, and *text* has not."""
    tree = ast.parse(text)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    arguments = {
        call.args[0].value: call
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
        if call.args and isinstance(call.args[0], ast.Constant)
    }
    wanted = {
        "--seconds": "--seconds" in arguments,
        "--fixed": "--fixed" in arguments,
        "def main()": "main" in functions,
        "the __main__ guard": 'if __name__ == "__main__":' in text,
        "torch.manual_seed(0)": "import torch" not in text or "torch.manual_seed(0)" in text,
        "a line of progress with flush=True": any(is_progress(call) for call in calls(tree)),
    }
    return [what for what, there in wanted.items() if not there]


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def is_progress(call: ast.Call) -> bool:
    """print(f"step {step} ...", flush=True): a word and a number, at once."""
    if not (isinstance(call.func, ast.Name) and call.func.id == "print" and call.args):
        return False
    flushed = any(
        k.arg == "flush" and isinstance(k.value, ast.Constant) and k.value.value is True
        for k in call.keywords
    )
    first = call.args[0]
    parts = first.values if isinstance(first, ast.JoinedStr) else []
    return (
        flushed
        and len(parts) >= 2
        and isinstance(parts[0], ast.Constant)
        and re.fullmatch(r"[A-Za-z_]+ ", str(parts[0].value)) is not None
        and isinstance(parts[1], ast.FormattedValue)
    )


def hints(program: Path) -> list[str]:
    """Words of `HINTS` in what the author of *program* wrote in words of their own."""
    text = program.read_text()
    tree = ast.parse(text)
    own = [program.stem]
    own += [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            own.append(node.name)
        elif isinstance(node, ast.arg):
            own.append(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.append(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.append(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            own.append(node.value)
    found = {word for text in own for word in words(text) if word in HINTS}
    return sorted(found)


def words(text: str) -> list[str]:
    """ "gradSyncs of_all" -> grad, syncs, of, all."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)]


GOOD = """
import argparse
import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.cuda.synchronize()  # what is called may be called anything
    print(f"step {1} loss {0.5}", flush=True)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("--seconds", "--duration", "--seconds"),
        ('"--fixed"', '"--better"', "--fixed"),
        ("def main()", "def run()", "def main()"),
        ('if __name__ == "__main__":', "if True:", "the __main__ guard"),
        ("manual_seed(0)", "manual_seed(1)", "torch.manual_seed(0)"),
        (", flush=True", "", "a line of progress with flush=True"),
        ('f"step {1}', 'f"{1} step', "a line of progress with flush=True"),
        ('f"step {1}', 'f"step: {1}', "a line of progress with flush=True"),
    ],
)
def test_what_a_program_lacks_is_seen(before: str, after: str, what: str) -> None:
    assert missing(GOOD) == []
    assert missing(GOOD.replace(before, after)) == [what]


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        ("# what", "# the bottleneck: what", "bottleneck"),
        ("args = parser", "slowArgs = args = parser", "slow"),
        ("args = parser", "args = no_sync = parser", "sync"),
        ("def main():", 'def main():\n    "It stalls."', "stalls"),
        ("loss {0.5}", "stalled {0.5}", "stalled"),
    ],
)
def test_a_hint_is_seen(tmp_path: Path, before: str, after: str, hint: str) -> None:
    program = tmp_path / "train.py"
    program.write_text(GOOD)
    assert hints(program) == []
    program.write_text(GOOD.replace(before, after))
    assert hints(program) == [hint]
    program.rename(tmp_path / "slow_train.py")
    assert hints(tmp_path / "slow_train.py") == sorted({hint, "slow"})
