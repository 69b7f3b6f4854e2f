"""
The ledger as one page: no script, no request, light and dark, readable on a phone.

Beside each difference its interval is drawn: a bar from low to high, a dot in the middle, and the margin
within which there is no real difference in grey. Words of a recording are escaped; nothing else is markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from perfzero import text
from perfzero.report.ledger import shown
from perfzero.report.ledger.model import Ledger, Line
from perfzero.report.ledger.tables import Comparison, groups
from perfzero.report.voice import Voice
from perfzero.series.compare import Difference

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --dim: #687076; --line: #e1e4e8; --paper: #fff;
  --good: #1a7f37; --bad: #cf222e; --bar: #8b949e; --band: #eaeef2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #8b949e; --line: #30363d;
  --paper: #0d1117; --good: #3fb950; --bad: #f85149; --bar: #8b949e; --band: #21262d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 76rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; line-height: 1.35; font-weight: 650; margin: .3rem 0; }
h2 { font-size: 1rem; margin: 2rem 0 .4rem; }
p, li { margin: .2rem 0; overflow-wrap: anywhere; }
.dim, caption { color: var(--dim); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th, td { white-space: nowrap; }
th { font-weight: 600; color: var(--dim); }
th:first-child, td:first-child, .left { text-align: left; }
td.wide { white-space: normal; min-width: 16rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
svg { display: block; width: 9rem; height: 1.2rem; }
svg .band { fill: var(--band); } svg .axis { stroke: var(--line); } svg .bar { stroke: var(--bar); }
svg .dot { fill: var(--ink); } .good svg .bar { stroke: var(--good); } .bad svg .bar { stroke: var(--bad); }
.good svg .dot { fill: var(--good); } .bad svg .dot { fill: var(--bad); }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded, and nothing runs."""

_SPAN = 0.5
"""Half of the width of a drawing is so large a difference, or the largest there is, whichever is less."""

_WIDTH, _HEIGHT = 144, 20


def to_html(ledger: Ledger, *, language: str = "en") -> str:
    """The text of the page."""
    say = Voice(language)
    parts = [
        "<!doctype html>",
        f'<html lang="{language}"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>perfzero compare: {_names(ledger)}</title><style>{_STYLE}</style></head><body>",
        *_sentences(ledger, say),
        *_entries(ledger, say),
        *(f"<p>{escape(shown.foresaw(ledger, place, say))}</p>" for place in range(len(ledger.promises))),
        *_facts(ledger, say),
    ]
    for group, lines in groups(ledger):
        parts.append(f"<h2>{escape(say(f'compare.group_{group}'))}</h2>")
        parts += _table(ledger, lines, say)
    parts.append(f'<p class="dim">{escape(shown.family(ledger, say))}</p></body></html>')
    return "\n".join(parts) + "\n"


def _names(ledger: Ledger) -> str:
    return escape(", ".join(text.printable(entry.name) for entry in ledger.entries))


def _sentences(ledger: Ledger, say: Voice) -> Iterator[str]:
    for place in range(1, len(ledger.entries)):
        yield f"<h1>{escape(shown.sentence(ledger, place, say))}</h1>"


def _entries(ledger: Ledger, say: Voice) -> Iterator[str]:
    yield '<div class="scroll"><table><tbody>'
    for entry in ledger.entries:
        command = text.printable(" ".join(entry.command))
        yield (
            f"<tr><td><b>{entry.letter}</b></td><td class=left>{escape(text.printable(entry.name))}</td>"
            f'<td class="left wide">{escape(say.tell(entry.headline))}</td>'
            f'<td class="left wide dim">{escape(command)}</td></tr>'
        )
    yield "</tbody></table></div>"


def _facts(ledger: Ledger, say: Voice) -> Iterator[str]:
    for key, facts in (("compare.unlike", ledger.unlike), ("compare.differs", ledger.told)):
        if facts:
            items = "".join(f"<li>{escape(text.printable(fact))}</li>" for fact in facts)
            kind = "bad" if key == "compare.unlike" else "dim"
            yield f'<p class="{kind}">{escape(say(key))}</p><ul class="{kind}">{items}</ul>'


def _table(ledger: Ledger, lines: Sequence[Line], say: Voice) -> Iterator[str]:
    last = len(ledger.entries) - 1
    letters = [entry.letter for entry in ledger.entries]
    pairs = [Comparison(place - 1, place) for place in range(1, last + 1)]
    if last > 1:
        pairs.append(Comparison(0, last))
    heads = "".join(f"<th>{letter}</th>" for letter in letters)
    for pair in pairs:
        against = say("compare.column_change", before=letters[pair.before], after=letters[pair.after])
        heads += f'<th colspan="2">{escape(against)}</th><th></th>'
    yield f'<div class="scroll"><table><thead><tr><th></th>{heads}</tr></thead><tbody>'
    for line in lines:
        cells = "".join(f"<td>{escape(shown.value(cell.value, line.unit))}</td>" for cell in line.cells)
        for pair in pairs:
            cells += _change(line, pair.of(line), say, told=len(pairs) == 1)
        yield f"<tr><td>{escape(say.tell(line.label))}</td>{cells}</tr>"
    yield "</tbody></table></div>"


def _change(line: Line, found: Difference | None, say: Voice, *, told: bool) -> str:
    """Three cells; the interval is in words if it is to be *told*, else a title that shows on hover."""
    better = shown.is_better(line, found)
    kind = {True: "good", False: "bad", None: "dim" if found and found.word in ("same", "unknown") else ""}[
        better
    ]
    word, span = shown.word(line, found, say), shown.interval(found, line.unit, say)
    if told and span:
        word = f"({span}) {word}"
    return (
        f'<td class="{kind}" title="{escape(span)}">'
        f"{escape(shown.change(found, line.unit, say))}</td>"
        f'<td class="{kind}">{_drawn(line, found)}</td><td class="left {kind}">{escape(word)}</td>'
    )


def _drawn(line: Line, found: Difference | None) -> str:
    """The interval of *found* from left (less) to right (more); empty where there is none."""
    if found is None or not found.known:
        return ""
    unit = line.cells[0].value if found.scale == "points" and line.unit == "seconds" else 1.0
    widest = max(abs(found.low), abs(found.high), 4 * found.margin)
    span = min(_SPAN * (abs(unit) or 1.0) if found.scale == "ratio" else widest, widest)

    def at(change: float) -> float:
        return _WIDTH / 2 * (1 + max(-1.0, min(1.0, change / span)) * 0.95)

    low, high, middle = at(found.low), at(found.high), at(found.value)
    left, right = at(-found.margin), at(found.margin)
    numbers = [low, high, middle, left, right]
    if not all(math.isfinite(number) for number in numbers):
        return ""
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true">'
        f'<rect class="band" x="{left:.1f}" y="2" width="{right - left:.1f}" height="16"/>'
        f'<line class="axis" x1="{_WIDTH / 2}" y1="0" x2="{_WIDTH / 2}" y2="{_HEIGHT}"/>'
        f'<line class="bar" x1="{low:.1f}" y1="10" x2="{high:.1f}" y2="10" stroke-width="3"/>'
        f'<circle class="dot" cx="{middle:.1f}" cy="10" r="3.5"/></svg>'
    )
