"""Chinese (simplified). Terms are those that NVIDIA's and PyTorch's Chinese pages use."""

from __future__ import annotations

from collections.abc import Mapping

from perfzero.words.zh.compare import COMPARE
from perfzero.words.zh.joints import JOINTS
from perfzero.words.zh.reports import REPORTS

CATALOGUE: Mapping[str, str] = {**JOINTS, **REPORTS, **COMPARE}
