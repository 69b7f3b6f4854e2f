"""
Makes the pictures of report.html in docs/screenshots/, from recordings that lie in the project.

    python tools/screenshots.py [--to DIR]

It needs Chromium (apt install chromium) and Playwright. Fonts are the machine's own, so pictures made
elsewhere differ in them and in nothing else.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from perfzero.report.analysis import judged_report  # noqa: E402 (needs the path above)
from perfzero.report.html import html  # noqa: E402

RECORDINGS = ROOT / "tests" / "recordings"
FOLDER = ROOT / "docs" / "screenshots"
MOST_BYTES = 250_000
"""A picture in a page of documentation is no poster."""
COLOURS = 256
"""Edges of letters need most of them; with fewer, small marks lose their colour."""


@dataclass(frozen=True)
class Shot:
    """A picture: of what, how wide, in which theme, and the section it begins at (empty: the top)."""

    name: str
    recording: str
    width: int
    height: int
    dark: bool = False
    section: str = ""


SHOTS = (
    Shot("desktop-light", "resnet50_nchw", 1280, 900),
    Shot("desktop-dark", "resnet50_nchw", 1280, 1100, dark=True, section="timeline"),
    Shot("phone", "input_starved_resnet50", 390, 844),
    Shot("layers", "_looks/resnet50_fp32", 1280, 1000, section="layers"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--to", metavar="DIR", type=Path, default=FOLDER, help="where the pictures go")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("There is no Chromium to draw with: apt install chromium", file=sys.stderr)
        return 2
    from PIL import Image
    from playwright.sync_api import sync_playwright

    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="perfzero-pages-") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for shot in SHOTS:
            page_file = Path(folder) / f"{Path(shot.recording).name}.html"
            if not page_file.exists():
                page_file.write_bytes(html(judged_report(RECORDINGS / shot.recording)))
            page = browser.new_page(
                viewport={"width": shot.width, "height": shot.height},
                color_scheme="dark" if shot.dark else "light",
            )
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")
            if shot.section:
                page.evaluate("(id) => document.getElementById(id).scrollIntoView()", shot.section)
                page.wait_for_timeout(1500)  # what comes near the screen is drawn then
                page.evaluate("(id) => document.getElementById(id).scrollIntoView()", shot.section)
            page.wait_for_timeout(500)
            picture = options.to / f"{shot.name}.png"
            page.screenshot(path=picture)
            with Image.open(picture) as drawn:
                few = drawn.convert("RGB").quantize(COLOURS, kmeans=3, dither=Image.Dither.NONE)
            few.save(picture, optimize=True)
            size = picture.stat().st_size
            print(f"{picture}: {size / 1e3:.0f} kB")
            if size > MOST_BYTES:
                print(f"That is more than {MOST_BYTES / 1e3:.0f} kB.", file=sys.stderr)
                return 1
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
