"""
report.html: the Report as one file that needs nothing else, made to be read.

    page.html           the frame: a place for each part below, and the headline until the page is built
      uPlot, page.css   how it looks
      document          what it says: JSON, escaped so that no text can end the element it stands in
      page's scripts    build the page from the document; text enters it as text, never as markup
      samples           a block for each GPU, unpacked when the timeline comes into sight

Nothing is loaded: the policy in the frame forbids it. The blocks of samples stand at the end, so
that the first screen is there before they are read. The same Report gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from perfzero.report.model import Report
from perfzero.report.page_data import document
from perfzero.report.page_layers import rows_of
from perfzero.report.page_samples import TEXT, TEXT_EACH, block, deflated
from perfzero.report.page_tracks import COLUMNS, sampled_tables
from perfzero.report.page_words import page_words
from perfzero.report.voice import Voice

SCRIPTS = (
    "dom.js", "numbers.js", "samples.js", "briefing.js", "evidence.js", "timeline.js", "layers.js",
    "roofline.js", "steps.js", "main.js",
)  # fmt: skip
"""In one scope, in this order: each uses only what stands in those before it until the page is built."""

_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def html(report: Report, *, language: str = "en") -> bytes:
    """The page, in UTF-8."""
    words = page_words(language)
    said = document(report, words, Voice(language), language=language)
    blocks = []
    each = min(TEXT_EACH, TEXT // max(1, len(report.gpus)))
    if report.breakdowns:
        rows = json.dumps(rows_of(report), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        blocks.append(f'<script type="text/plain" id="data-layers">{deflated(rows.encode())}</script>')
    for place, gpu in enumerate(report.gpus):
        its = block(sampled_tables(gpu), COLUMNS, start_ns=gpu.timeline.start_ns, most=each)
        said["gpus"][place]["samples"] = its.directory
        blocks.append(f'<script type="text/plain" id="data-samples-{place}">{its.text}</script>')
    frame = _asset("page.html")
    parts = {
        "language": language,
        "title": markup(words["title"]),
        "headline": markup(said["headline"]),
        "no_script": markup(words["no_script"]),
        "licence": _asset("uplot.LICENSE").replace("--", "—").strip(),
        "styles": _asset("uplot.min.css") + _asset("page.css"),
        "document": json_in_markup(said),
        "library": _asset("uplot.iife.min.js"),
        "scripts": "(() => {\n'use strict';\n" + "".join(map(_asset, SCRIPTS)) + "})();",
        "blocks": "\n".join(blocks),
    }
    return "".join(_filled(frame, parts)).encode()


def json_in_markup(value: Any) -> str:
    """Strict JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def markup(words: str) -> str:
    """*words* as the text of an element."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _filled(frame: str, parts: dict[str, str]) -> Iterator[str]:
    """*frame* with each "<!--=name-->" replaced; what is filled in is never searched for places itself."""
    for place, piece in enumerate(frame.split("<!--=")):
        if not place:
            yield piece
            continue
        name, _, rest = piece.partition("-->")
        yield parts[name]
        yield rest


def _asset(name: str) -> str:
    return files("perfzero.report").joinpath("page", name).read_text("utf-8")
