"""Say what can be read on this machine, why not more, and the line that unlocks it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from perfzero import __version__
from perfzero.cli.formats import Format
from perfzero.text import printable
from perfzero.words.said import enumeration

if TYPE_CHECKING:  # imported by the functions that use them: other commands do without, and without NumPy
    from rich.console import Console

    from perfzero.doctor.examine import Facts, GpuFacts

TIERS = {
    "pm": ("everything", "green", "hardware counters sampled inside the GPU, down to microseconds"),
    "gpm": ("averages", "yellow", "hardware counters averaged over 0.1 s and more"),
    "nvml": ("little", "red", "the state of the board only"),
}


def register(app: typer.Typer) -> None:
    """Add `perfzero doctor` to *app*."""
    app.command("doctor")(doctor)


def doctor(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only look; do not try hardware sampling for a moment.")
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="Text for people or JSON.")] = Format.TEXT,
) -> None:
    """
    Say what can be read on this machine, and the exact line that unlocks more.

    Opens and closes hardware sampling once per GPU, which costs a program there some ten
    milliseconds. The exit code is 0 whatever is found.
    """
    from rich.console import Console

    from perfzero.doctor.examine import examine
    from perfzero.doctor.machine import Machine

    facts = examine(Machine(), quick=quick)
    if output is Format.JSON:
        print(json.dumps(to_json(facts), indent=2))
    else:
        render(facts, Console(highlight=False))


def to_json(facts: Facts) -> dict[str, object]:
    """The facts as a JSON document; what is not known is null."""
    from perfzero.doctor.examine import permitted
    from perfzero.values import jsonable

    return {
        "perfzero": __version__,
        **{str(k): v for k, v in jsonable(asdict(facts)).items()},
        "permitted": permitted(facts),
    }


def render(facts: Facts, console: Console) -> None:
    """Print the facts for people: what each GPU gets first, then the machine, then what unlocks more."""
    from rich.table import Table
    from rich.text import Text

    if facts.no_gpu is not None:
        console.print(Text(f"No NVIDIA GPU can be read here: {printable(facts.no_gpu)}", style="bold"))
    for gpu in facts.gpus:
        _render_gpu(gpu, console)
    console.print()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _machine_rows(facts):
        table.add_row(name, Text(printable(value)))
    console.print(table)
    for unlock in facts.unlocks:
        console.print()
        console.print(Text("More: " + printable(unlock.gain), style="bold"))
        if unlock.command:  # never wrapped: it is there to be copied
            console.print(Text("  " + unlock.command), soft_wrap=True)
        if unlock.note:
            console.print(Text("  " + printable(unlock.note), style="dim"))


def _render_gpu(facts: GpuFacts, console: Console) -> None:
    from rich.text import Text

    gpu = facts.gpu
    word, colour, meaning = TIERS[facts.tier]
    console.print(Text(f"GPU {gpu.index}  {printable(gpu.name)}", style="bold"), Text(gpu.uuid, style="dim"))
    console.print(Text.assemble("  can be read:  ", (word, colour), f" – {meaning}"))
    console.print(Text(f"  because:      {printable(facts.reason)}"))
    details = [
        facts.pm.chip or gpu.chip,
        None if gpu.sm_count is None else f"{gpu.sm_count} SMs",
        None
        if gpu.compute_capability is None
        else f"compute capability {gpu.compute_capability[0]}.{gpu.compute_capability[1]}",
        "divided by MIG" if gpu.mig else None,
        None if facts.virtualization in (None, "none") else f"virtualised: {facts.virtualization}",
        "NVML GPM" if facts.gpm else "no NVML GPM",
    ]
    console.print(Text("  " + ", ".join(d for d in details if d)))
    if facts.pm.library is not None:
        console.print(
            Text(f"  libcupti {facts.pm.library_version} {printable(facts.pm.library)}"), soft_wrap=True
        )
    if facts.pm.status not in ("ok", "not tried") and facts.pm.text:
        console.print(Text("  " + printable(facts.pm.text.splitlines()[0]), style="dim"))
    if facts.processes is None:
        console.print(Text("  programs on it: the driver does not tell"))
    elif facts.processes:
        console.print(Text(f"  programs on it: {', '.join(map(str, facts.processes))}"))


def _machine_rows(facts: Facts) -> list[tuple[str, str]]:
    libraries = [f"{found.path} ({found.origin})" for found in facts.libraries] or ["none found"]
    holders = [f"{h.tool} ({h.name}, process {h.pid})" for h in facts.holders] or ["nobody seen"]
    rows = [
        ("driver", facts.driver or "unknown"),
        ("CUDA of the driver", facts.cuda_driver or "unknown"),
        *(("libcupti", library) for library in libraries),
        ("counters are for", _who_may(facts)),
        ("this user is", _who(facts)),
        *(("may hold the counters", holder) for holder in holders),
    ]
    around = [
        f"a container ({facts.container})" if facts.container else "",
        "gVisor" if facts.gvisor else "",
        "WSL" if facts.wsl else "",
        "MPS: programs share the GPU, and device-wide counters cannot tell them apart" if facts.mps else "",
    ]
    if any(around):
        rows.append(("around it", enumeration([a for a in around if a])))
    return rows


def _who_may(facts: Facts) -> str:
    from perfzero.doctor.examine import permitted

    if facts.admin_only is None:
        return "unknown: the driver shows no RmProfilingAdminOnly here"
    if not facts.admin_only:
        return "everybody (RmProfilingAdminOnly 0)"
    may = "this user is one" if permitted(facts) else "this user is none"
    return f"administrators (RmProfilingAdminOnly 1); {may}"


def _who(facts: Facts) -> str:
    who = "root" if facts.root else "no root, but sudo works without a password" if facts.sudo else "no root"
    return f"{who}; {enumeration(list(facts.capabilities)) if facts.capabilities else 'no CAP_SYS_ADMIN'}"
