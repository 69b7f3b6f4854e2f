"""
One Chromium for all tests of the page, driven by Playwright; pages of real recordings, made once.

A page under test must say nothing on its console, raise nothing, and ask the network for nothing: that is
held against it when a test ends, whatever the test was about.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from perfzero.report.analysis import judged_report
from perfzero.report.html import html
from perfzero.report.model import Report

RECORDINGS = Path(__file__).parents[1] / "recordings"
HOSTILE = '</script><img src="https://example.invalid/x" onerror="window.hurt=1"><b>'
DESKTOP = {"width": 1280, "height": 900}

MISSING = "needs Playwright and a browser: pip install playwright, and apt install chromium"


def chromium() -> str:
    """Where Chromium is; a test that needs one is skipped without, and fails under CI=true."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(MISSING)
    return found


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Chromium begins and ends processes as it likes; that it leaves none is held against `browser`."""


@pytest.fixture(scope="module")  # gone before other tests look what is left behind
def browser() -> Iterator[Any]:
    before = set(psutil.Process().children(recursive=True))
    path = chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(MISSING)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
    left = [p for p in psutil.Process().children(recursive=True) if p not in before]
    psutil.wait_procs(left, timeout=5)
    assert [p.pid for p in left if p.is_running()] == []


@pytest.fixture(scope="session")
def report() -> Callable[[str], Report]:
    """The report on a recording by its name, analysed once."""
    made: dict[str, Report] = {}

    def of(name: str) -> Report:
        if name not in made:
            made[name] = judged_report(RECORDINGS / name)
        return made[name]

    return of


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Report], Path]:
    """Write a report's page once, under a name."""
    folder = tmp_path_factory.mktemp("pages")

    def of(name: str, report: Report) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_bytes(html(report))
        return path

    return of


Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Open a file as a page: `open_page(path, width=..., height=..., dark=..., touch=...)`."""
    contexts = []
    said: list[str] = []
    asked: list[str] = []

    def of(
        path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, touch: bool = False
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            has_touch=touch,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield of
    hurt = [page.evaluate("window.hurt ?? null") for context in contexts for page in context.pages]
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert set(hurt) <= {None}


@pytest.fixture(scope="session")
def hostile(report: Callable[[str], Report]) -> Report:
    """A report in which every name that comes from outside is markup."""
    real = report("_looks/resnet50_fp32")
    gpu = real.gpus[0]
    diagnosis = gpu.diagnosis
    told = replace(diagnosis, headline=HOSTILE, doubts=(HOSTILE,))
    kernels = {
        file: replace(
            look,
            kernels=tuple(
                replace(k, row=replace(k.row, name=f"{HOSTILE}{k.row.name}")) for k in look.kernels
            ),
            calls=tuple(replace(c, kernel=f"{HOSTILE}{c.kernel}") for c in look.calls),
        )
        for file, look in real.breakdowns.items()
    }
    process = replace(real.process, command=("python", HOSTILE))
    named = replace(gpu, gpu=replace(gpu.gpu, name=HOSTILE), diagnosis=told)
    return replace(
        real, gpus=(named,), headline=HOSTILE, breakdowns=kernels, process=process, recording=HOSTILE
    )
