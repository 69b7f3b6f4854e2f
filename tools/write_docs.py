"""
Write the pages of the documentation that are made from the code, and the output of examples in others.

    python tools/write_docs.py            write them
    python tools/write_docs.py --check    change nothing; exit code 1 if a page is out of date

Pages that are named, as in `write_docs.py counters.md README.md`, are all that is looked at.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import examples
import limit_tables

from perfzero.aliases import ALIASES, DCGM_FIELDS, GPM_METRICS
from perfzero.cli import main as command_line
from perfzero.cli.demo import DEFAULT, shipped_recordings
from perfzero.counters import BOARD_COUNTERS, COUNTERS, GPU_COUNTERS, HOST_COUNTERS, Counter, pm_counters
from perfzero.report.analysis import FILES, judged_report
from perfzero.report.terminal import words

DOCS = Path(__file__).parents[1] / "docs"
READMES = {"README.md": "en", "README.zh-CN.md": "zh"}
"""Each with what the demo prints in its language."""

DEMO_BEGIN, DEMO_END = "<!-- demo: begin -->", "<!-- demo: end -->"
NOTICE = "<!-- Written by tools/write_docs.py from the code. Change the code, then run it again. -->"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say whether a page is out of date")
    parser.add_argument("--docs", type=Path, default=DOCS, help=argparse.SUPPRESS)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="by file name (default: all)")
    options = parser.parse_args(argv)
    makers = makers_of(options.docs)
    unknown = sorted(set(options.pages) - {path.name for path in makers})
    if unknown:
        parser.error(f"no such page: {', '.join(unknown)}")
    chosen = options.pages or [path.name for path in makers]
    wanted = {path: make() for path, make in makers.items() if path.name in chosen}
    stale = [path for path, text in wanted.items() if _read(path) != text]
    for path in stale:
        name = path.name if path.name in READMES and path.parent != options.docs else f"docs/{path.name}"
        if options.check:
            print(f"{name} is out of date: python tools/write_docs.py", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if stale and options.check else 0


def makers_of(docs: Path) -> dict[Path, Callable[[], str]]:
    """What makes each page of the folder *docs*, and each README beside it."""

    def filled(page: Path) -> str:
        return examples.filled(page.read_text(encoding="utf-8"))

    def introduced(readme: Path, language: str) -> str:
        return with_demo(readme.read_text(encoding="utf-8"), language=language)

    found: dict[Path, Callable[[], str]] = {docs / name: page for name, page in PAGES.items()}
    written = [page for page in sorted(docs.glob("*.md")) if page.name not in PAGES]
    found |= {page: partial(filled, page) for page in written}
    readmes = {docs.parent / name: language for name, language in READMES.items()}
    return found | {
        path: partial(introduced, path, language) for path, language in readmes.items() if path.exists()
    }


def with_demo(readme: str, *, language: str) -> str:
    """*readme* with what `perfzero demo` prints in *language* between its two marks."""
    before, rest = readme.split(DEMO_BEGIN)
    _, after = rest.split(DEMO_END)
    report = judged_report(shipped_recordings()[DEFAULT])
    folder = "/tmp/perfzero-demo-..."
    check = (report.next_command or "").replace(report.recording, folder)
    report = replace(report, folder=f"{folder}/", files=FILES, next_command=check)
    printed = words(report, language=language, width=100).strip("\n")
    return f"{before}{DEMO_BEGIN}\n```\n{printed}\n```\n{DEMO_END}{after}"


def counters_page() -> str:
    """The vocabulary, the names that other tools use, the ladders and the aliases."""
    return (
        "\n".join(
            [
                NOTICE,
                "",
                "# Counters",
                "",
                "Each quantity has one name, which is its column in every file.",
                "A *level* is a mean over the sample, a *total* an amount that fell into it.",
                "A missing value is empty (NaN), never 0.",
                "",
                "`perfzero metrics` prints this list.",
                "`perfzero metrics --find NAME` explains any name you bring.",
                "`perfzero metrics --chip GH100` shows what is sampled on a chip.",
                "",
                "## From the GPU's own counters",
                "",
                *_vocabulary(GPU_COUNTERS),
                "## From the board",
                "",
                *_vocabulary(BOARD_COUNTERS),
                "## From the host",
                "",
                *_vocabulary(HOST_COUNTERS),
                "## The same in other tools",
                "",
                "DCGM's fields are given with today's name and the one before 4.6.",
                "OpenTelemetry defines the names that begin with `hw.`; the others are ours.",
                "",
                *_table(
                    ("counter", "DCGM", "NVML GPM", "Nsight Systems", "OpenTelemetry"),
                    (
                        (f"`{c.name}`", _dcgm(c), _gpm(c), c.nsight or "", f"`{c.otel}`" if c.otel else "")
                        for c in COUNTERS
                        if c.dcgm is not None or c.gpm is not None or c.nsight or c.otel
                    ),
                ),
                "## In CUPTI",
                "",
                "The first name is used that the library at hand knows for the chip at hand and that fits",
                "the single pass with those above it.",
                "Counters are given their place in this order.",
                "",
                *_table(
                    ("counter", "metrics, best first"),
                    ((f"`{c.name}`", "<br>".join(f"`{m}`" for m in c.cupti)) for c in pm_counters()),
                ),
                "## Names that need a word",
                "",
                "Old names, names that exist on no chip, and names that say less than they seem to.",
                "",
                *_table(
                    ("name", "counter", "note"),
                    ((f"`{a.name}`", f"`{a.counter}`" if a.counter else "none", a.note) for a in ALIASES),
                ),
            ]
        ).rstrip("\n")
        + "\n"
    )


def cli_page() -> str:
    """What `--help` of each command prints, and the exit codes."""
    lines = [
        NOTICE,
        "",
        "# The command line",
        "",
        "What `perfzero` and each of its commands print with `--help`.",
        "The exit codes stand in [README.md](README.md#the-commands-in-one-place).",
        "",
    ]
    with tempfile.TemporaryDirectory(prefix="perfzero-help-") as folder:
        for command in ("", *command_line.COMMANDS):
            name = f"perfzero {command}".rstrip()
            lines += [f"## {name}", "", "```text"]
            lines += [examples.printed(f"{name} --help", Path(folder)).rstrip("\n"), "```", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def thresholds_page() -> str:
    """Every limit on which it depends what a user is told."""
    lines = [
        NOTICE,
        "",
        "# Thresholds",
        "",
        "Every number on which it depends what perfzero tells, with the reason it has this value,"
        " and who says so: a document, a measurement, or nobody but us.",
        'Where that is "our choice", the reason is all there is, and may be argued with.',
        "",
        "Names of rules' thresholds are those that [rules.md](rules.md) gives in parentheses;"
        " they stand in `diagnose/thresholds.py`.",
        "The others are named `room.module.NAME`, after the module of `src/perfzero/` that uses them;"
        " its docstring has the method that they belong to.",
        "A ratio of 1 is the whole, or as much as before.",
        "Numbers that change how a method runs and not what it says, such as rounds of a search,"
        " are not here; nor is when and how closely is sampled, for which see [sampling.md](sampling.md).",
        "",
    ]
    for heading, limits in limit_tables.tables():
        lines += [f"## {heading}", ""]
        rows = ((f"`{n.name}`", limit_tables.shown(n.value), n.unit, n.reason, n.source) for n in limits)
        lines += _table(("name", "value", "unit", "reason", "source"), rows)
    return "\n".join(lines).rstrip("\n") + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "counters.md": counters_page,
    "cli.md": cli_page,
    "thresholds.md": thresholds_page,
}


def _vocabulary(counters: Iterable[Counter]) -> list[str]:
    return _table(
        ("counter", "unit", "kind", "meaning"),
        ((f"`{c.name}`", c.unit, c.kind, c.doc) for c in counters),
    )


def _dcgm(counter: Counter) -> str:
    if counter.dcgm is None:
        return ""
    return f"{counter.dcgm} " + ", ".join(f"`{name}`" for name in DCGM_FIELDS[counter.dcgm])


def _gpm(counter: Counter) -> str:
    return "" if counter.gpm is None else f"{counter.gpm} `{GPM_METRICS[counter.gpm]}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return [lines[0], "|" + " --- |" * len(head), *lines[1:], ""]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
