"""
Runs a program under a CPU quota, as a container with a CPU limit would.

    python zoo/quota.py --cpus 2 -- python zoo/input_starved.py --workers 8

No workload: it makes a cgroup (version 2) of its own, moves itself in and becomes the program. That takes
root and a writable /sys/fs/cgroup whose processes do not stand in the way; where it cannot, it says so
and ends with 3. A cgroup cannot be removed while it is in use: what earlier calls left is removed first.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

PERIOD_US = 100_000
"""The kernel's default: in each period of 100 ms the quota may be used up once."""

PREFIX = "perfzero-zoo-"


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cpus", type=float, default=2.0, help="how many CPUs the program may use")
    p.add_argument("--cgroups", type=Path, default=Path("/sys/fs/cgroup"), help="where cgroups are mounted")
    p.add_argument("command", nargs=argparse.REMAINDER, metavar="-- PROGRAM ...")
    return p


def main() -> None:
    args = parser().parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        sys.exit("quota.py: no program was given")
    try:
        move_into(make(args.cgroups, cpus=args.cpus))
    except OSError as error:
        print(f"no cgroup with a CPU quota can be made here: {error}", file=sys.stderr)
        sys.exit(3)
    os.execvp(command[0], command)


def make(cgroups: Path, *, cpus: float) -> Path:
    """A new cgroup with the quota, beside the one at the root of the mount."""
    for old in cgroups.glob(f"{PREFIX}*"):
        with suppress(OSError):
            old.rmdir()
    if not (cgroups / "cgroup.controllers").is_file():
        raise FileNotFoundError(f"{cgroups} is no cgroup v2")
    (cgroups / "cgroup.subtree_control").write_text("+cpu")
    made = cgroups / f"{PREFIX}{os.getpid()}"
    made.mkdir()
    (made / "cpu.max").write_text(f"{round(cpus * PERIOD_US)} {PERIOD_US}")
    return made


def move_into(cgroup: Path) -> None:
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))


if __name__ == "__main__":
    main()
