"""Which function is the user's own."""

from __future__ import annotations

import pytest

from perfzero.attribute.source_lines import is_users
from perfzero.traces import Function


@pytest.mark.parametrize(
    "file",
    [
        "train.py",
        "model/layers.py",
        "code/train.py",
        "/home/someone/project/train.py",
        "notebook_cell",
        "src/torch_helpers.py",
        "torchlike/net.py",
    ],
)
def test_a_file_of_the_program_is_the_users(file: str) -> None:
    assert is_users(Function(file, 1, "forward"))


@pytest.mark.parametrize(
    "file",
    [
        "torch/nn/modules/conv.py",
        "torchvision/models/resnet.py",
        "/usr/lib/python3/dist-packages/something/net.py",
        "/venv/lib/python3.11/site-packages/something/net.py",
        "site-packages/something/net.py",
        "/usr/lib/python3.11/contextlib.py",
        "contextlib.py",
        "threading.py",
        "concurrent/futures/thread.py",
        "<frozen runpy>",
        "<string>",
        "/tmp/torchinductor_someone/ab/cab.py",
        "_perfzero_agent.py",
        "_perfzero_torch.py",
        "_perfzero_cupti.py",
        "/opt/perfzero/record/agent/_perfzero_agent.py",
        "sitecustomize.py",
    ],
)
def test_a_library_generated_code_and_perfzero_are_not(file: str) -> None:
    assert not is_users(Function(file, 1, "forward"))
