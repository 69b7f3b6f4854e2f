"""
Examples in pages: every command in a block of "console" is run, and what it printed is written below it.

    ```console
    $ perfzero demo --list
    input_starved_resnet50
    ```

The commands of a page run one after the other in one empty folder, as the reader's would, in a shell with
this project's `perfzero`. One that fails ends it: a page shows only what works.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROMPT = "$ "
LIMIT_S = 120


class ExampleError(Exception):
    """A command of a page failed; the message says which, and what it said."""


def filled(page: str) -> str:
    """*page* with what its commands print now."""
    if not BLOCK.search(page):
        return page
    with tempfile.TemporaryDirectory(prefix="perfzero-examples-") as folder:
        return BLOCK.sub(lambda block: f"```console\n{_run(block[1], Path(folder))}```", page)


def _run(block: str, folder: Path) -> str:
    commands = [line.removeprefix(PROMPT) for line in block.splitlines() if line.startswith(PROMPT)]
    return "".join(f"{PROMPT}{command}\n{printed(command, folder)}" for command in commands)


def printed(command: str, folder: Path) -> str:
    """What *command* prints in *folder*, both streams, without spaces at the ends of lines."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ExampleError(f"$ {command}\nended with {done.returncode}:\n{done.stdout}")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    return "".join(f"{line}\n" for line in lines)


def environment() -> dict[str, str]:
    """Plain output, 100 columns wide, in English; and `perfzero` of the Python that runs this."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PERFZERO_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return known | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "LANG": "C.UTF-8", "TERM": "dumb"}
