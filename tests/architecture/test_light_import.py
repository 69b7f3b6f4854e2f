"""Start-up is light: what a command does not need is not loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("matplotlib", "psutil", "pyarrow", "pynvml", "rich", "scipy", "textual", "torch")


def loaded(code: str, names: tuple[str, ...]) -> list[str]:
    """Which of *names* a fresh interpreter has loaded once it has run *code*."""
    report = "\nimport sys\nprint('LOADED', *[n for n in sys.argv[1:] if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + report, *names],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_importing_the_package_loads_no_library() -> None:
    assert loaded("import perfzero", (*HEAVY, "numpy", "typer", "click")) == []


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_help_page_loads_no_library_that_only_a_command_needs(argument: str) -> None:
    code = f"from perfzero.cli.main import main\nassert main(['{argument}']) == 0"

    assert loaded(code, HEAVY) == []


def test_the_analysis_loads_neither_arrow_nor_a_vendor_library() -> None:
    assert loaded("import perfzero.series, perfzero.diagnose.judge", HEAVY) == []


def test_the_check_sees_a_library_that_is_loaded() -> None:
    assert loaded("import perfzero\nimport pyarrow", HEAVY) == ["pyarrow"]
