"""A look settles what a remedy rests on: the layers are named, or the remedy goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import cast, get_args

import pytest

from perfzero.attribute.breakdown import Breakdown, Call, SourceLine
from perfzero.attribute.host_activity import Activity
from perfzero.attribute.parts import Condition, Part, Topic
from perfzero.attribute.stacks import Cause, HostCauses
from perfzero.attribute.standing import Others
from perfzero.diagnose.remedies import OFFERS, SEEN_ONLY, always
from perfzero.diagnose.thresholds import IDLE_LINES
from perfzero.diagnose.verdict import (
    TIME_CLASSES,
    Diagnosis,
    Fact,
    Gain,
    Remedy,
    StepAnswer,
    TimeClass,
)
from perfzero.diagnose.wording import ALLOW_TF32, ALLOW_TF32_IN_BOTH, ALLOW_TF32_IN_CONVOLUTIONS
from perfzero.report import inside as module
from perfzero.report.inside import frameworks, in_words, seen_inside, told_inside
from perfzero.report.leading import MADE_FOR, with_next_limits
from perfzero.report.line_advice import ADVICE
from perfzero.report.line_gains import PACE
from perfzero.report.line_remedies import ANSWERS, with_lines
from perfzero.report.model import Report
from perfzero.report.seen_cause import REMEDY
from perfzero.report.settled import (
    BEYOND,
    KERNEL,
    MOSTLY,
    NAMED,
    NOTHING_TO_DO,
    SETTLED,
    SUPPORTED,
    SUPPOSING,
    WITHOUT_COMPILER,
    settled,
)
from perfzero.report.terminal import words
from perfzero.stacks import Frame
from perfzero.traces import Tensor
from perfzero.values import Look
from perfzero.words.catalogue import catalogue
from perfzero.words.said import say

IMAGE = Call("aten::cudnn_convolution", (Tensor((256, 3, 224, 224), dtype="c10::BFloat16"),), 0, "NCHW")
CHANNELS_LAST = Remedy(
    "Use channels-last.",
    ("it is a convolutional network under autocast", "memory allows"),
    topic="channels_last",
)


def layer(name: str) -> Part:
    return Part(name, 0.1, IMAGE, SourceLine("/home/me/train.py", 41))


def with_remedies(diagnosis: Diagnosis, *remedies: Remedy) -> Diagnosis:
    assert diagnosis.verdict is not None
    verdict = replace(diagnosis.verdict, remedies=remedies)
    others = [f for f in diagnosis.findings if f is not diagnosis.verdict]
    return replace(diagnosis, verdict=verdict, findings=(verdict, *others))


def remedies(diagnosis: Diagnosis) -> tuple[Remedy, ...]:
    assert diagnosis.verdict is not None
    assert diagnosis.verdict is diagnosis.findings[0]
    return diagnosis.verdict.remedies


def test_a_condition_that_holds_is_said_with_its_layers_and_supposed_no_more(
    starved: Diagnosis,
) -> None:
    seen = Condition("channels_last", True, 0.315, (layer("conv1"), layer("layer1.*.conv2")), 0.13)
    [told] = remedies(settled(with_remedies(starved, CHANNELS_LAST), {"channels_last": seen}))

    assert told.needs == ("memory allows",)
    assert told.seen == (
        "NCHW in conv1 [256,3,224,224] NCHW bf16, layer1.*.conv2 [256,3,224,224] NCHW bf16 (train.py:41): "
        "32 % of the busy time, and transposes take 13 %."
    )


@pytest.mark.parametrize(
    ("launches", "also", "gain"),
    [
        (1_000.0, {}, (1 / 0.145, 1 / 0.109)),
        (13_000.0, {}, (3.0, 71 / 13)),  # eager PyTorch launches 39,000 to 71,000 a second at most
        (13_000.0, {"graph": Condition("graph", False, 0.0)}, (1 / 0.145, 1 / 0.109)),
        (90_000.0, {}, (0.6 / 0.1512, 1 / 0.1512)),  # so many come from a graph, one each 1.68 us
    ],
)
def test_kernels_that_become_shorter_and_no_fewer_leave_the_host_to_launch_them(
    starved: Diagnosis, launches: float, also: dict[Topic, Condition], gain: tuple[float, float]
) -> None:
    known = {"gr_active": 1.0, "launches_per_s": launches}
    facts = {name: Fact(name, value, "", "info") for name, value in known.items()}
    seen: dict[Topic, Condition] = {"pairwise": Condition("pairwise", True, 0.9, left=(0.01, 0.05))}
    pairwise = Remedy("Subtract.", topic="pairwise")
    before = replace(with_remedies(starved, pairwise), facts=facts)
    verdict = settled(before, {**seen, **also}).verdict

    assert verdict is not None
    assert verdict.gain is not None
    assert (verdict.gain.low, verdict.gain.high) == pytest.approx(gain)


@pytest.mark.parametrize(
    ("launches", "topic", "limit"),
    [
        (1_000.0, "pairwise", "latency inside the kernels"),
        (20_000.0, "pairwise", "the host"),  # 0.15 of the time is left to the GPU, and 0.38 to the host
        (20_000.0, "tf32", "the host"),
        (1_000.0, "tf32", "the tensor cores"),
        (20_000.0, "slow_convolutions", "latency inside the kernels"),  # others need not be as many
    ],
)
def test_where_the_host_then_takes_longer_to_launch_than_the_gpu_works_it_is_the_next_limit(
    starved: Diagnosis, launches: float, topic: Topic, limit: str
) -> None:
    known = {"gr_active": 0.98, "launches_per_s": launches}
    facts = {name: Fact(name, value, "", "info") for name, value in known.items()}
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"latency": 0.95, "memory": 0.03, "idle": 0.02}
    rest = Others(tensor=0.08, memory=0.01, latency=0.01)
    seen = Condition(topic, True, 0.9, left=(0.03, 0.05), others=rest if topic == "tf32" else None)
    needs = (SETTLED[topic],) if topic in SETTLED else ()
    before = with_remedies(starved, Remedy("Compute it another way.", needs, topic=topic))
    assert before.verdict is not None
    verdict = replace(before.verdict, eased=("latency",), gain=None)
    before = replace(before, verdict=verdict, findings=(verdict, *before.findings[1:]))
    after = settled(replace(before, facts=facts, shares=shares), {topic: seen}).verdict

    assert after is not None
    assert after.next_limit == limit


def test_a_remedy_whose_condition_does_not_hold_is_left_out(starved: Diagnosis) -> None:
    other = Remedy("Fuse what runs between.")
    before = with_remedies(starved, CHANNELS_LAST, other)

    assert remedies(settled(before, {"channels_last": Condition("channels_last", False, 0.0)})) == (other,)


def test_without_a_look_and_of_other_topics_nothing_changes(starved: Diagnosis) -> None:
    before = with_remedies(starved, CHANNELS_LAST)

    assert settled(before, {}) is before
    assert settled(before, {"float64": Condition("float64", False, 0.0)}) == before


def test_what_a_look_cannot_settle_stays_with_its_condition(starved: Diagnosis) -> None:
    """Whether double precision is needed says nobody but its owner."""
    remedy = Remedy("Make it float32.", ("double precision is not needed",), topic="float64")
    before = with_remedies(starved, remedy)
    [unseen] = remedies(settled(before, {"float64": Condition("float64", False, 0.0)}))
    [seen] = remedies(settled(before, {"float64": Condition("float64", True, 0.5, (layer("aten::mm"),))}))

    assert unseen == remedy
    assert seen.needs == remedy.needs
    assert seen.seen.startswith("In float64: aten::mm")


@pytest.mark.parametrize(("holds", "offered"), [(True, True), (False, False)])
def test_doubles_that_a_look_sees_are_to_be_float32_where_memory_is_the_limit(
    starved: Diagnosis, holds: bool, offered: bool
) -> None:
    """All bytes are halved, so what limits them limits what is left of them."""
    assert starved.verdict is not None
    bound = replace(starved.verdict, rule="memory_bound", eased=("memory",), remedies=(), gain=None)
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"memory": 0.7, "latency": 0.3}
    before = replace(starved, verdict=bound, findings=(bound,), headline=bound.title, shares=shares)
    rows = (layer("aten::add"),) if holds else ()
    seen = Condition("float64", holds, 0.9 if holds else 0.0, rows, left=(0.5, 0.65) if holds else None)
    after = settled(before, {"float64": seen}).verdict

    assert after is not None
    assert [r.text for r in after.remedies] == [say("try.find_float64")] * offered
    assert (after.gain is not None) == offered
    assert after.next_limit == (say("limit.memory") if offered else bound.next_limit)


def test_of_many_layers_the_first_are_named_and_the_others_counted(starved: Diagnosis) -> None:
    rows = tuple(layer(f"conv{i}") for i in range(NAMED + 4))
    seen = Condition("channels_last", True, 0.5, rows)
    [told] = remedies(settled(with_remedies(starved, CHANNELS_LAST), {"channels_last": seen}))

    assert "conv2 [256,3,224,224] NCHW bf16 and 4 more (train.py:41)" in told.seen


ATTENTION = Remedy(
    "Use a fused kernel.", ("attention computes its scores one by one",), topic="fused_attention"
)
SCORES = Condition("fused_attention", True, 0.6, (layer("blocks.*.attention"),), left=(1 / 20, 1 / 2))
LAYERS = Condition("channels_last", True, 0.1, (layer("conv1"),))


def active(diagnosis: Diagnosis, busy: float) -> Diagnosis:
    fact = replace(diagnosis.facts["gr_active"], value=busy)
    return replace(diagnosis, facts={**diagnosis.facts, "gr_active": fact})


def test_what_is_seen_comes_before_what_is_supposed_and_brings_its_own_gain(starved: Diagnosis) -> None:
    """The gain of the finding was that of its first remedy, and stays with that."""
    assert starved.verdict is not None
    before = with_remedies(active(starved, 0.5), Remedy("Fuse."), CHANNELS_LAST, ATTENTION)
    after = settled(before, {"channels_last": LAYERS, "fused_attention": SCORES}).verdict

    assert after is not None
    assert [r.text for r in after.remedies] == ["Use a fused kernel.", "Use channels-last.", "Fuse."]
    assert after.gain is not None
    # Half of 0.6 of half the time at least, 19 twentieths of it at most.
    assert (after.gain.low, after.gain.high) == pytest.approx((1 / 0.85, 1 / 0.715))
    assert [r.gain for r in after.remedies] == [None, None, starved.verdict.gain]
    assert after.next_limit is None


ALIGN = Remedy("Pad.", (SETTLED["alignment"],), topic="alignment")


def test_aligning_gains_what_it_leaves_and_hands_on_to_the_tensor_cores(starved: Diagnosis) -> None:
    """Of 0.7 of the time a tenth to a fifth is left: 2.3 to 2.7 times as fast, and with less 1.1."""
    seen, little = (
        {"alignment": Condition("alignment", True, 0.7, (layer("head"),), left=left)}
        for left in ((0.1, 0.2), (0.8, 0.9))
    )
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"latency": 0.8, "memory": 0.15, "tensor": 0.05}
    before = with_remedies(replace(active(starved, 1.0), shares=shares), Remedy("Fuse."), ALIGN)
    assert before.verdict is not None
    verdict = replace(before.verdict, eased=("latency",))
    before = replace(before, verdict=verdict, findings=(verdict, *before.findings[1:]))
    after, then = (settled(before, cast(dict[Topic, Condition], one)).verdict for one in (seen, little))

    assert after is not None
    assert after.gain is not None
    assert (after.gain.low, after.gain.high) == pytest.approx((1 / (1 - 0.56), 1 / (1 - 0.63)))
    assert after.gain.assumption == say("aligned_gain")
    assert after.next_limit == "the tensor cores"
    assert then is not None
    assert then.gain is not None
    assert then.gain.high < 1.2


def test_after_another_gain_what_is_left_of_the_findings_time_keeps_its_limit(starved: Diagnosis) -> None:
    """Attention in steps takes 0.6 of the time, of which a twentieth to a half is left: 0.41 is saved."""
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"memory": 0.6, "tensor": 0.35, "idle": 0.05}
    before = with_remedies(replace(active(starved, 1.0), shares=shares), Remedy("Fuse."), ATTENTION)
    assert before.verdict is not None
    verdict = replace(before.verdict, eased=("memory",))
    before = replace(before, verdict=verdict, findings=(verdict, *before.findings[1:]))
    after = settled(before, {"fused_attention": SCORES}).verdict

    assert after is not None
    assert after.next_limit == "the tensor cores"


@pytest.mark.parametrize(
    ("rest", "limit"),
    [
        (Others(tensor=0.2, memory=0.1, latency=0.1), "the tensor cores"),
        (Others(tensor=0.0, memory=0.05, latency=0.35), "latency inside the kernels"),
    ],
)
def test_where_a_look_shows_what_is_left_that_is_the_next_limit(
    starved: Diagnosis, rest: Others, limit: str
) -> None:
    """Attention in steps was limited by memory and by latency; what a fused kernel leaves of it computes."""
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"memory": 0.5, "latency": 0.45, "tensor": 0.05}
    before = with_remedies(replace(active(starved, 1.0), shares=shares), Remedy("Fuse."), ATTENTION)
    assert before.verdict is not None
    verdict = replace(before.verdict, eased=("memory",))
    before = replace(before, verdict=verdict, findings=(verdict, *before.findings[1:]))
    after = settled(before, {"fused_attention": replace(SCORES, others=rest)}).verdict

    assert after is not None
    assert after.next_limit == limit


@pytest.mark.parametrize("busy", [float("nan"), 2.0])
def test_of_a_share_of_all_time_that_is_not_known_no_gain_is_told(starved: Diagnosis, busy: float) -> None:
    after = settled(with_remedies(active(starved, busy), ATTENTION), {"fused_attention": SCORES}).verdict

    assert after is not None
    assert after.remedies[0].seen
    assert after.gain is None


def test_a_remedy_that_comes_first_by_what_is_seen_takes_over_no_gain(starved: Diagnosis) -> None:
    assert starved.verdict is not None
    after = settled(with_remedies(starved, Remedy("Fuse."), CHANNELS_LAST), {"channels_last": LAYERS})

    assert after.verdict is not None
    assert [r.text for r in after.verdict.remedies] == ["Use channels-last.", "Fuse."]
    assert (after.verdict.gain, after.verdict.next_limit) == (None, None)
    assert [r.gain for r in after.verdict.remedies] == [None, starved.verdict.gain]


def test_the_gain_of_a_remedy_that_goes_goes_with_it(starved: Diagnosis) -> None:
    no = Condition("channels_last", False, 0.0)
    after = settled(with_remedies(starved, CHANNELS_LAST, Remedy("Fuse.")), {"channels_last": no}).verdict

    assert after is not None
    assert (after.gain, after.next_limit) == (None, None)
    assert after.remedies == (Remedy("Fuse."),)


@pytest.mark.parametrize("holds", [True, False])
def test_what_a_graph_gains_is_no_gain_of_an_optimizer(starved: Diagnosis, holds: bool) -> None:
    assert starved.verdict is not None
    need = SETTLED["fused_optimizer"]
    optimizer = Remedy(say("try.fused_optimizer_step"), (need,), topic="fused_optimizer")
    graph = Remedy(say("try.graph"))
    seen = Condition("fused_optimizer", holds, 0.2 * holds)
    after = settled(of_rule("launch_bound", starved, optimizer, graph), {"fused_optimizer": seen}).verdict
    gain = starved.verdict.gain

    assert after is not None
    assert [r.text for r in after.remedies] == ([optimizer.text] if holds else []) + [graph.text]
    assert after.gain == (None if holds else gain)
    assert after.remedies[-1].gain == (gain if holds else None)
    assert after.next_limit == (None if holds else starved.verdict.next_limit)


def of_idle_time(diagnosis: Diagnosis, share: float, **shares: float) -> Diagnosis:
    """Launch-bound for *share* of the time, which is split as *shares*; an optimizer leads a graph."""
    assert diagnosis.verdict is not None
    whole = dict.fromkeys(TIME_CLASSES, 0.0) | cast(dict[TimeClass, float], shares)
    before = with_remedies(replace(diagnosis, shares=whole), OPTIMIZER, GRAPH)
    assert before.verdict is not None
    verdict = replace(before.verdict, rule="launch_bound", share=share, eased=("idle",))
    return replace(before, verdict=verdict, findings=(verdict, *before.findings[1:]))


def test_without_a_gain_the_next_limit_of_idle_time_is_that_of_the_busy_time(starved: Diagnosis) -> None:
    """Whatever fills the gaps leaves the kernels as small as they are; what nobody fills stays idle."""
    seen: dict[Topic, Condition] = {"fused_optimizer": Condition("fused_optimizer", True, 0.2)}
    all_of_it = of_idle_time(starved, 0.71, idle=0.71, small_grid=0.2, memory=0.09)
    a_part = of_idle_time(starved, 0.2, idle=0.71, small_grid=0.2, memory=0.09)
    of_kernels = replace(all_of_it.findings[0], eased=("latency",))
    busy = replace(all_of_it, verdict=of_kernels, findings=(of_kernels, *all_of_it.findings[1:]))
    after = [settled(diagnosis, seen).verdict for diagnosis in (all_of_it, a_part, busy)]

    assert [None if v is None else v.gain for v in after] == [None, None, None]
    limits = [None if v is None else v.next_limit for v in after]
    assert limits == ["the number of SMs the kernels fill", "the host", None]


def test_without_shares_of_the_time_no_limit_is_told(starved: Diagnosis) -> None:
    seen: dict[Topic, Condition] = {"fused_optimizer": Condition("fused_optimizer", True, 0.2)}
    after = settled(replace(of_idle_time(starved, 0.7), shares={}), seen).verdict

    assert after is not None
    assert after.next_limit is None


@pytest.mark.parametrize(
    ("needs", "low", "first"),
    [((), 1.5, "Copy less."), ((), 1.3, "Use a fused kernel."), (("it fits",), 1.5, "Use a fused kernel.")],
    ids=["more in any case", "maybe less", "supposed"],
)
def test_what_supposes_nothing_and_gains_more_in_any_case_stays_before_what_is_seen(
    starved: Diagnosis, needs: tuple[str, ...], low: float, first: str
) -> None:
    """As of copies that fill the link: their memory is seen to be pinned, but overlapped they gain little."""
    more = Remedy("Copy less.", needs, gain=Gain(low, 5.0, ""))
    after = settled(with_remedies(active(starved, 0.5), more, ATTENTION), {"fused_attention": SCORES})

    assert remedies(after)[0].text == first
    assert after.verdict is not None
    assert after.verdict.gain is not None
    assert after.verdict.gain.high == pytest.approx(5.0 if first == more.text else 1 / 0.715)


def with_limits(starved: Diagnosis, second: Gain | None) -> Diagnosis:
    """Memory takes 0.6 of the time, of which the first remedy leaves a sixth to the tensor cores' 0.35."""
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"memory": 0.6, "tensor": 0.35, "idle": 0.05}
    before = with_remedies(starved, Remedy("Fuse all."), Remedy("Fuse some.", gain=second))
    assert before.verdict is not None
    verdict = replace(
        before.verdict, eased=("memory",), gain=Gain(2.0, 2.0, ""), next_limit="the tensor cores"
    )
    return replace(before, verdict=verdict, findings=(verdict, *before.findings[1:]), shares=shares)


@pytest.mark.parametrize(
    ("second", "limit"),
    [(Gain(1.1, 1.1, ""), "memory bandwidth"), (Gain(1.9, 1.9, ""), None), (None, None)],
    ids=["another", "the same", "not known"],
)
def test_a_remedy_that_gains_less_leaves_another_limit(
    starved: Diagnosis, second: Gain | None, limit: str | None
) -> None:
    after = with_next_limits(with_limits(starved, second), {})

    assert [r.next_limit for r in remedies(after)] == [None, limit]


def test_the_terminal_tells_both_limits(starved: Diagnosis, make_report: Callable[..., Report]) -> None:
    after = with_next_limits(with_limits(starved, Gain(1.1, 1.1, "")), {})
    page = " ".join(words(make_report(after)).split())

    assert "next limit: the tensor cores; of the other remedy memory bandwidth" in page


def test_gains_that_are_made_for_a_later_remedy_find_it() -> None:
    for rule, text in MADE_FOR.items():
        assert any(o.rule == rule and o.remedy.text == text for o in OFFERS)


def test_a_remedy_that_comes_first_by_itself_keeps_the_gain_and_the_next_limit(starved: Diagnosis) -> None:
    assert starved.verdict is not None
    after = settled(with_remedies(starved, CHANNELS_LAST, Remedy("Fuse.")), {"channels_last": LAYERS}).verdict

    assert after is not None
    assert (after.gain, after.next_limit) == (starved.verdict.gain, starved.verdict.next_limit)
    assert [r.gain for r in after.remedies] == [None, None]


YES, NO = "yes.json.gz", "no.json.gz"
UNTOLD = Look(9, 0, 1, reason="it took no step")


def looks(*files: str, gpus: tuple[int, ...] = ()) -> list[Look]:
    return [Look(number, 0, 1, file=file, gpus=gpus) for number, file in enumerate(files)]


def inside(
    monkeypatch: pytest.MonkeyPatch, seen: list[Look], gpus: list[int]
) -> dict[int, dict[Topic, Condition]]:
    """What is told of attention where one look shows it, one denies it, and one is too odd to settle."""
    told = {YES: SCORES, NO: Condition("fused_attention", False, 0.0)}

    def conditions(name: str) -> dict[Topic, Condition]:
        return {"fused_attention": told[name]}

    monkeypatch.setattr(module, "conditions", conditions)
    found, doubts = told_inside({name: cast("Breakdown", name) for name in (*told, "odd.json.gz")})
    assert [doubt[: doubt.index(":")] for doubt in doubts] == ["odd.json.gz"]
    assert "(KeyError)" in doubts[0]
    return seen_inside(found, seen, gpus)


def test_one_process_on_a_gpu_settles_it_with_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inside(monkeypatch, looks(YES), [0]) == {0: {"fused_attention": SCORES}}
    assert inside(monkeypatch, looks(YES, gpus=(1,)), [0, 1]) == {0: {}, 1: {"fused_attention": SCORES}}


def test_of_several_processes_one_that_does_is_enough_and_its_part_of_the_time_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_gain = {"fused_attention": replace(SCORES, left=None)}

    assert inside(monkeypatch, looks(NO, YES), [0]) == {0: without_gain}
    assert inside(monkeypatch, looks(YES, gpus=(0, 1)), [0, 1]) == {0: without_gain, 1: without_gain}


def test_a_condition_is_denied_only_where_each_process_on_the_gpu_denies_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no = {"fused_attention": Condition("fused_attention", False, 0.0)}

    assert inside(monkeypatch, looks(NO, NO), [0]) == {0: no}
    assert inside(monkeypatch, looks(NO, "broken.json.gz"), [0]) == {0: {}}
    assert inside(monkeypatch, looks(NO, "odd.json.gz"), [0]) == {0: {}}
    assert inside(monkeypatch, [*looks(NO), UNTOLD], [0]) == {0: {}}
    assert inside(monkeypatch, [*looks(NO, gpus=(1,)), *looks(YES, gpus=(0,))], [0, 1])[1] == no


def test_a_process_that_the_driver_lists_on_no_gpu_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    no = {"fused_attention": Condition("fused_attention", False, 0.0)}

    assert inside(monkeypatch, [*looks(NO, gpus=(0,)), UNTOLD], [0]) == {0: no}
    assert inside(monkeypatch, looks(YES), [0, 1]) == {0: {}, 1: {}}  # nobody knows which


SERIAL = Condition("serial_gradient", True, 0.8, (layer("table"),), left=(0.01, 0.2))


def test_what_only_a_look_suggests_comes_first_with_its_gain(starved: Diagnosis) -> None:
    before = of_rule("latency_bound", active(starved, 1.0), Remedy("Look at it.", gain=None))
    after = settled(before, {"serial_gradient": SERIAL}).verdict
    other = remedies(settled(of_rule("launch_bound", starved, GRAPH), {"serial_gradient": SERIAL}))
    denied = remedies(settled(before, {"serial_gradient": replace(SERIAL, holds=False)}))

    assert after is not None
    assert [r.text for r in after.remedies] == [say("try.index_select"), "Look at it."]
    assert "in table" in after.remedies[0].seen
    assert after.gain is not None
    assert (after.gain.low, after.gain.high) == pytest.approx((1 / (1 - 0.64), 1 / (1 - 0.792)))
    assert after.remedies[1].gain == before.findings[0].gain
    assert [r.text for r in other] == [GRAPH.text]
    assert [r.text for r in denied] == ["Look at it."]


@pytest.mark.parametrize("advice", [say("try.more_under_way"), say("try.split_kernels")])
def test_what_comes_one_after_another_is_not_to_be_spread(starved: Diagnosis, advice: str) -> None:
    before = of_rule("latency_bound", active(starved, 1.0), Remedy(advice))
    mostly, partly, not_so = (
        [r.text for r in remedies(settled(before, {"serial_gradient": seen}))]
        for seen in (SERIAL, replace(SERIAL, share=0.2), replace(SERIAL, holds=False))
    )

    assert advice not in mostly
    assert advice in partly
    assert not_so == [advice]


def test_what_only_a_look_suggests_has_its_words() -> None:
    for offer in SEEN_ONLY:
        topic = cast(Topic, offer.remedy.topic)
        assert (topic in SUPPOSING) == (topic not in ("fused_optimizer", "checks"))
        assert f"seen_{topic}" in catalogue("en")
        of_rule = [o for o in OFFERS if o.rule == offer.rule and o.remedy.text == offer.remedy.text]
        assert not any(o.applies is always for o in of_rule)


DEPTHWISE = Condition("by_channel", True, 0.5, (layer("depthwise"),), beside=0.5, left=(0.4, 0.8))


def waiting(starved: Diagnosis) -> Diagnosis:
    """The tensor cores are kept waiting 0.6 of the time."""
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {"latency": 0.6, "memory": 0.4}
    before = with_remedies(replace(active(starved, 1.0), shares=shares), Remedy("Bring it there."))
    assert before.verdict is not None
    verdict = replace(
        before.verdict, rule="tensor_starved", share=0.6, because=("meanwhile", "it looks like")
    )
    verdict = replace(verdict, title="The tensor cores wait.", eased=("latency",))
    steps = (StepAnswer(4, "Tensor cores?", say("answer.starved"), "watch", "in use 5 %"),)
    findings = (verdict, *before.findings[1:])
    return replace(before, verdict=verdict, findings=findings, headline=verdict.title, steps=steps)


def test_what_tensor_cores_cannot_do_does_not_keep_them_waiting(starved: Diagnosis) -> None:
    """16 bits halve the bytes of all the work, so the longest part of it stays the longest."""
    after = settled(waiting(starved), {"by_channel": DEPTHWISE})

    assert after.verdict is not None
    assert after.verdict is after.findings[0]
    assert after.verdict.rule == "latency_bound"
    assert after.headline == after.verdict.title == say("latency.title", share="60 %")
    assert after.verdict.because == ("meanwhile", say("latency.by_channel", share="50 %"))
    first, *rest = after.verdict.remedies
    assert first.text == say("try.by_channel")
    assert "depthwise" in first.seen
    assert say("try.nsight_compute") in [remedy.text for remedy in rest]
    assert after.verdict.gain is not None
    assert (after.verdict.gain.low, after.verdict.gain.high) == pytest.approx((1.25, 2.5))
    assert after.verdict.next_limit == say("limit.latency")
    [step] = after.steps
    assert (step.answer, step.status) == (say("answer.not_needed"), "ok")
    assert step.text == say("steps.cannot_use_them", text="in use 5 %")


def test_where_it_is_the_smaller_part_of_what_waits_they_do(starved: Diagnosis) -> None:
    after = settled(waiting(starved), {"by_channel": replace(DEPTHWISE, share=0.25)})

    assert after.verdict is not None
    assert after.verdict.rule == "tensor_starved"
    assert after.headline == "The tensor cores wait."
    assert after.steps[0].answer == say("answer.starved")
    assert [remedy.text for remedy in after.verdict.remedies] == ["Bring it there."]


FEEDS: tuple[Topic, ...] = ("channels_last", "alignment", "tensor_cores", "fused_attention")
BETWEEN: dict[Topic, Condition] = {"between": Condition("between", True, 0.5, (layer("aten::mul"),))} | {
    topic: Condition(topic, False, 0.0) for topic in FEEDS
}
FUSED = Condition(
    "chains",
    True,
    0.5,
    (layer("blocks"),),
    left=(0.1, 0.6),
    others=Others(tensor=0.4, memory=0.0, latency=0.1),
)


def with_memory(starved: Diagnosis) -> Diagnosis:
    """The tensor cores are kept waiting 0.6 of the time, and memory is the limit 0.4 of it, told second."""
    before = waiting(starved)
    assert before.verdict is not None
    memory = replace(
        before.verdict, rule="memory_bound", title="Memory.", share=0.4, gain=Gain(1.1, 1.2, ""), saves=0.1,
        eased=("memory",), remedies=(Remedy(say("try.fuse_elementwise"), topic="chains"),),
    )  # fmt: skip
    return replace(before, findings=(before.findings[0], memory))


def test_kernels_that_multiply_nothing_keep_no_tensor_core_from_work_and_fusing_them_leads(
    starved: Diagnosis,
) -> None:
    """As six layers of width 384: their gates and norms were at no roof, and went with torch.compile."""
    after = settled(with_memory(starved), {**BETWEEN, "chains": FUSED})

    assert [f.rule for f in after.findings] == ["memory_bound", "latency_bound"]
    assert after.verdict is after.findings[0]
    assert after.headline == "Memory."
    assert after.findings[1].because == ("meanwhile", say("latency.between", share="50 %"))
    assert after.steps[0].answer == say("answer.not_needed")


@pytest.mark.parametrize("holds", [True, None], ids=["seen", "not known"])
@pytest.mark.parametrize("topic", FEEDS)
def test_where_products_could_be_fed_better_the_tensor_cores_wait(
    starved: Diagnosis, topic: Topic, holds: bool | None
) -> None:
    """As a ResNet in NCHW, whose norms are slow for the same reason."""
    seen = {**BETWEEN, "chains": FUSED}
    del seen[topic]
    if holds:
        seen[topic] = Condition(topic, True, 0.1, (layer("conv"),))
    after = settled(with_memory(starved), seen)

    assert [f.rule for f in after.findings] == ["tensor_starved", "memory_bound"]


def test_where_they_are_the_smaller_part_of_what_waits_the_tensor_cores_wait(starved: Diagnosis) -> None:
    less = replace(BETWEEN["between"], share=0.25)
    after = settled(with_memory(starved), {**BETWEEN, "between": less, "chains": FUSED})

    assert [f.rule for f in after.findings] == ["tensor_starved", "memory_bound"]


@pytest.mark.parametrize(
    ("rest", "limit"),
    [
        (Others(tensor=0.4, memory=0.0, latency=0.1), "the tensor cores"),
        (Others(tensor=0.0, memory=0.1, latency=0.4), "latency inside the kernels"),
        (Others(tensor=0.1, memory=0.3, latency=0.1), "memory bandwidth"),
    ],
)
def test_once_elementwise_operators_are_fused_what_is_beside_them_may_limit(
    starved: Diagnosis, rest: Others, limit: str
) -> None:
    after = settled(with_memory(starved), {**BETWEEN, "chains": replace(FUSED, others=rest)})

    assert after.verdict is not None
    assert after.verdict.next_limit == limit


def test_what_is_in_16_bits_and_channels_last_is_not_told_to_be(starved: Diagnosis) -> None:
    done = replace(DEPTHWISE, holds=False, beside=0.0, left=None)
    after = settled(waiting(starved), {"by_channel": done}).verdict

    assert after is not None
    assert after.rule == "latency_bound"
    assert after.gain is None
    assert say("try.by_channel") not in [remedy.text for remedy in after.remedies]


def test_a_finding_whose_only_remedy_goes_is_still_told(starved: Diagnosis) -> None:
    after = settled(
        with_remedies(starved, CHANNELS_LAST), {"channels_last": Condition("channels_last", False, 0.0)}
    )

    assert remedies(after) == ()


def test_the_terminal_shows_it_below_the_remedy(
    starved: Diagnosis, make_report: Callable[..., Report]
) -> None:
    seen = Condition("channels_last", True, 0.315, (layer("conv1"),), 0.13)
    after = settled(with_remedies(starved, CHANNELS_LAST), {"channels_last": seen})
    page = words(make_report(after))

    assert page.index("Use channels-last") < page.index("NCHW in conv1")


@pytest.mark.parametrize("topic", sorted(SETTLED))
def test_each_condition_that_a_look_settles_is_one_of_a_remedy(topic: Topic) -> None:
    """Word for word, or it would never be settled."""
    needs = {need for offer in OFFERS if offer.remedy.topic == topic for need in offer.remedy.needs}

    assert SETTLED[topic] in needs


def test_each_topic_of_a_remedy_has_its_sentence() -> None:
    topics = {offer.remedy.topic for offer in OFFERS if offer.remedy.topic}

    assert topics
    assert {f"seen_{topic}" for topic in topics} <= set(catalogue("en"))


SYNC = Remedy(say("try.read_less"), (), "names the lines.")
LOOK = Remedy(say("try.see_main_thread"), (), "gr_active rises.")
SAVE = Remedy(say("try.checkpoint_thread"), ("the stalls are checkpoints", "a disk"))
FREEZE = Remedy(say("try.freeze_gc"))
LESS = Remedy(say("try.log_less"))


def host(activity: Activity = "synchronising", share: float = 0.8) -> HostCauses:
    frame = Frame("/home/me/train.py", 41, "main")
    cause = Cause(activity, frame, "total += loss.item()", (frame,), share, share, share, 0.0)
    return HostCauses((cause, replace(cause, share=0.005)), idle=0.3)


def of_rule(rule: str, diagnosis: Diagnosis, *offered: Remedy) -> Diagnosis:
    assert diagnosis.verdict is not None
    verdict = replace(diagnosis.verdict, rule=rule)
    findings = (verdict, *(f for f in diagnosis.findings if f.rule not in (rule, diagnosis.verdict.rule)))
    return with_remedies(replace(diagnosis, verdict=verdict, findings=findings), *offered)


def test_the_remedy_against_waiting_names_the_line(starved: Diagnosis) -> None:
    [told] = remedies(with_lines(of_rule("sync_bound", starved, SYNC), host()))

    assert told.text == "Do not read results back in every step."
    assert told.seen == "It is train.py:41 total += loss.item(), 80 % of the idle time."
    assert told.verify == "names the lines."


def test_where_the_host_launches_all_the_time_no_wait_is_blamed(starved: Diagnosis) -> None:
    [told] = remedies(with_lines(of_rule("sync_bound", starved, SYNC), host("launching")))

    assert told.text.startswith("Launch less")
    assert told.verify == "gr_active rises."


@pytest.mark.parametrize(
    ("activity", "begins"),
    [
        ("python", "Do less at one line"), ("loader", "Do less per sample"), ("launching", "Launch less"),
        ("copying", "Do not read results back"), ("gil", "Do the work of that thread in another process"),
    ],
)  # fmt: skip
def test_what_the_main_thread_does_is_said_and_need_not_be_looked_up(
    starved: Diagnosis, activity: Activity, begins: str
) -> None:
    told = remedies(with_lines(of_rule("host_starved", starved, Remedy("Other."), LOOK), host(activity)))

    assert told[0].text.startswith(begins)
    assert "train.py:41" in told[0].seen
    assert [r.text for r in told[1:] if r.text not in {one.remedy.text for one in ADVICE}] == ["Other."]


@pytest.mark.parametrize(
    ("activity", "first"), [("checkpoint", SAVE), ("garbage collection", FREEZE), ("logging", LESS)]
)
def test_of_the_remedies_for_stalls_the_one_for_this_line_comes_first(
    starved: Diagnosis, activity: Activity, first: Remedy
) -> None:
    before = of_rule("periodic_stall", starved, SAVE, FREEZE, LESS)
    told = remedies(with_lines(before, host(activity)))

    assert [r.text for r in told] == [first.text, *(r.text for r in (SAVE, FREEZE, LESS) if r is not first)]
    assert [bool(r.seen) for r in told] == [True, False, False]
    assert (told[0].needs == ("a disk",)) is (first is SAVE)


@pytest.mark.parametrize("known", [None, HostCauses(), host(share=MOSTLY - 0.01)])
def test_without_a_line_that_explains_most_nothing_changes(
    starved: Diagnosis, known: HostCauses | None
) -> None:
    before = of_rule("sync_bound", starved, SYNC)

    assert with_lines(before, known) == before


@pytest.mark.parametrize(
    ("idle_stacks", "idle_counters", "low", "named"),
    [
        (IDLE_LINES.value, 0.5, 0.8, True),
        (0.5, IDLE_LINES.value, 0.8, True),
        (0.5, math.nan, 0.8, True),
        (IDLE_LINES.value - 0.001, 0.5, 0.8, False),
        (0.5, IDLE_LINES.value - 0.001, 0.8, False),
        (0.1, 0.1, 0.0, False),  # the line may cost nothing ...
        (0.5, 0.5, 0.0, True),  # ... but seems to cost much
    ],
)
def test_lines_are_quoted_in_remedies_where_the_report_tells_any(
    starved: Diagnosis, idle_stacks: float, idle_counters: float, low: float, named: bool
) -> None:
    known_shares = {**dict.fromkeys(starved.shares, 0.0), "idle": idle_counters, "memory": 1 - idle_counters}
    shares = known_shares if math.isfinite(idle_counters) else {}
    before = replace(of_rule("sync_bound", starved, SYNC), shares=shares)
    known = host()
    known = replace(known, idle=idle_stacks, causes=(replace(known.causes[0], low=low), *known.causes[1:]))
    after = with_lines(before, known)

    assert any(remedy.seen for remedy in remedies(after)) is named
    assert (after == before) is not named


@pytest.mark.parametrize("rule", ["host_starved", "sync_bound", "launch_bound", "periodic_stall"])
def test_memory_that_is_given_back_in_each_step_is_told_with_its_gain(starved: Diagnosis, rule: str) -> None:
    """Its share is of all time, whatever of that the GPU works."""
    seen = Condition("allocates", True, 0.6, beside=22.0, left=(0.0, 0.25))
    after = settled(of_rule(rule, starved, LOOK), {"allocates": seen})
    first, *_ = remedies(after)

    assert first.text == say("try.hold_memory")
    assert first.seen == (
        "It takes device memory from CUDA and gives it back 22 times a step: 60 % of the time."
    )
    assert after.verdict is not None
    assert after.verdict.gain is not None
    assert (after.verdict.gain.low, after.verdict.gain.high) == pytest.approx((1 / 0.55, 1 / 0.4))


@pytest.mark.parametrize(
    ("condition", "whole"),
    [
        (Condition("allocates", True, 0.6, beside=80.0, left=(0.0, 0.25)), True),
        (Condition("allocates", True, 0.6, beside=80.0), False),  # of several processes: what is left is open
        (Condition("graph", False, 0.0), False),
    ],
)
def test_memory_that_one_line_gives_back_is_paid_for_at_others_that_take_it_again(
    starved: Diagnosis, condition: Condition, whole: bool
) -> None:
    """Without a look the gain is that of the line's own 80 % of the 30 % that the GPU is idle."""
    before = replace(
        of_rule("host_starved", starved, LOOK), shares={**starved.shares, "idle": 0.3, "copy": 0.0}
    )
    after = with_lines(before, host("allocator"), {condition.topic: condition}).verdict

    assert after is not None
    assert after.remedies[0].text == say("try.keep_cache")
    assert after.gain is not None
    assert after.gain.high == pytest.approx(1 / 0.4 if whole else 1 / (1 - 0.3 * 0.8) / PACE[0])
    assert (after.gain.low == pytest.approx(1 / 0.55)) is whole


def test_calls_for_memory_gain_what_counters_say_where_these_see_them(starved: Diagnosis) -> None:
    """A variable that ends gives memory back in no line at all, so lines tell too little."""
    hold = replace(LOOK, text=say("try.hold_memory"))
    by_engine = Gain(1.4, 2.2, "by the engine")

    def gain(*offered: Remedy) -> Gain | None:
        before = of_rule("host_starved", starved, *offered)
        assert before.verdict is not None
        told = replace(before.verdict, gain=by_engine)
        before = replace(before, verdict=told, findings=(told,))
        after = with_lines(before, host("allocating"), {}).verdict
        assert after is not None
        assert after.remedies[0].text == hold.text
        return after.gain

    assert gain(hold) == by_engine
    assert gain(LOOK) not in (by_engine, None)


def test_a_program_that_keeps_its_memory_is_not_told_to(starved: Diagnosis) -> None:
    before = of_rule("host_starved", starved, LOOK)

    assert [r.text for r in remedies(settled(before, {"graph": Condition("graph", False, 0.0)}))] == [
        LOOK.text
    ]
    seen = Condition("allocates", True, 0.6, left=(0.0, 0.25))
    other = of_rule("memory_bound", starved, LOOK)
    assert [r.text for r in remedies(settled(other, {"allocates": seen}))] == [LOOK.text]


def test_lines_that_do_the_same_explain_most_together(starved: Diagnosis) -> None:
    """As forward pass, backward pass and optimizer, each of which launches."""
    [first, _] = host("launching", 0.4).causes
    second = replace(first, frame=replace(first.frame, line=42), text="loss.backward()", share=0.3)
    other = replace(second, activity="python")
    before = of_rule("sync_bound", starved, SYNC)
    [told] = remedies(with_lines(before, HostCauses((first, second), idle=0.3)))

    assert told.seen == (
        "It is train.py:41 total += loss.item(), 40 % of the idle time; "
        "train.py:42 loss.backward(), 30 % of the idle time."
    )
    assert with_lines(before, HostCauses((first, other), idle=0.3)) == before


def test_a_finding_of_busy_time_is_left_as_it_is(starved: Diagnosis) -> None:
    before = of_rule("memory_bound", starved, Remedy("Fuse."))

    assert remedies(with_lines(before, host())) == (Remedy("Fuse."),)


def test_no_verdict_stays_none(silent: Diagnosis) -> None:
    assert with_lines(silent, host()).verdict is None


def test_every_answer_is_one_to_a_remedy_that_is_offered() -> None:
    for answer in ANSWERS:
        offered = [o.remedy for o in OFFERS if o.rule == answer.rule]
        offered += [Remedy(REMEDY[answer.rule])] if answer.rule in ("input_starved",) else []
        offered = [remedy for remedy in offered if answer.remedy in ("", remedy.text)]
        assert offered
        assert len(offered) == 1 or not answer.remedy
        assert not answer.need or answer.need in offered[0].needs
        assert answer.activities <= set(get_args(Activity))


# --- rules on attributed data


def test_each_part_says_why_it_is_one(starved: Diagnosis) -> None:
    remedy = Remedy("Bring them there.", ("some miss them",), topic="tensor_cores")
    parts = (
        Part("gate", 0.2, None, SourceLine("/home/me/train.py", 41), "vector"),
        Part("conv", 0.1, None, None, "groups", 4.0),
        Part("fc", 0.1, None, None, "tf32_off"),
        Part("out", 0.1, None, None, "groups", 2.0),
    )
    seen = Condition("tensor_cores", True, 0.5, parts)
    [told] = remedies(settled(with_remedies(starved, remedy), {"tensor_cores": seen}))

    assert told.needs == ()
    assert told.seen == (
        "Beside the tensor cores: gate (a vector), conv (in 4 groups), fc (TF32 is off) and 1 more "
        "(train.py:41), 50 % of the busy time."
    )


def test_tf32_is_not_advised_where_it_is_on(starved: Diagnosis) -> None:
    other = Remedy("Run it in bfloat16.")
    tf32 = Remedy("Allow TF32.", ("it is off", "an error is acceptable"), topic="tf32")
    before = with_remedies(starved, tf32, other)

    assert remedies(settled(before, {"tf32": Condition("tf32", False, 0.0)})) == (other,)
    [first, _] = remedies(settled(before, {"tf32": Condition("tf32", True, 0.4, (layer("fc"),))}))
    assert first.needs == ("an error is acceptable",)


@pytest.mark.parametrize(("number", "length"), [(3200.0, "3.2 µs"), (9_000.0, "9 µs")])
def test_short_kernels_are_told_with_their_length(starved: Diagnosis, number: float, length: str) -> None:
    remedy = Remedy("Launch less.", topic="tiny_kernels")
    seen = Condition("tiny_kernels", True, 0.75, (Part("layers.*.act", 0.75, None, None, "tiny", number),))
    [told] = remedies(settled(with_remedies(starved, remedy), {"tiny_kernels": seen}))

    assert told.seen == f"Short kernels make 75 % of the launches: layers.*.act ({length} each)."


def test_chains_are_told_with_what_fusing_spares_where_that_is_known(starved: Diagnosis) -> None:
    remedy = Remedy("Fuse elementwise operations.", topic="chains")
    seen = Condition("chains", True, 0.42, (Part("blocks.*", 0.42),), spared=(0.2, 0.55))
    [told] = remedies(settled(with_remedies(starved, remedy), {"chains": seen}))
    [without] = remedies(settled(with_remedies(starved, remedy), {"chains": replace(seen, spared=None)}))

    assert told.seen == (
        "Elementwise operators and norms, one after another: blocks.*, 42 % of the busy time; fused, at "
        "least 20 % and up to 55 % of their bytes go, where each works on the result of the one before."
    )
    assert without.seen == (
        "Elementwise operators and norms, one after another: blocks.*, 42 % of the busy time."
    )


TRAFFIC = Condition(
    "traffic",
    True,
    0.7,
    (
        Part("norm", 0.4, None, None, "poor_reuse", 1.62),
        Part("relu", 0.2, None, None, "streaming", 0.95),
        Part("fc", 0.1, None, None, "from_l2", 0.5),
        Part("rest", 0.1),
    ),
    beside=0.15,
)


def test_beside_the_memorys_limit_stand_the_modules_that_move_most(starved: Diagnosis) -> None:
    assert starved.verdict is not None
    bound = replace(starved.verdict, rule="memory_bound", because=("DRAM moves much",))
    diagnosis = replace(starved, verdict=bound, findings=(bound, *starved.findings[1:]))
    told = settled(diagnosis, {"traffic": TRAFFIC}).findings[0].because
    [_, little] = settled(diagnosis, {"traffic": replace(TRAFFIC, beside=BEYOND / 2)}).findings[0].because

    assert told == (
        "DRAM moves much",
        "most bytes: norm 40 % (1.6 times what it has to), relu 20 % (streaming), fc 10 % (in part from the "
        "L2); 15 % of all bytes are more than operators have to move",
    )
    assert little.endswith("L2)")


def test_paths_of_numbers_are_told_with_the_model_above_them(starved: Diagnosis) -> None:
    assert starved.verdict is not None
    names = ("*.*", "0", "", "fc.0")
    seen = Condition("channels_last", True, 0.3, tuple(replace(layer(n), call=None) for n in names[:3]))
    bound = replace(starved.verdict, rule="memory_bound", because=())
    diagnosis = replace(starved, verdict=bound, findings=(bound, *starved.findings[1:]))
    moved = Condition("traffic", True, 0.3, (Part("*", 0.2), Part(names[3], 0.1)))

    [told] = remedies(settled(with_remedies(starved, CHANNELS_LAST), {"channels_last": seen}))
    assert "(model).*.*, (model).0, (model) (train.py:41)" in told.seen
    assert settled(diagnosis, {"traffic": moved}).findings[0].because == (
        "most bytes: (model).* 20 %, fc.0 10 %",
    )


def test_other_findings_are_left_without(starved: Diagnosis) -> None:
    assert settled(starved, {"traffic": TRAFFIC}) == starved
    assert all(finding.rule != "memory_bound" for finding in starved.findings)


# --- what fusing gains


CHAINS = Condition("chains", True, 0.1, (Part("blocks.*", 0.1),), 0.3, left=(0.2, 0.9), spared=(0.2, 0.4))
FUSE = Remedy("Fuse elementwise operations.", topic="chains")


def test_fusing_gains_what_it_leaves_of_the_elementwise_operators_that_were_seen(starved: Diagnosis) -> None:
    """Not what is fused away elsewhere, which the finding's gain was computed by."""
    before = with_remedies(active(starved, 0.5), FUSE)
    after = settled(before, {"chains": CHAINS}).verdict

    assert after is not None
    assert after.gain is not None
    # Of chains and of what is beside them, together 0.4 of half the time, a tenth goes at least.
    assert (after.gain.low, after.gain.high) == pytest.approx((1 / (1 - 0.02), 1 / (1 - 0.16)))
    assert after.gain.assumption == say("fused_gain")
    assert after.next_limit is None
    assert "; others take 30 %." in after.remedies[0].seen


@pytest.mark.parametrize(("busy", "left"), [(0.5, None), (float("nan"), (0.2, 0.9))])
def test_where_that_is_not_known_fusing_has_no_gain(
    starved: Diagnosis, busy: float, left: tuple[float, float] | None
) -> None:
    before = with_remedies(active(starved, busy), FUSE)
    after = settled(before, {"chains": replace(CHAINS, left=left)}).verdict

    assert after is not None
    assert after.remedies[0].seen
    assert after.gain is None


def test_without_chains_the_gain_stays_as_supposed(starved: Diagnosis) -> None:
    assert starved.verdict is not None
    after = settled(with_remedies(starved, FUSE), {"traffic": TRAFFIC}).verdict

    assert after is not None
    assert after.gain == starved.verdict.gain


# --- each family has a switch


OFF = Part("fc", 0.3, None, None, "tf32_off")
ALLOW = Remedy(ALLOW_TF32, ("it is off",), topic="tf32")
CONVOLUTION_OFF = Part("conv", 0.2, None, None, "convolution_tf32_off")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((OFF,), ALLOW_TF32),
        ((CONVOLUTION_OFF,), ALLOW_TF32_IN_CONVOLUTIONS),
        ((OFF, CONVOLUTION_OFF), ALLOW_TF32_IN_BOTH),
    ],
)
def test_tf32_is_allowed_where_it_is_off(starved: Diagnosis, parts: tuple[Part, ...], text: str) -> None:
    seen = Condition("tf32", True, 0.5, parts)
    [told] = remedies(settled(with_remedies(starved, ALLOW), {"tf32": seen}))
    other = Remedy("Bring all products there.", ("some miss them",), topic="tensor_cores")
    [left] = remedies(
        settled(with_remedies(starved, other), {"tensor_cores": replace(seen, topic="tensor_cores")})
    )

    assert told.text == text
    assert left.text == other.text


def test_a_kernels_name_is_cut_and_a_modules_is_not(starved: Diagnosis) -> None:
    long = "a" * (KERNEL + 9)
    parts = (Part(long, 0.3, None, None, "tf32_off"), replace(layer(long), share=0.1))
    seen = Condition("tf32", True, 0.5, parts)
    [told] = remedies(settled(with_remedies(starved, ALLOW), {"tf32": seen}))

    assert told.seen.startswith(f"Without the tensor cores: {long[: KERNEL - 1]}… (TF32 is off), {long} [256")


# --- frameworks


def of(monkeypatch: pytest.MonkeyPatch, seen: list[Look], gpus: list[int]) -> dict[int, str]:
    """The frameworks where the name of a look's file is that of its program's."""
    told = {"cupy": "cupy", "jax": "jax", "pytorch": "pytorch", "empty": None}
    monkeypatch.setattr(module, "framework", lambda name: told[name])
    return frameworks({name: cast("Breakdown", name) for name in told}, seen, gpus)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["cupy"], "cupy"), (["cupy", "cupy"], "cupy"), (["cupy", "jax"], "other"),
        (["cupy", "pytorch"], "pytorch"), (["cupy", "broken"], "pytorch"), (["empty"], "pytorch"),
        ([], "pytorch"),
    ],
)  # fmt: skip
def test_words_are_those_of_a_framework_that_all_processes_are_seen_to_use(
    monkeypatch: pytest.MonkeyPatch, files: list[str], expected: str
) -> None:
    assert of(monkeypatch, looks(*files), [0]) == {0: expected}


def test_each_gpu_has_the_words_of_its_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [*looks("cupy", gpus=(1,)), *looks("jax", gpus=(0,))]

    assert of(monkeypatch, seen, [0, 1]) == {0: "jax", 1: "cupy"}
    assert of(monkeypatch, [*looks("cupy"), UNTOLD], [0]) == {0: "pytorch"}


def test_remedies_are_told_in_the_words_of_the_framework(starved: Diagnosis) -> None:
    before = with_remedies(starved, replace(SYNC, text="Keep activations in bfloat16: torch.autocast."))

    assert remedies(in_words(before, "jax"))[0].text == "Keep activations in bfloat16."
    assert in_words(before, "pytorch") is before


# --- stacks and looks agree


@pytest.mark.parametrize("maybe", ["host.maybe_busy", "host.maybe_waits", "sync.maybe_slow"])
def test_what_stacks_answer_is_supposed_no_more(starved: Diagnosis, maybe: str) -> None:
    assert starved.verdict is not None
    lines = ("the queue was empty", say("host.main_busy", main="54 %", maybe=say(maybe)))
    verdict = replace(of_rule("host_starved", starved, LOOK).findings[0], because=lines)
    before = replace(starved, verdict=verdict, findings=(verdict, *starved.findings[1:]))
    answered = with_lines(before, host("launching")).verdict
    unanswered = with_lines(before, host(share=MOSTLY - 0.01)).verdict

    assert answered is not None
    assert unanswered is not None
    assert answered.because == ("the queue was empty", "the main thread is at 54 % of a core")
    assert unanswered.because == lines


OPTIMIZER = Remedy("Update in few kernels.", (SETTLED["fused_optimizer"],), topic="fused_optimizer")
GRAPH = Remedy(say("try.graph"), ("shapes do not change",), topic="tiny_products")
SHORT = Condition("tiny_products", True, 0.68, (Part("*.0", 0.68, None, None, "tiny", 4300.0),))


def test_what_short_kernels_support_comes_before_what_is_supposed_with_the_gain_made_for_it(
    starved: Diagnosis,
) -> None:
    assert starved.verdict is not None
    before = of_rule("launch_bound", starved, OPTIMIZER, GRAPH)
    seen = settled(before, {"tiny_products": SHORT})
    after = with_lines(seen, host("launching")).verdict

    assert after is not None
    assert [r.text for r in after.remedies] == [GRAPH.text, OPTIMIZER.text]
    assert after.gain == starved.verdict.gain
    assert after.remedies[0].needs == ("shapes do not change",)
    assert after.remedies[0].seen.startswith("It is train.py:41")
    assert not after.remedies[1].seen


def test_a_line_that_launches_is_told_with_the_graph_where_no_look_supports_another(
    starved: Diagnosis,
) -> None:
    told = remedies(with_lines(of_rule("launch_bound", starved, OPTIMIZER, GRAPH), host("launching")))
    settled_one = replace(OPTIMIZER, needs=(), seen="It launches many kernels.")
    seen = remedies(with_lines(of_rule("launch_bound", starved, settled_one, GRAPH), host("launching")))

    assert [r.text for r in told] == [GRAPH.text, OPTIMIZER.text]
    assert [r.text for r in seen] == [OPTIMIZER.text, GRAPH.text]


def test_topics_that_support_a_remedy_are_those_of_some() -> None:
    assert {offer.remedy.topic for offer in OFFERS} >= SUPPORTED
    assert not SUPPORTED & set(SETTLED)


# --- what is done already


COMPILED = Condition("compile", False, 0.0, beside=0.57)


def offered(rule: str) -> tuple[Remedy, ...]:
    return tuple(offer.remedy for offer in OFFERS if offer.rule == rule)


def test_a_compiled_network_in_16_bits_that_memory_limits_is_not_told_to_compile(starved: Diagnosis) -> None:
    """As perfzero told a ResNet-50 under torch.compile and autocast: it is told that it is compiled."""
    topics: tuple[Topic, ...] = ("chains", "activations", "fused_attention", "fills", "clears_gradients")
    seen = {topic: Condition(topic, False, 0.0) for topic in topics}
    before = with_remedies(starved, *offered("memory_bound"))
    after = settled(before, {**seen, "compile": COMPILED})

    # What a look does not settle is for kernels of one's own, and offered where counters call for it.
    kept = ("fused_or_8bit_optimizer", "find_float64", "tile_order", "larger_batch")
    left = [say(f"try.{name}") for name in kept]
    assert [remedy.text for remedy in remedies(after)] == left
    assert after.verdict is not None
    assert after.verdict.because[-1] == say("compiled_already", share="57 %")


@pytest.mark.parametrize("text", sorted(NOTHING_TO_DO))
def test_what_changes_nothing_is_left_out_and_what_is_not_denied_stays(starved: Diagnosis, text: str) -> None:
    remedy, topics = Remedy(text), NOTHING_TO_DO[text]
    before = with_remedies(starved, remedy)

    for topic in topics:
        assert remedies(settled(before, {topic: Condition(topic, False, 0.0)})) == ()
        [kept] = remedies(settled(before, {topic: Condition(topic, True, 0.5)}))
        assert kept.text == text
    assert settled(before, {"float64": Condition("float64", False, 0.0)}) == before


def test_each_remedy_that_may_be_done_already_is_one_of_the_catalogue() -> None:
    texts = {offer.remedy.text for offer in OFFERS} | {say("try.launch_less_there")}

    assert {*NOTHING_TO_DO, *WITHOUT_COMPILER} <= texts


def test_of_what_a_compiler_does_among_others_the_others_are_left(starved: Diagnosis) -> None:
    between, split = Remedy(say("try.fuse_between_products")), Remedy(say("try.split_kernels"))
    before = with_remedies(starved, between, split)
    [attention, kernels] = remedies(settled(before, {"compile": COMPILED}))

    assert (attention.text, attention.needs) == (
        say("try.fused_attention"),
        (say("need.stepwise_attention"),),
    )
    assert kernels.text == say("try.split_kernels.compiled")


def test_of_compiling_and_a_fused_optimizer_what_is_not_done_is_left(starved: Diagnosis) -> None:
    """As of a training that is compiled, and whose optimizer launches one kernel per parameter."""
    unfused = Condition("fused_optimizer", True, 0.3, (layer("optimizer"),))
    fused = Condition("fused_optimizer", False, 0.0)
    both = with_remedies(starved, Remedy(say("try.launch_less"), topic="tiny_kernels"))
    [left] = remedies(settled(both, {"compile": COMPILED}))
    [seen] = remedies(settled(both, {"compile": COMPILED, "fused_optimizer": unfused}))
    [kept] = remedies(settled(both, {"fused_optimizer": fused}))

    assert (left.text, left.needs) == (say("try.fused_optimizer_step"), (SETTLED["fused_optimizer"],))
    assert (seen.text, seen.needs) == (say("try.fused_optimizer_step"), ())
    assert seen.seen.startswith("It launches many kernels")
    assert remedies(settled(both, {"compile": COMPILED, "fused_optimizer": fused})) == ()
    assert kept.text == say("try.launch_less")


GAIN = Gain(1.64, 3.87, "half to nearly all of the gaps can go")


def test_what_is_left_of_a_remedy_has_no_gain_of_what_is_done_already(starved: Diagnosis) -> None:
    """An optimizer in a program without one least of all."""
    both = Remedy(say("try.launch_less"), topic="tiny_kernels", gain=GAIN)
    before = with_remedies(starved, Remedy("Raise the batch size."), both)
    [_, compiled_] = remedies(settled(before, {"compile": COMPILED}))
    [_, eager] = remedies(settled(before, {"graph": Condition("graph", True, 0.0)}))

    assert (compiled_.text, compiled_.gain) == (say("try.fused_optimizer_step"), None)
    assert (eager.text, eager.gain) == (both.text, GAIN)


def test_splitting_a_long_dimension_gains_the_same_in_a_compiled_program(starved: Diagnosis) -> None:
    """A compiler fills SMs by fewer and larger kernels, and splitting by more blocks of each."""
    split = Remedy(say("try.split_kernels"), gain=GAIN)
    before = with_remedies(starved, Remedy("Raise the batch size."), split)
    [_, left] = remedies(settled(before, {"compile": COMPILED}))

    assert (left.text, left.gain) == (say("try.split_kernels.compiled"), GAIN)


def test_of_an_optimizer_that_is_fused_already_the_groups_are_to_become_fewer(starved: Diagnosis) -> None:
    step = Remedy(say("try.fused_optimizer_step"), (SETTLED["fused_optimizer"],), topic="fused_optimizer")
    by_group = replace(layer("optimizer"), why="by_group", number=468.0)
    told = [
        remedies(
            settled(
                with_remedies(starved, step),
                {"fused_optimizer": Condition("fused_optimizer", True, 0.05, (row,))},
            )
        )
        for row in (by_group, layer("optimizer"))
    ]

    assert [one.text for [one] in told] == [say("try.fewer_groups"), step.text]
    assert [one.needs for [one] in told] == [(), ()]
    assert "(fused, 468 launches a step)" in told[0][0].seen
    assert "fused" not in told[1][0].seen


def test_fewer_groups_gain_what_the_line_of_the_optimizer_takes(starved: Diagnosis) -> None:
    """As a fused optimizer does; of a line that is no optimizer's nothing is told."""
    steps = host("launching")
    step = replace(steps, causes=(replace(steps.causes[0], text="optimizer.step()"),))
    gains = []
    for text, line in (("fewer_groups", step), ("fused_optimizer_step", step), ("fewer_groups", steps)):
        before = of_rule("launch_bound", starved, Remedy("Raise the batch size."), Remedy(say(f"try.{text}")))
        gains.append(remedies(with_lines(before, line))[-1].gain)

    assert gains[0] is not None
    assert gains == [gains[1], gains[1], None]


def test_a_fused_optimizer_is_advised_once(starved: Diagnosis) -> None:
    after = remedies(settled(with_remedies(starved, *offered("launch_bound")), {"compile": COMPILED}))
    texts = [remedy.text for remedy in after]

    assert texts.count(say("try.fused_optimizer_step")) == 1
    assert say("try.launch_less") not in texts


@pytest.mark.parametrize(
    ("advice", "topic", "told"),
    [
        ("try.pinned", "pageable", False),
        ("try.no_fills", "fills", False),
        ("try.graph", "graph", False),
        ("try.compiler", "fills", True),
        ("try.fuse_elementwise", "chains", True),
        ("try.launch_less", "fills", True),
    ],
)
def test_that_it_is_compiled_is_told_only_where_compiling_was_advised(
    starved: Diagnosis, advice: str, topic: Topic, told: bool
) -> None:
    """Whatever other advice goes, or stays."""
    before = with_remedies(starved, Remedy(say(advice)), Remedy(say("try.larger_batch")))
    seen = {topic: Condition(topic, False, 0.0)}
    sentences = [
        said.verdict.because[-1]
        for said in (settled(before, {**seen, "compile": COMPILED}), settled(before, seen))
        if said.verdict is not None
    ]

    assert [sentence == say("compiled_already", share="57 %") for sentence in sentences] == [told, False]


def test_every_remedy_for_torch_compile_knows_that_it_may_be_there_already() -> None:
    """But for CUDA graphs, which torch.compile is a way to, and which are denied by replays."""
    named = {offer.remedy.text for offer in OFFERS if "torch.compile" in offer.remedy.text}

    assert named - {say("try.graph")} <= {
        *WITHOUT_COMPILER,
        *(text for text, topics in NOTHING_TO_DO.items() if "compile" in topics),
    }
