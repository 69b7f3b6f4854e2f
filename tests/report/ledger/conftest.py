"""Iterations from real recordings, judged once for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfzero.report.ledger.build import build
from perfzero.report.ledger.measure import Iteration, iteration
from perfzero.report.ledger.model import Ledger

RECORDINGS = Path(__file__).parents[2] / "recordings"


@pytest.fixture(scope="session")
def before() -> Iteration:
    return iteration("resnet50_nchw", [RECORDINGS / "resnet50_nchw"])


@pytest.fixture(scope="session")
def after() -> Iteration:
    return iteration("resnet50_channels_last", [RECORDINGS / "resnet50_channels_last"])


@pytest.fixture(scope="session")
def ledger(before: Iteration, after: Iteration) -> Ledger:
    return build([before, after])
