"""
Builds the wheel, installs it alone into a fresh environment, and uses it as a user would.

What works in a checkout can be missing from a wheel: a data file, a dependency that only the
development tools bring, `py.typed`. So nothing here runs from the checkout: the environment is
new, holds no development tool, and the commands run in an empty folder.

    python tools/wheel_test.py [--keep DIR]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "perfzero"
PATIENCE_S = 300
BUILD_PATIENCE_S = 900  # a slow index, not a slow build


@dataclass(frozen=True)
class Use:
    """A command line, the exit codes that are right for it, and what it has to print."""

    arguments: tuple[str, ...]
    codes: tuple[int, ...]
    prints: str


USES = (
    Use(("--version",), (0,), "perfzero "),
    Use(("--help",), (0,), "Usage: perfzero"),
    Use(("doctor",), (0,), ""),
    Use(("metrics", "--find", "inst_executed"), (0,), "sm_issue"),
    Use(("metrics", "--find", "no_such_metric_anywhere"), (2,), ""),
    Use(("demo",), (0,), "nvidia-smi"),
    Use(("analyze", "no-such-folder"), (4,), "no-such-folder"),
)


class Failure(Exception):
    """The wheel is not what it should be."""


def build(folder: Path) -> Path:
    """Build the wheel into *folder*."""
    call(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--outdir",
        str(folder),
        str(ROOT),
        patience_s=BUILD_PATIENCE_S,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_content(wheel: Path) -> None:
    """Every file of the package is in the wheel, and nothing but the package is."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if missing := sorted(source - packed):
        raise Failure(f"not in the wheel: {', '.join(missing)}")
    if strange := sorted(packed - source):
        raise Failure(f"in the wheel, and not of the package: {', '.join(strange)}")
    for wanted in ("perfzero/py.typed", "perfzero/data/"):
        if not any(name.startswith(wanted) for name in packed):
            raise Failure(f"neither in the package nor in the wheel: {wanted}")


def check_use(perfzero: Path, use: Use, folder: Path) -> None:
    """Run one command line in *folder* as its user would."""
    done = subprocess.run(
        [perfzero, *use.arguments],
        cwd=folder,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = done.stdout + done.stderr
    if done.returncode not in use.codes or use.prints not in said or "Traceback" in said:
        raise Failure(
            f"perfzero {' '.join(use.arguments)} ended with {done.returncode} "
            f"(right: {use.codes}, and {use.prints!r} in its output):\n{said}"
        )


def clean_environment() -> dict[str, str]:
    """The environment without what would let the checkout or another Python shine through."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def call(*command: str | Path, patience_s: float = PATIENCE_S) -> str:
    """Run *command* outside the checkout; its output, or a `Failure` that shows it."""
    done = subprocess.run(
        command,
        cwd=tempfile.gettempdir(),
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience_s,
        check=False,
    )
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def check_wheel(folder: Path) -> Path:
    """All of it, in the empty *folder*; the wheel."""
    print("building the wheel", flush=True)
    wheel = build(folder / "dist")
    check_content(wheel)
    print(f"{wheel.name}, {wheel.stat().st_size / 1e3:.0f} kB: content is complete", flush=True)

    print("installing it into an environment of its own", flush=True)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    call(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        wheel,
        patience_s=BUILD_PATIENCE_S,
    )
    where = call(python, "-c", "import perfzero; print(perfzero.__file__)").strip()
    if not Path(where).is_relative_to((folder / "venv").resolve()):
        raise Failure(f"the environment is not its own: perfzero came from {where}")

    (folder / "empty").mkdir()
    for use in USES:
        check_use(folder / "venv" / "bin" / "perfzero", use, folder / "empty")
        print(f"perfzero {' '.join(use.arguments)}: right", flush=True)
    return wheel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--keep", metavar="DIR", type=Path, help="put the wheel here when it is good")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perfzero-wheel-") as folder:
        try:
            wheel = check_wheel(Path(folder).resolve())
        except (Failure, subprocess.TimeoutExpired) as failure:
            print(f"the wheel is not good: {failure}", file=sys.stderr)
            return 1
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(wheel, options.keep)
            print(f"kept as {options.keep / wheel.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
