"""English: the language of the code, of files and of tests."""

from __future__ import annotations

from collections.abc import Mapping

from perfzero.words.en.agents import AGENTS
from perfzero.words.en.commands import COMMANDS
from perfzero.words.en.compare import COMPARE
from perfzero.words.en.files import FILES
from perfzero.words.en.joints import JOINTS
from perfzero.words.en.metrics import METRICS
from perfzero.words.en.page import PAGE
from perfzero.words.en.plots import PLOTS
from perfzero.words.en.recorder import RECORDER
from perfzero.words.en.remedies import REMEDIES
from perfzero.words.en.reports import REPORTS
from perfzero.words.en.signals import SIGNALS
from perfzero.words.en.sources import SOURCES
from perfzero.words.en.top import TOP
from perfzero.words.en.verdicts import VERDICTS

CATALOGUE: Mapping[str, str] = {
    **JOINTS,
    **PAGE,
    **COMMANDS,
    **SOURCES,
    **AGENTS,
    **RECORDER,
    **FILES,
    **SIGNALS,
    **REPORTS,
    **VERDICTS,
    **REMEDIES,
    **COMPARE,
    **TOP,
    **PLOTS,
    **METRICS,
}
