"""What sampler and judge get of our environment, and what not."""

from __future__ import annotations

import pytest

from perfzero.record.children import plain_environment


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD"]
)
def test_what_hides_the_device_or_loads_code_is_not_for_our_processes(name, monkeypatch):
    monkeypatch.setenv(name, "anything")
    assert name not in plain_environment()


def test_they_have_the_rest_and_no_thread_per_core(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/cuda/lib64")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "64")
    environment = plain_environment()
    assert environment["LD_LIBRARY_PATH"] == "/opt/cuda/lib64"
    assert {environment[f"{n}_NUM_THREADS"] for n in ("OPENBLAS", "OMP", "MKL")} == {"1"}
