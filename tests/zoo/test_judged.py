"""What perfzero says against what is true: made-up reports, of which the score is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest


def remedy(
    text: str,
    *,
    low: float | None = None,
    high: float | None = None,
    seen: str = "",
    after: str | None = None,
) -> dict[str, Any]:
    gain = None if low is None else {"low": low, "high": high}
    return {"text": text, "gain": gain, "seen": seen, "next_limit": after}


def finding(rule: str, severity: str = "watch", *remedies: dict[str, Any], gain=(2.0, 6.0), after="the host"):
    ends = None if gain is None else {"low": gain[0], "high": gain[1]}
    return {"rule": rule, "severity": severity, "remedies": list(remedies), "gain": ends, "next_limit": after}


def cause(file: str, line: int, *stages: dict[str, Any]) -> dict[str, Any]:
    return {"file": file, "line": line, "stages": list(stages)}


def row(share: float, file: str, line: int) -> dict[str, Any]:
    return {"time": {"share": share}, "source": {"file": file, "line": line}}


@pytest.fixture
def told(scorer):
    """What a report of some findings says, the first above "info" the verdict."""

    def made(*findings, causes=(), breakdown=None, layers=(), limits=(), slowdown=0.01, held_up_s=0.3):
        verdict = next((f for f in findings if f["severity"] != "info"), None)
        gpu = {
            "verdict": verdict, "no_verdict": None if verdict else "nothing stands out",
            "findings": list(findings),
        }  # fmt: skip
        report = {"gpus": [gpu], "cost": {"slowdown": slowdown}}
        texts = (tuple(layers), tuple(causes), tuple(limits))
        return scorer("replayed").Replayed(report, breakdown, *texts, held_up_s, "H200")

    return made


@pytest.fixture
def case(scorer, made_up: Path):
    return scorer("case").read_case(made_up)


@pytest.fixture
def achieved(scorer):
    return lambda gain: scorer("turns").Achieved(gain, 0.95 * gain, 1.05 * gain)


@pytest.fixture
def healthy(scorer, case):
    """The case as one that only looks bad."""
    truth = replace(case.truth, healthy=True, causes=("well_used",), also=())
    return replace(case, truth=truth, named=None, fix=replace(case.fix, least_gain=None))


KEPT = Path(__file__).parent / "kept"
READ_BACK = "Do not read results back in every step."
LINE = 11  # of time.sleep in the made-up program; its statement ends two lines below


def test_a_case_that_goes_well_misses_nothing(scorer, case, told, achieved) -> None:
    base = told(finding("sync_bound", "bad", remedy(READ_BACK)), causes=[cause("/x/x01/train.py", LINE)])
    score = scorer("judged").judged(
        case, base, fixed=told(limits=("the host",)), gain=achieved(4.0), stable_s=5.0
    )

    assert (score.rank, score.right, score.named, score.told) == (1, True, True, f"train.py:{LINE}")
    assert (score.promise.low, score.promise.high, score.promise.width) == (2.0, 6.0, 3.0)
    assert (score.earned, score.inside, score.foreseen) == (True, True, True)
    assert (score.slowdown, score.held_up_s, score.stable_s, score.after) == (0.01, 0.3, 5.0, "-")
    assert not score.advised
    assert score.misses == ()


def test_the_rank_is_the_place_among_what_asks_for_action(scorer, case, told) -> None:
    def rank(*findings) -> int | None:
        return scorer("judged").judged(case, told(*findings)).rank

    assert rank(finding("power_capped", "info"), finding("sync_bound")) == 1
    assert rank(finding("launch_bound"), finding("sync_bound")) == 2
    assert rank(finding("launch_bound"), finding("host_starved"), finding("sync_bound")) == 2
    assert rank(finding("launch_bound"), finding("sync_bound", "info")) is None
    assert rank() is None


def test_a_truth_that_is_not_first_is_a_miss_that_says_what_is(scorer, case, told) -> None:
    judged = scorer("judged").judged
    second = judged(case, told(finding("launch_bound"), finding("sync_bound", "watch", remedy(READ_BACK))))
    nothing = judged(case, told())

    assert second.misses[0] == "launch_bound; sync_bound is in place 2"
    assert nothing.misses[0] == "no verdict (nothing stands out); sync_bound is not found"
    assert nothing.promise.width is None


def test_the_promise_is_that_of_the_remedy_which_is_the_fix(scorer, case, told) -> None:
    def promise(*remedies, gain=(2.0, 6.0)):
        found = finding("sync_bound", "bad", *remedies, gain=gain)
        return scorer("judged").judged(case, told(found)).promise

    own = promise(remedy("Fuse."), remedy(READ_BACK, low=3.0, high=4.0))
    assert (own.remedy, own.low, own.high) == (READ_BACK, 3.0, 4.0)
    of_the_finding = promise(remedy("Fuse.", low=3.0, high=4.0), remedy(READ_BACK))
    assert (of_the_finding.remedy, of_the_finding.low, of_the_finding.high) == (READ_BACK, 2.0, 6.0)
    other = promise(remedy("Fuse.", low=3.0, high=4.0))
    assert (other.remedy, other.low, other.high, other.next_limit) == ("", None, None, "the host")
    assert promise(gain=None).width is None


def test_the_next_limit_is_that_of_the_fix_where_it_has_another_than_the_first_remedy(
    scorer, case, told
) -> None:
    def limit(after: str | None) -> str:
        found = finding("sync_bound", "bad", remedy("Fuse."), remedy(READ_BACK, after=after))
        return scorer("judged").judged(case, told(found)).promise.next_limit

    assert (limit("memory bandwidth"), limit(None)) == ("memory bandwidth", "the host")


def test_a_gain_outside_its_interval_a_limit_not_foreseen_and_a_fix_not_advised_are_misses(
    scorer, case, told, achieved
) -> None:
    base = told(finding("sync_bound", "bad", remedy("Fuse.")), causes=[cause("train.py", LINE + 2)])
    score = scorer("judged").judged(
        case, base, fixed=told(limits=("memory bandwidth",)), gain=achieved(1.4), problems=("trim: lost",)
    )

    assert (score.earned, score.inside, score.foreseen) == (False, False, False)
    assert score.misses == (
        "the fix gains 1.40x",
        "1.40x and nothing is promised",
        "next limit the host, met memory bandwidth",
        "the fix is not among the remedies",
        "trim: lost",
    )


def test_what_was_not_measured_is_no_miss(scorer, case, told) -> None:
    base = told(finding("sync_bound", "bad", remedy(READ_BACK)), causes=[cause("train.py", LINE)])
    score = scorer("judged").judged(case, base)

    assert (score.earned, score.inside, score.foreseen, score.after) == (None, None, None, None)
    assert score.misses == ()


def test_one_of_two_limits_that_are_named_is_enough(scorer, case, told) -> None:
    base = told(finding("sync_bound", "bad", after="memory bandwidth or the tensor cores"))
    judged = scorer("judged").judged
    met = judged(case, base, fixed=told(limits=("the tensor cores",)))
    missed = judged(case, base, fixed=told(limits=("the host",)))
    alone = judged(case, told(finding("sync_bound")), fixed=told(limits=("the host",)))

    assert [(score.foreseen, score.one_of_two) for score in (met, missed, alone)] == [
        (True, True), (False, False), (True, False),
    ]  # fmt: skip
    column = scorer("table").COLUMNS.index("next limit")
    assert [scorer("table").cells(s)[column] for s in (met, missed, alone)] == ["one of two", "no", "yes"]
    [bar] = [
        b for b in scorer("summary").bars([met, missed, alone]) if b.words == "the next limit is foreseen"
    ]
    assert bar.detail == "2 of 3, 1 as one of two"


def test_what_is_told_and_is_not_true_is_shown_and_counted_wherever_it_stands(scorer, case, told) -> None:
    """Of the made-up case host_starved is another name of the truth, and launch_bound is there too."""
    judged, truth = scorer("judged").judged, finding("sync_bound")
    before = judged(case, told(finding("memory_bound"), truth))
    beside = judged(case, told(truth, finding("launch_bound"), finding("wave_tail"), finding("small_grid")))
    true = judged(
        case, told(truth, finding("launch_bound"), finding("thermal", "info"), finding("host_starved"))
    )

    assert [score.strays for score in (before, beside, true)] == [
        ("memory_bound",), ("wave_tail", "small_grid"), (),
    ]  # fmt: skip
    column = scorer("table").COLUMNS.index("also told")
    assert scorer("table").cells(beside)[column] == "wave_tail, small_grid"
    assert scorer("table").cells(true)[column] == "-"
    found = scorer("summary").rows([before, beside, true])
    assert ("nothing is told that is not true of the program", "33 %", "-", "1 of 3", "no bar", "-") in found


# --- named ---


def test_a_line_is_named_if_a_reader_is_sent_there_first(scorer, case, told) -> None:
    stage = {"file": "./train.py", "line": LINE, "stage": "load"}
    heavy = {
        "looks": [{"alike": [{"row": row(0.6, "train.py", LINE)}], "elsewhere": [row(0.2, "train.py", 3)]}]
    }

    def named(**what) -> tuple[bool | None, str]:
        score = scorer("judged").judged(case, told(finding("sync_bound"), **what))
        return score.named, score.told

    assert named(causes=[cause("x01/train.py", LINE), cause("train.py", 3)]) == (True, f"train.py:{LINE}")
    assert named(causes=[cause("train.py", LINE + 2)])[0]
    assert named(causes=[cause("train.py", 3, stage)]) == (True, f"train.py:{LINE}")
    assert named(breakdown=heavy) == (True, f"train.py:{LINE}")
    assert named(causes=[cause("train.py", 3), cause("train.py", LINE)]) == (False, "train.py:3")
    assert named(causes=[cause("other.py", LINE)]) == (False, f"other.py:{LINE}")
    for file in ("torch/train.py", "/train.py", "x01/sub/train.py", "/x02/train.py"):
        assert named(causes=[cause(file, LINE)]) == (False, f"{file}:{LINE}")
    assert named(causes=[cause("train.py", LINE + 3)])[0] is False
    assert named() == (False, "")
    heavy["looks"][0]["alike"][0]["row"]["time"]["share"] = 0.1
    assert named(breakdown=heavy) == (False, "train.py:3")


@pytest.mark.parametrize("kind", ["layer", "operator"])
def test_a_layer_or_operator_is_named_where_it_is_told_first(scorer, case, told, kind: str) -> None:
    case = replace(case, named=scorer("case").Named(kind, r"blocks\.\*\.conv|aten::convolution"))
    layers = ("blocks.*.conv  Conv2d x4  61 %", "head  Linear  20 %")
    look = {"alike": [], "elsewhere": [], "operators": [{"name": "aten::convolution"}]}

    def named(*remedies, **what) -> tuple[bool | None, str]:
        score = scorer("judged").judged(case, told(finding("sync_bound", "bad", *remedies), **what))
        return score.named, score.told

    assert named(layers=layers) == (True, layers[0])
    assert named(layers=layers[::-1]) == (False, layers[1])
    assert named(remedy("x", seen="NCHW in blocks.*.conv: 61 %."))[0]
    assert named(remedy("blocks.*.conv")) == (False, "")
    assert named(breakdown={"looks": [look]})[0] == (kind == "operator")


def test_a_case_that_names_nothing_is_not_asked(scorer, case, told) -> None:
    assert scorer("judged").judged(replace(case, named=None), told(finding("sync_bound"))).named is None


# --- healthy ---


def test_of_a_healthy_program_silence_is_right(scorer, healthy, told, achieved) -> None:
    judged = scorer("judged").judged
    score = judged(healthy, told(finding("well_used", "info", gain=None)), gain=achieved(1.02))

    assert (score.silent, score.right, score.earned, score.advised) == (True, True, True, False)
    assert (score.rank, score.inside, score.foreseen, score.promise.width) == (None, None, None, None)
    assert score.misses == ()


def test_of_a_healthy_program_a_change_that_slows_is_no_miss_and_is_said_to(
    scorer, healthy, told, achieved
) -> None:
    silent = told(finding("well_used", "info", gain=None))
    scores = [scorer("judged").judged(healthy, silent, gain=achieved(gain)) for gain in (0.5, 0.95)]

    assert [(score.earned, score.slows, score.misses) for score in scores] == [
        (True, True, ()), (True, False, ()),
    ]  # fmt: skip
    [bar] = [bar for bar in scorer("summary").bars(scores) if "tempts" in bar.words]
    assert (bar.words, bar.detail, bar.met) == (
        "the change that tempts gains nothing, and may slow", "2 of 2, 1 much slower by it", True,
    )  # fmt: skip


def test_of_a_healthy_program_advice_is_a_miss_and_so_is_a_change_that_gains(
    scorer, healthy, told, achieved
) -> None:
    base = told(finding("sync_bound", "watch", remedy(READ_BACK)))
    score = scorer("judged").judged(healthy, base, gain=achieved(1.3))

    assert (score.silent, score.right, score.earned, score.advised) == (False, False, False, True)
    assert score.misses == (
        "healthy, and told sync_bound", "advised to do what does not help", "the fix gains 1.30x",
    )  # fmt: skip


# --- trimming ---


def test_trimming_loses_what_changes_the_score(scorer, case, told) -> None:
    whole = told(finding("sync_bound", "bad", remedy(READ_BACK)), causes=[cause("train.py", LINE)])

    def lost(*findings, line: int = LINE) -> tuple[str, ...]:
        trimmed = told(*findings, causes=[cause("train.py", line)])
        return scorer("trimming").lost(case, "base", whole, trimmed)

    start = "trimming has changed "
    advised = remedy(READ_BACK)
    assert lost(finding("sync_bound", "bad", advised, gain=(2.05, 5.8), after="x")) == ()
    assert lost(finding("sync_bound", "watch", advised), finding("launch_bound")) == ()
    assert lost(finding("sync_bound", "bad", advised), line=3) == (f"{start}named: True to False",)
    assert lost(finding("sync_bound", "bad")) == (
        f"{start}whether the fix is advised: True to False", f"{start}the promise: 2.00-6.00 to -",
    )  # fmt: skip
    changed = lost(finding("sync_bound", "bad", advised, gain=(2.2, 6.0)))
    assert changed == (f"{start}the promise: 2.00-6.00 to 2.20-6.00",)
    assert len(lost(finding("sync_bound", "bad", advised, gain=None))) == 1
    other = lost(finding("launch_bound"), finding("sync_bound", "bad", advised))
    assert other == (f"{start}verdict: sync_bound to launch_bound", f"{start}rank: 1 to 2")


def test_of_the_fixed_program_its_verdict_and_its_limits_count(scorer, case, told) -> None:
    whole = told(finding("memory_bound"), limits=("memory bandwidth",))

    def lost(*findings, limits=("memory bandwidth",)) -> int:
        return len(scorer("trimming").lost(case, "fixed", whole, told(*findings, limits=limits)))

    assert lost(finding("memory_bound", "bad", remedy(READ_BACK), gain=None)) == 0
    assert lost(finding("sync_bound")) == 1
    assert lost(finding("memory_bound"), limits=()) == 1


# --- all of them ---


@pytest.fixture
def four(scorer, case, healthy, told, achieved):
    """Right; right by another name, its gain missed; wrong; healthy."""
    judged = scorer("judged").judged
    advised, line = remedy(READ_BACK), [cause("train.py", LINE)]
    after = told(limits=("the host",))
    right = told(finding("sync_bound", "bad", advised), causes=line)
    other = told(finding("host_starved", "bad", advised), causes=line)
    wrong, silent = told(finding("launch_bound")), told(finding("well_used", "info"))
    return [
        judged(case, right, gain=achieved(4.0), stable_s=3.0),
        replace(judged(case, other, fixed=after, gain=achieved(7.0), stable_s=20.0), case="x02"),
        replace(judged(case, wrong, fixed=after, gain=achieved(4.0), stable_s=3.0), case="x03", miss="So."),
        replace(judged(healthy, silent, stable_s=8.0), case="x04"),
    ]


def test_the_bars_count_the_cases_to_which_they_apply(scorer, four) -> None:
    bars = {bar.words: (bar.detail, bar.met) for bar in scorer("summary").bars(four)}

    assert bars == {
        "the true cause is named first": ("2 of 3", False),
        "the true cause is among the first two": ("2 of 3", False),
        "nothing to act on is found in a healthy program": ("1 of 1", True),
        "the line, layer or operator is named": ("2 of 3", False),
        "the achieved gain lies in the promised interval": ("1 of 3", False),
        "the median interval is no wider than": ("2 intervals", False),
        "the next limit is foreseen": ("1 of 2", False),
        "the fix gains what a fix has to": ("3 of 3", True),
        "the change that tempts gains nothing, and may slow": ("0 of 0", None),
        "nothing is told that is not true of the program": ("3 of 3", None),
        "the verdict is right and stable 15 s after warm-up": ("2 of 4", False),
    }
    assert len(scorer("summary").bars(four, with_stable=False)) == len(bars) - 1
    stable = scorer("table").COLUMNS.index("stable")
    assert [scorer("table").cells(score)[stable] for score in four] == ["3 s", "20 s", "-", "8 s"]


def test_the_confusion_has_a_row_for_each_truth_and_wrong_verdicts_in_bold(scorer, four) -> None:
    confusion = scorer("confusion")

    assert confusion.rows(confusion.counts(four)) == [
        ("truth", "sync_bound", "host_starved", "launch_bound", "nothing to act on"),
        ("sync_bound", "1", "1", "**1**", ""),
        ("healthy", "", "", "", "1"),
    ]


def test_the_calibration_counts_both_sides(scorer, four) -> None:
    calibration = scorer("calibration")

    assert calibration.sides(four) == calibration.Sides(below=0, inside=1, above=1)
    low = replace(four[0], gain=replace(four[0].gain, gain=1.5))
    assert calibration.sides([low]) == calibration.Sides(below=1, inside=0, above=0)


def test_the_picture_is_the_same_for_the_same_scores_and_names_what_misses(scorer, four) -> None:
    calibration = scorer("calibration")
    drawn = calibration.svg(four)

    assert drawn == calibration.svg(four)
    assert "x02" in drawn
    assert "x01" not in drawn
    assert len(drawn) < 60_000


def test_the_page_has_every_case_and_every_miss_with_its_reason(scorer, four, case) -> None:
    missing = replace(case, id="x09", title="Not yet")
    page = scorer("page").page(
        four, unmeasured=[missing], dates={"2026-11-30", "2026-12-02"}, hardware={"NVIDIA H200"}
    )

    assert "4 cases were measured, 1 of them healthy: 2026-11-30 to 2026-12-02, NVIDIA H200." in page
    assert (
        "| `x01` | A made-up case | sync_bound | sync_bound | 1 | - | yes | 2.00-6.00 | 4.00 (3.80-4.20) |"
        in page
    )
    assert "| `x02` | A made-up case | sync_bound | (host_starved) | 1 |" in page
    assert "- `x03` A made-up case: launch_bound; sync_bound is not found; " in page
    assert "the fix is not among the remedies. So.\n" in page
    assert "7.00x is not in the interval 2.00-6.00. No reason is known yet." in page
    assert "- `x09` Not yet" in page
    assert "\n- `x01`" not in page
    assert (
        "Of 2 gains 1 lie in the promised interval, 0 below and 1 above it. Of 1 more nothing was promised."
        in page
    )


def test_the_page_says_which_cases_taught_the_rules_that_judge_them(scorer, four) -> None:
    page = scorer("page").page
    taught = [replace(score, first="Nothing was promised." if score.case == "x03" else "") for score in four]
    about = {"unmeasured": [], "dates": ["2026-11-30"], "hardware": ["NVIDIA H200"]}

    assert "Of 1 of the 4 cases something was wrong" in page(taught, **about)
    assert f"- `x03` {four[2].title}: Nothing was promised." in page(taught, **about)
    assert "What these recordings taught" not in page(four, **about)


def test_without_anything_measured_the_page_says_so(scorer, case) -> None:
    page = scorer("page").page([], unmeasured=[case], dates=(), hardware=())

    assert "Nothing has been measured yet." in page
    assert "## The bars" not in page


# --- what a reader is shown ---


def test_a_line_counts_as_named_only_where_a_reader_is_shown_it(scorer) -> None:
    """The copies of g01 take 57 % of the time; with 1 % report.json has the line, and nobody else."""
    replayed = scorer("replayed")
    shown = replayed.replay(KEPT / "g01" / "base")
    [gpu] = replayed.judged_report(KEPT / "g01" / "base").gpus
    shares = {**gpu.diagnosis.shares, "copy": 0.01}
    hidden = replace(gpu, diagnosis=replace(gpu.diagnosis, shares=shares))

    assert (shown.waited_for[0]["line"], shown.waited_for[0]["activity"]) == (32, "copying")
    assert shown.waited_for[0] == shown.gpu["host"]["causes"][0]
    assert replayed.waited_for(hidden) == ()


def test_what_was_said_at_first_is_held_against_what_was_measured_later(scorer, case, told, achieved) -> None:
    judged = scorer("judged").judged
    then = judged(case, told(finding("launch_bound"), finding("sync_bound", after="memory bandwidth")))
    fixed = told(limits=("the host",))
    now = judged(
        case,
        told(finding("sync_bound", "bad", remedy("Read results back rarely"))),
        fixed=fixed,
        gain=achieved(4.0),
        stable_s=3.0,
        at_first=scorer("judged").for_later(then),
    )
    first = now.when_first_judged

    assert (now.rank, now.inside, now.foreseen, now.stable_s) == (1, True, True, 3.0)
    assert (first.verdict, first.rank, first.acting) == ("launch_bound", 2, ("launch_bound", "sync_bound"))
    assert (first.gain, first.inside, first.foreseen) == (now.gain, False, False)
    assert (first.stable_s, first.when_first_judged) == (None, None)
    table = {row[0]: (row[3], row[5]) for row in scorer("summary").rows([now])}
    assert table["the true cause is named first"] == ("1 of 1", "0 %, 0 of 1")
    assert table["the true cause is among the first two"] == ("1 of 1", "100 %, 1 of 1")
    assert table["the verdict is right and stable 15 s after warm-up"] == ("1 of 1", "-")


def test_of_a_recording_that_was_kept_without_what_was_said_of_it_nothing_is_known(
    scorer, case, told
) -> None:
    now = scorer("judged").judged(case, told(finding("sync_bound")))

    assert now.when_first_judged is None
    assert {row[5] for row in scorer("summary").rows([now])[1:]} == {"-"}
