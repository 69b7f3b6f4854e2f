"""English: the language of the code, of files and of tests."""

from __future__ import annotations

from collections.abc import Mapping

from perfzero.words.en.compare import COMPARE
from perfzero.words.en.joints import JOINTS
from perfzero.words.en.reports import REPORTS

CATALOGUE: Mapping[str, str] = {**JOINTS, **REPORTS, **COMPARE}
