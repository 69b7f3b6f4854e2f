"""Imports point down only; the contract in pyproject.toml is complete and can be broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "perfzero"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's verdict on the package in *folder*, under the contracts of this project."""
    code = "import sys; from importlinter.cli import lint_imports as lint; sys.exit(lint(no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder / 'src')!r}); {code}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def declared_layers() -> list[str]:
    """The modules that the layer contract names, as written: in parentheses where optional."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(c["layers"] for c in contracts if c["type"] == "layers")
    return [module.strip() for row in rows for module in row.split("|")]


def exists(module: str) -> bool:
    """Whether *module* is a module or a package of the source tree."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def modules() -> list[str]:
    """Every module that belongs to a layer: packages' own `__init__` and the two entries stand apart."""
    names = (
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("*.py")
    )
    return sorted(n for n in names if not n.endswith(("__init__", "__main__")))


def test_no_room_imports_from_above_or_beside() -> None:
    done = lint_imports(ROOT)

    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_that_points_up_breaks_the_contract(tmp_path: Path) -> None:
    shutil.copytree(
        PACKAGE, tmp_path / "src" / "perfzero", ignore=shutil.ignore_patterns("data", "__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "src" / "perfzero" / "errors.py").open("a") as errors:
        errors.write("\nimport perfzero.counters\n")

    done = lint_imports(tmp_path)

    assert done.returncode == 1
    assert "perfzero.errors is not allowed to import perfzero.counters" in done.stdout


def test_every_module_has_its_place_in_the_layers() -> None:
    layers = [layer.strip("()") for layer in declared_layers()]
    homeless = [m for m in modules() if not any(m == at or m.startswith(f"{at}.") for at in layers)]

    assert homeless == [], "name these in [tool.importlinter] of pyproject.toml"


def test_a_layer_that_has_landed_is_no_longer_optional() -> None:
    landed = [layer for layer in declared_layers() if layer.startswith("(") and exists(layer.strip("()"))]

    assert landed == [], "take the parentheses off in pyproject.toml"
