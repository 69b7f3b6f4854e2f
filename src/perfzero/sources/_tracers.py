"""
Which debuggers and profilers watch a process tree, by their names.

    traces it      the kernel names the tracer (ptrace): gdb, strace, rr
    started it     an ancestor or a member of the tree is such a tool: nsys, ncu, scalene
    names it       any other process is such a tool and has one of the tree's PIDs in its command line:
                   py-spy record --pid 7, perf record -p 7

Read out of /proc; nothing is attached to. A tool that comes and goes between two looks is not seen, nor
is one that lives inside the program, such as PyTorch's own profiler.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import PurePath

from perfzero.sources import _proc

TOOLS = frozenset((
    "nsys", "ncu", "nv-nsight-cu-cli", "nvprof", "compute-sanitizer", "cuda-memcheck", "cuda-gdb",
    "gdb", "lldb", "strace", "ltrace", "rr", "perf", "py-spy", "viztracer", "scalene", "memray",
    "austin", "pyinstrument", "kernprof", "debugpy", "cProfile",
))  # fmt: skip
"""What is started for finding bugs or slow places, and costs time while it runs."""

COMM = 15
"""Letters of a name that the kernel keeps."""

GENERATIONS = 64
"""Ancestors looked at, at most; a program is rarely started through more than ten."""

_SHORT = {tool[:COMM]: tool for tool in TOOLS}
_PLAIN = re.compile(r"[\w.+-]{1,15}")
_PYTHON = re.compile(r"python[\d.]*")


def tracers(tree: Collection[int], *, root: int, everyone: Collection[int]) -> frozenset[str]:
    """The tools that watch the processes *tree* below *root*, of all those that live now (*everyone*)."""
    found = {tool for pid in (*tree, *_ancestors(root)) if (tool := _tool(pid)) is not None}
    for pid in tree:
        by = _proc.tracer(pid)
        if by is not None:
            name = _proc.name(by)
            found.add(_SHORT.get(name) or (name if _PLAIN.fullmatch(name) else "a debugger"))
    numbers = {str(pid) for pid in tree}
    for pid in set(everyone) - set(tree):
        tool = _SHORT.get(_proc.name(pid))
        if tool is not None and not numbers.isdisjoint(_numbers(_proc.arguments(pid))):
            found.add(tool)
    return frozenset(found)


def _ancestors(pid: int) -> Iterator[int]:
    for _ in range(GENERATIONS):
        found = _proc.stat(pid)
        if found is None or found.parent <= 1:
            return
        pid = found.parent
        yield pid


def _tool(pid: int) -> str | None:
    """The tool that the process is, None where it is none: by its own name, or as what Python runs."""
    known = _SHORT.get(_proc.name(pid))
    if known is not None:
        return known
    first, *rest = _proc.arguments(pid) or ("",)
    if not _PYTHON.fullmatch(PurePath(first).name):
        return None
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
        rest = rest[1:]
    if len(rest) > 1 and rest[0] == "-m":
        rest = rest[1:]
    program = PurePath(rest[0]).name if rest else ""
    return program if program in TOOLS else None


def _numbers(arguments: tuple[str, ...]) -> set[str]:
    """The numbers among *arguments*, as of `7`, `-p7` and `--pid=7`."""
    matches = (re.fullmatch(r"(?:-\w|--[\w-]+=)?(\d+)", argument) for argument in arguments[1:])
    return {match[1] for match in matches if match is not None}
