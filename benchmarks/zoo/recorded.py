"""
Watches a case as a user would, and makes a recording of it that is small enough to keep.

`perfzero record` and `perfzero analyze` are the two halves of `perfzero run`: by themselves the second half,
some seconds of CPU, runs while the GPU works on something else. The unfixed program is watched with all
defaults, look and stacks included; of the fixed one only the verdict is asked, from outside.

    python benchmarks/zoo/recorded.py a01 base RAW --kept FOLDER --reports FOLDER

makes what is kept out of the whole recording in RAW. Trimming may lose something, so both are scored: where
a smaller size loses what is scored, a larger is taken, and what even the largest loses is a problem of the
case.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import checkout
from case import Case, choose
from kept import VERSIONS, Checked, Kept, Version, check_in
from programs import Stop

FIXED_S = 12.0
"""Of the fixed program: from outside a verdict takes 2 s to wait for work to be steady, and 8 to sample."""

START_UP_S = 60.0
"""Beyond its main loop, what a program's start and the end of the recording may take."""

POLL_S = 0.05

FROM_OUTSIDE = ("--no-agent", "--no-stacks")

SIZES: Mapping[Version, tuple[int, ...]] = {
    "base": (400_000, 700_000, 1_100_000),
    "fixed": (80_000, 200_000),
}
"""
Bytes, a larger size only where a smaller one loses what is scored. All of the zoo may have 40 MB: the first
38 cases took 13.3, at 330 KB and fewer each for most of the unfixed ones. A look takes 20 to 400 KB, and up
to 200 more with the samples beside it: of three of these cases there was no room for any.
"""


class Failed(RuntimeError):
    """A program or a recorder that did not end well, and what it said."""


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where a case runs: the interpreter of the programs, and the GPU by NVML's index.

    `replay`: a recording that is taken for any, on a machine without a GPU.
    """

    python: str
    gpu: int
    replay: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """In it CUDA counts GPUs as NVML does, and sees one."""
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(self.gpu)}


def watch(case: Case, version: Version, raw: Path, *, place: Place, seconds: float, stop: Stop) -> None:
    """Record *version* of *case* into *raw*. Raises `Failed`."""
    fixed = version == "fixed"
    program = case.command(python=place.python, seconds=seconds, fixed=fixed)
    log = raw.with_name(f"{raw.name}.log")
    if place.replay is not None:
        await_end(program, log=log, place=place, within_s=seconds + START_UP_S, stop=stop)
        shutil.copytree(place.replay, raw, dirs_exist_ok=True)
        return
    options = ["--gpu", str(place.gpu), "-o", str(raw), *(FROM_OUTSIDE if fixed else ())]
    command = [*checkout.PERFZERO, "record", *options, "--", *program]
    await_end(command, log=log, place=place, within_s=seconds + START_UP_S, stop=stop)
    if not (raw / "manifest.json").is_file():
        raise Failed(f"nothing was recorded: {_last_words(log)}")


def await_end(command: Sequence[str], *, log: Path, place: Place, within_s: float, stop: Stop) -> None:
    """Run *command* to its end; nothing of it is left, whatever happens. Raises `Failed`."""
    begun = time.monotonic()
    process = checkout.start(command, log=log, more=place.environment)
    try:
        while process.poll() is None:
            if time.monotonic() - begun > within_s:
                raise Failed(f"took more than {within_s:.0f} s: {_last_words(log)}")
            stop.rest(POLL_S)
    finally:
        checkout.end_group(process)
        process.wait()
    if process.returncode:
        raise Failed(f"ended with {process.returncode}: {_last_words(log)}")


def _last_words(log: Path) -> str:
    return " ".join(log.read_text(errors="replace").split())[-600:]


# --- making it small ---------------------------------------------------------------------------


def pack_command(case: Case, version: Version, raw: Path, *, kept: Path, reports: Path) -> list[str]:
    """The command line that calls `pack`, out of the way of the programs that are measured meanwhile."""
    return [
        "env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "nice", "-n", "19",
        sys.executable, str(Path(__file__).resolve()), case.id, version, str(raw),
        "--kept", str(kept), "--reports", str(reports), "--zoo", str(case.folder.parent),
    ]  # fmt: skip


def pack(case: Case, version: Version, raw: Path, *, kept: Kept, reports: Path) -> Checked:
    """Keep the recording in *raw*, trimmed, and write what is said of it into *reports*."""
    from judged import for_later, judged
    from replayed import replay, said
    from trimming import lost

    from perfzero.store.reader import open_recording
    from perfzero.store.trim import trim

    known = kept.checked(case, version)
    whole = replay(raw)
    reports.mkdir(parents=True, exist_ok=True)
    (reports / "whole.json").write_text(json.dumps(whole.report))
    with kept.room_for(case, version) as folder:
        for size in SIZES[version]:
            trim(open_recording(raw), to=folder, max_bytes=size, redact=True, force=True)
            trimmed = replay(folder)
            problems = lost(case, version, whole, trimmed)
            if not problems:
                break
        (folder / "command.txt").write_text(f"{case.typed(fixed=version == 'fixed')}\n")
        verdicts = {"whole": said(whole.gpu), "trimmed": said(trimmed.gpu)}
        # Rules that know an earlier recording of the same program are not judged by this one.
        first = known.at_first if known is not None else None
        if first is None and version == "base":
            first = for_later(judged(case, trimmed))
        checked = check_in(folder, case, version, **verdicts, problems=problems, at_first=first)
    (reports / "replayed.json").write_text(json.dumps(asdict(trimmed)))
    return checked


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("case")
    p.add_argument("version", choices=VERSIONS)
    p.add_argument("raw", type=Path)
    p.add_argument("--kept", type=Path, required=True)
    p.add_argument("--reports", type=Path, required=True)
    p.add_argument("--zoo", type=Path, required=True)
    args = p.parse_args(argv)
    [case] = choose([args.case], zoo=args.zoo)
    checked = pack(case, args.version, args.raw, kept=Kept(args.kept), reports=args.reports)
    print("; ".join(checked.problems))
    return 0


if __name__ == "__main__":
    sys.exit(main())
