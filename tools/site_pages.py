"""
Hooks of mkdocs (mkdocs.yml) for pages that lie outside of docs/.

On a code host docs/ links to README.md, CHANGELOG.md and others above it. In the site they are pages of their
own, in a section "project", and links to them, and of them into docs/, are turned accordingly.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Set
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

OUTSIDE = {
    "README.md": "project/readme.md",
    "README.zh-CN.md": "project/readme.zh-CN.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "tests/recordings/README.md": "project/recordings.md",
}
"""Pages outside of docs/, by their place in the project, and their place in the site."""

LINK = re.compile(r"\[([^\]\[]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
"""A link to a file: its text, its path, and where on the page."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of `OUTSIDE` that exist."""
    for source, place in OUTSIDE.items():
        if (ROOT / source).exists():
            files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """*markdown* with links to where their targets are in the site; of others only the text stays."""
    at = page.file.src_uri
    return with_links(markdown, at=at, pages={file.src_uri for file in files})


def with_links(markdown: str, *, at: str, pages: Set[str]) -> str:
    """*markdown* of the page *at*, its links as the site has them; *pages* are all pages of it."""
    source = next((origin for origin, place in OUTSIDE.items() if place == at), f"docs/{at}")
    place_of = {f"docs/{page}": page for page in pages}
    place_of |= {origin: place for origin, place in OUTSIDE.items() if place in pages}

    def turned(found: re.Match[str]) -> str:
        text, path, anchor = found[1], found[2], found[3] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        place = place_of.get(target, place_of.get(f"{target}/README.md"))
        if place is None:
            return text
        return f"[{text}]({posixpath.relpath(place, posixpath.dirname(at))}{anchor})"

    return LINK.sub(turned, markdown)
