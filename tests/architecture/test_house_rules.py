"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import perfzero
from perfzero.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "perfzero"
MODULES = sorted(PACKAGE.rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("zoo/*.md")])
CONTENTLESS = {"common", "helper", "helpers", "misc", "util", "utils"}
TEXT = {"", ".cfg", ".css", ".html", ".js", ".json", ".jsonl", ".md", ".py", ".sh", ".toml", ".txt", ".yml"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def published() -> list[Path]:
    """The project's text files: what git tracks or would track; without git, what lies in its folders."""
    asked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0:
        paths = [ROOT / name for name in asked.stdout.split("\0") if name]
    else:
        paths = [p for folder in ("src", "tests", "docs", "tools", "zoo") for p in (ROOT / folder).rglob("*")]
    return [p for p in paths if p.is_file() and p.suffix in TEXT and "__pycache__" not in p.parts]


def private_places() -> list[str]:
    """What only this machine has: where the checkout and Python lie, the home, the package indexes in use."""
    public = {"/", "/usr", "/usr/local", "/opt", "/root", "/home", "/src", "/app", tempfile.gettempdir()}
    folders = {str(ROOT), str(ROOT.parent), sys.base_prefix, str(Path.home())} - public
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    settings = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "UV_"))}
    indexes = re.findall(r"(?:file|https?)://[^\s'\"]+|(?<=find-links=')[^']+", pip.stdout)
    indexes += re.findall(r"(?:file|https?)://[^\s'\"]+", " ".join(settings.values()))
    return [*folders, *(i for i in indexes if "pypi.org" not in i)]


def mentions(text: str, places: list[str]) -> list[str]:
    """Which of *places* occur in *text*, as whole paths or addresses or the start of longer ones."""
    return [p for p in places if re.search(rf"(?<![\w.\-/]){re.escape(p.rstrip('/'))}(?![\w.\-])", text)]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "a module begins with a docstring"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_is_named_after_its_content(path: Path) -> None:
    assert not CONTENTLESS & {part.removesuffix(".py").strip("_") for part in path.parts[len(ROOT.parts) :]}


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_nothing_is_ever_unpickled(path: Path) -> None:
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert not imported & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_its_own_tests(command: str) -> None:
    files = (ROOT / "tests").rglob(f"test_{command}.py")  # in cli/, or with the room it belongs to

    assert any(f'"{command}"' in file.read_text() for file in files)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_documented(command: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]

    assert any(f"perfzero {command}" in page.read_text() for page in pages)


def test_the_version_is_the_same_wherever_it_stands() -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert declared is not None
    assert declared[1] == perfzero.__version__
    assert f"## {perfzero.__version__} " in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_links_only_to_what_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s#]+)", page.read_text())
    local = [link for link in links if not re.match(r"[a-z]+:", link)]

    assert [link for link in local if not (page.parent / link).exists()] == []


def test_no_published_file_names_a_place_of_the_machine_it_was_made_on() -> None:
    places = private_places()
    named = {relative(path): found for path in published() if (found := mentions(path.read_text(), places))}

    assert named == {}


def test_the_check_for_private_places_can_fail() -> None:
    assert mentions(f"see {ROOT}/notes.txt", [str(ROOT)]) == [str(ROOT)]
    assert mentions(f"see {ROOT}s and x{ROOT}", [str(ROOT)]) == []
    assert str(ROOT) in private_places()
