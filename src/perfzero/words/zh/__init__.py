"""Chinese (simplified). Terms are those that NVIDIA's and PyTorch's Chinese pages use."""

from __future__ import annotations

from collections.abc import Mapping

from perfzero.words.zh.agents import AGENTS
from perfzero.words.zh.commands import COMMANDS
from perfzero.words.zh.compare import COMPARE
from perfzero.words.zh.files import FILES
from perfzero.words.zh.joints import JOINTS
from perfzero.words.zh.metrics import METRICS
from perfzero.words.zh.page import PAGE
from perfzero.words.zh.plots import PLOTS
from perfzero.words.zh.recorder import RECORDER
from perfzero.words.zh.remedies import REMEDIES
from perfzero.words.zh.reports import REPORTS
from perfzero.words.zh.signals import SIGNALS
from perfzero.words.zh.sources import SOURCES
from perfzero.words.zh.top import TOP
from perfzero.words.zh.verdicts import VERDICTS

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
