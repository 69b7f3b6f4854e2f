"""Say what can be read on this machine, why not more, and the line that unlocks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from perfzero import __version__
from perfzero.cli.formats import Format
from perfzero.cli.language import Language, lang_option, spoken
from perfzero.text import printable, width
from perfzero.words.said import enumeration, first_line, joined, listed, say
from perfzero.words.told import told

if TYPE_CHECKING:  # imported by the functions that use them: other commands do without, and without NumPy
    from rich.console import Console

    from perfzero.doctor.examine import Facts, GpuFacts

TIERS = {
    "pm": (say("doctor.everything"), "green", say("doctor.pm")),
    "gpm": (say("doctor.averages"), "yellow", say("doctor.gpm")),
    "nvml": (say("doctor.little"), "red", say("doctor.nvml")),
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
    language: Annotated[Language | None, lang_option()] = None,
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
        render(facts, Console(highlight=False), language=spoken(language))


def to_json(facts: Facts) -> dict[str, object]:
    """The facts as a JSON document; what is not known is null."""
    from perfzero.doctor.examine import permitted
    from perfzero.values import jsonable

    return {
        "perfzero": __version__,
        **{str(k): v for k, v in jsonable(asdict(facts)).items()},
        "permitted": permitted(facts),
    }


def render(facts: Facts, console: Console, *, language: str = "en") -> None:
    """Print the facts for people: what each GPU gets first, then the machine, then what unlocks more."""

    def tell(sentence: str) -> str:
        return printable(told(sentence, language))

    from rich.table import Table
    from rich.text import Text

    if facts.no_gpu is not None:
        console.print(Text(tell(say("doctor.no_gpu", why=facts.no_gpu)), style="bold"))
    for gpu in facts.gpus:
        _render_gpu(gpu, console, tell)
    console.print()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _machine_rows(facts):
        table.add_row(tell(name), Text(tell(value)))
    console.print(table)
    for unlock in facts.unlocks:
        console.print()
        console.print(Text(tell(say("doctor.more", gain=unlock.gain)), style="bold"))
        if unlock.command:  # never wrapped: it is there to be copied
            console.print(Text("  " + unlock.command), soft_wrap=True)
        if unlock.note:
            console.print(Text("  " + tell(unlock.note), style="dim"))


def _render_gpu(facts: GpuFacts, console: Console, tell: Callable[[str], str]) -> None:
    from rich.text import Text

    gpu = facts.gpu
    word, colour, meaning = TIERS[facts.tier]
    console.print(Text(f"GPU {gpu.index}  {printable(gpu.name)}", style="bold"), Text(gpu.uuid, style="dim"))
    labels = [tell(say("doctor.readable")), tell(say("doctor.because"))]
    beside = max(map(width, labels)) + 2
    readable, because = (f"  {label}{' ' * (beside - width(label))}" for label in labels)
    console.print(Text.assemble(readable, (tell(word), colour), f" – {tell(meaning)}"))
    console.print(Text(because + tell(facts.reason)))
    details = [
        facts.pm.chip or gpu.chip,
        None if gpu.sm_count is None else f"{gpu.sm_count} SMs",
        None
        if gpu.compute_capability is None
        else say("doctor.capability", major=gpu.compute_capability[0], minor=gpu.compute_capability[1]),
        say("doctor.mig") if gpu.mig else None,
        None if facts.virtualization in (None, "none") else say("doctor.virtual", how=facts.virtualization),
        "NVML GPM" if facts.gpm else say("doctor.no_gpm"),
    ]
    console.print(Text("  " + tell(listed(d for d in details if d))))
    if facts.pm.library is not None:
        console.print(
            Text(f"  libcupti {facts.pm.library_version} {printable(facts.pm.library)}"), soft_wrap=True
        )
    if facts.pm.status not in ("ok", "not tried") and facts.pm.text:
        console.print(Text("  " + tell(first_line(facts.pm.text)), style="dim"))
    if facts.processes is None:
        console.print(Text("  " + tell(say("doctor.programs_hidden"))))
    elif facts.processes:
        pids = ", ".join(map(str, facts.processes))
        console.print(Text("  " + tell(say("doctor.programs", pids=pids))))


def _machine_rows(facts: Facts) -> list[tuple[str, str]]:
    libraries: list[str] = [
        say("doctor.library", path=found.path, origin=found.origin) for found in facts.libraries
    ] or [say("doctor.none_found")]
    holders = [say("doctor.holder", tool=h.tool, name=h.name, pid=h.pid) for h in facts.holders] or [
        say("doctor.nobody")
    ]
    rows = [
        (say("doctor.driver"), facts.driver or say("answer.unknown")),
        (say("doctor.cuda"), facts.cuda_driver or say("answer.unknown")),
        *(("libcupti", library) for library in libraries),
        (say("doctor.counters_for"), _who_may(facts)),
        (say("doctor.this_user"), _who(facts)),
        *((say("doctor.may_hold"), holder) for holder in holders),
    ]
    around = [
        say("doctor.container", which=facts.container) if facts.container else "",
        "gVisor" if facts.gvisor else "",
        "WSL" if facts.wsl else "",
        say("doctor.mps") if facts.mps else "",
    ]
    if any(around):
        rows.append((say("doctor.around"), enumeration([a for a in around if a])))
    return rows


def _who_may(facts: Facts) -> str:
    from perfzero.doctor.examine import permitted

    if facts.admin_only is None:
        return say("doctor.unknown_who")
    if not facts.admin_only:
        return say("doctor.everybody")
    may = say("doctor.is_one") if permitted(facts) else say("doctor.is_none")
    return say("doctor.admins", may=may)


def _who(facts: Facts) -> str:
    who = "root" if facts.root else say("doctor.sudo") if facts.sudo else say("doctor.no_root")
    rights = enumeration(list(facts.capabilities)) if facts.capabilities else say("doctor.no_capability")
    return joined("join.semicolons", (who, rights))
