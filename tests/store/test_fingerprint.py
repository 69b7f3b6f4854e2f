"""Unlike recordings are told apart by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfzero.store.fingerprint import Fingerprint, counters_hash, differences, fingerprint, host_facts
from perfzero.values import Gpu, Observation, Samples, Window

GPU = Gpu(0, "GPU-1", "NVIDIA H200", chip="GH100", sm_count=132, driver="580.159", power_limit_w=700.0)


def observed(
    gpu: Gpu = GPU, names: tuple[str, ...] = ("gr_active",), period_ns: int = 1_000_000
) -> Observation:
    nothing = Samples.empty()
    windows = (
        Window(0, "regular", 0, 10**9, period_ns, 1_000, 0),
        Window(0, "zoom", 10**9, 9 * 10**9, 10_000, 1_000, 0),
    )
    return Observation(gpu, "pm", Samples.empty(names), nothing, nothing, nothing, nothing, windows)


BASE = fingerprint(observed(), host={"cpu_count": 16})


def test_two_recordings_of_one_machine_are_alike() -> None:
    again = fingerprint(observed(replace(GPU, index=3, uuid="GPU-2")), host={"cpu_count": 16})
    assert differences(BASE, again) == []


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (observed(replace(GPU, driver="570.86")), "driver: 580.159 against 570.86"),
        (observed(replace(GPU, power_limit_w=500.0)), "power limit: 700 W against 500 W"),
        (observed(replace(GPU, sm_count=None)), "sm count: 132 against unknown"),
        (observed(replace(GPU, mig=True)), "mig: no against yes"),
        (observed(period_ns=200_000), "period: 1000 µs against 200 µs"),
    ],
)
def test_each_difference_is_named_with_both_values(other: Observation, difference: str) -> None:
    assert [difference] == differences(BASE, fingerprint(other, host={"cpu_count": 16}))


def test_other_counters_are_a_difference() -> None:
    (difference,) = differences(
        BASE, fingerprint(observed(names=("gr_active", "l2_hit")), host={"cpu_count": 16})
    )
    assert difference.startswith("counters: ")


@given(st.lists(st.text(min_size=1)).flatmap(lambda names: st.tuples(st.just(names), st.permutations(names))))
def test_the_order_of_counters_is_no_difference(names: tuple[list[str], list[str]]) -> None:
    assert counters_hash(names[0]) == counters_hash(names[1])


def test_what_is_unknown_on_both_sides_is_no_difference() -> None:
    unknown = replace(BASE, driver=None, cpu_count=None)
    assert differences(unknown, unknown) == []
    assert isinstance(unknown, Fingerprint)


def test_the_facts_of_the_host_have_a_cpu_count() -> None:
    facts = host_facts()
    assert facts["cpu_count"] >= 1
    assert {"hostname", "kernel", "machine", "python"} <= set(facts)
