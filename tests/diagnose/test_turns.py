"""How much of the time a host is at work whose threads take turns."""

from __future__ import annotations

import math

import pytest

from perfzero.diagnose.evidence import Evidence, collect
from perfzero.diagnose.turns import at_work, cores_beside_workers, rests
from perfzero.sources.synthetic import Phase, observe


def seen(**host: float) -> Evidence:
    return collect(observe([Phase(4e-6, {"gr_active": 1.0}), Phase(22e-6)], host=host))


def test_two_threads_that_take_turns_are_one_host_that_never_rests():
    """Forward pass and update in the main thread, the backward pass in one of autograd's own."""
    e = seen(host_main_cpu=0.54, host_tree_cpu=0.99)

    assert at_work(e) == pytest.approx(0.99)
    assert not rests(e)


def test_threads_that_work_at_once_do_not_say_that_the_one_which_launches_does():
    e = seen(host_main_cpu=0.3, host_tree_cpu=5.4)

    assert at_work(e) == pytest.approx(0.3)
    assert rests(e)


@pytest.mark.parametrize(("main", "rested"), [(0.12, True), (0.28, True), (0.32, False)])
def test_a_main_thread_that_is_hardly_at_work_takes_turns_with_nobody(main, rested):
    """Eight threads of a tenth of a core each make one core beside it, and launch nothing."""
    e = seen(host_main_cpu=main, host_tree_cpu=0.96)

    assert at_work(e) == pytest.approx(main if rested else 0.96)
    assert rests(e) is rested


def test_a_host_whose_threads_all_sleep_rests():
    assert rests(seen(host_main_cpu=0.3, host_tree_cpu=0.5))


def test_loader_processes_are_none_of_the_threads_that_launch():
    e = seen(host_main_cpu=0.35, host_tree_cpu=4.0, host_workers=4.0, host_worker_cpu=0.9)

    assert cores_beside_workers(e) == pytest.approx(0.4)
    assert at_work(e) == pytest.approx(0.4)


def test_of_a_host_that_nobody_saw_nothing_is_said():
    e = seen(host_main_cpu=math.nan, host_tree_cpu=math.nan)

    assert math.isnan(at_work(e))
    assert not rests(e)
