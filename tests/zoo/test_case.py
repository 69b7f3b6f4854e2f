"""What a case says, and what it may not say."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_a_case_is_read_whole(scorer, made_up: Path) -> None:
    case = scorer("case").read_case(made_up)

    assert (case.id, case.program, case.seconds, case.arguments) == ("x01", "train.py", 24.0, ())
    assert case.truth.causes == ("sync_bound", "host_starved")
    assert (case.named.kind, case.fix.least_gain, case.fix.gain) == ("line", 1.5, (3.0, 5.0))
    assert (case.miss, case.turn_s) == ("", None)
    command = case.command(python="py", seconds=24, fixed=True)
    assert command == ["py", str(made_up / "train.py"), "--seconds", "24", "--fixed"]
    assert case.typed(fixed=False) == "perfzero run -o x01 -- python zoo/x01/train.py --seconds 24"


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('title = "A made-up case"', "", "title is missing"),
        ("seconds = 24", 'seconds = "24"', "seconds is '24'"),
        ("seconds = 24", "seconds = 240", "seconds are 240"),
        ("seconds = 24", "seconds = 24\nturn_seconds = 60", "turn_seconds are 60"),
        ('category = "made-up"', 'category = "made-up"\ncolour = "red"', "colour is not known"),
        ('why = "It waits."', 'why = "It waits."\nwho = "me"', r"truth\.who is not known"),
        ('program = "train.py"', 'program = "serve.py"', "no program 'serve.py'"),
        ('"sync_bound", ', '"sink_bound", ', "no rule 'sink_bound'"),
        ('also = ["launch_bound"]', 'also = ["sync_bound"]', "said twice: sync_bound"),
        ("healthy = false", "healthy = true", "a healthy case has no least_gain"),
        ("least_gain = 1.5", "least_gain = 1.1", "less than 1.15"),
        ("least_gain = 1.5", "", r"fix\.least_gain is missing"),
        ("gain = [3.0, 5.0]", "gain = [5.0, 3.0]", "from 5 to 3"),
        ("gain = [3.0, 5.0]", "gain = [5.0]", r"fix\.gain is \[5\.0\]"),
        ('remedy = "read.*back"', 'remedy = "read("', "no regular expression"),
        ('kind = "line"', 'kind = "place"', "named.kind is 'place'"),
        ('kind = "line"', 'kind = "operator"', ""),
        ('what = "time.sleep"', 'what = "time"', "is in 4 lines of train.py, not in one"),
        ('what = "time.sleep"', 'what = "time.slip"', "is in 0 lines"),
        ("title =", "title ==", "x01: "),
    ],
)
def test_a_case_that_is_not_right_says_what_is_wrong(
    scorer, made_up: Path, before: str, after: str, problem: str
) -> None:
    case = scorer("case")
    text = (made_up / "case.toml").read_text()
    assert before in text
    (made_up / "case.toml").write_text(text.replace(before, after, 1))

    if problem:
        with pytest.raises(case.BadCase, match=problem):
            case.read_case(made_up)
    else:
        assert case.read_case(made_up).named.kind == "operator"


def test_what_was_measured_holds_until_the_program_or_its_call_changes(scorer, made_up: Path) -> None:
    case = scorer("case")

    def keys() -> tuple[str, str, str]:
        found = case.read_case(made_up)
        recordings = (case.recording_key(found, fixed=fixed) for fixed in (False, True))
        return case.gains_key(found), *recordings

    def change(file: str, before: str, after: str) -> None:
        text = (made_up / file).read_text()
        (made_up / file).write_text(text.replace(before, after))

    first = keys()
    assert len(set(first)) == 3
    for prose in (("It waits.", "It sleeps."), ('"host_starved"]', "]"), ('"made-up"', '"other"')):
        change("case.toml", *prose)
    assert keys() == first
    change("case.toml", "seconds = 24", "seconds = 20")
    assert keys()[0] == first[0]
    assert not set(keys()[1:]) & set(first)
    change("case.toml", "seconds = 20", "seconds = 24")
    change("train.py", "step += 1", "step += 2")
    assert not set(keys()) & set(first)
    change("train.py", "step += 2", "step += 1")
    change("case.toml", "arguments = []", 'arguments = ["--slow"]')
    assert not set(keys()) & set(first)


def test_cases_are_chosen_by_name_or_as_a_part_of_all(scorer, made_up: Path) -> None:
    case = scorer("case")
    for name in ("x02", "x03"):
        (made_up.parent / name).mkdir()
        for file in ("case.toml", "train.py"):
            (made_up.parent / name / file).write_text((made_up / file).read_text())
    (made_up.parent / "no_case").mkdir()

    def chosen(**how: object) -> list[str]:
        return [found.id for found in case.choose(zoo=made_up.parent, **how)]

    assert chosen() == ["x01", "x02", "x03"]
    assert chosen(only=["x03", "x01"]) == ["x03", "x01"]
    assert [chosen(part=(k, 2)) for k in (1, 2)] == [["x01", "x03"], ["x02"]]
    with pytest.raises(case.BadCase, match="no such case: y"):
        chosen(only=["y"])
    with pytest.raises(case.BadCase, match="no part 3 of 2"):
        chosen(part=(3, 2))


def test_all_lines_of_a_statement_are_as_good_as_the_one_that_is_named(scorer, made_up: Path) -> None:
    case = scorer("case")
    lines = (made_up / "train.py").read_text().splitlines()
    first = next(i for i, line in enumerate(lines, 1) if "time.sleep" in line)

    assert case.lines_of(case.read_case(made_up)) == range(first, first + 3)


def test_of_a_loop_its_head_alone_is(scorer, made_up: Path) -> None:
    case = scorer("case")
    text = (made_up / "case.toml").read_text().replace('"time.sleep"', '"while time"')
    (made_up / "case.toml").write_text(text)
    lines = (made_up / "train.py").read_text().splitlines()
    head = next(i for i, line in enumerate(lines, 1) if "while time" in line)

    assert case.lines_of(case.read_case(made_up)) == range(head, head + 1)
