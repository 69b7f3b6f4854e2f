"""A sentence is an English string that knows its key, whatever is done with it in between."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, dataclass, replace

import pytest

from perfzero.words.said import Said, clause, counted, enumeration, first_line, joined, listed, say, without


@dataclass(frozen=True, slots=True)
class Holder:
    sentence: str
    number: int = 0


def test_a_sentence_is_its_english_words() -> None:
    assert say("of_several", index=1, count=8, headline="All is well.") == "GPU 1 of 8: All is well."


def test_a_sentence_knows_its_key_and_its_values() -> None:
    said = say("expect", gain="1.9–2.3×")

    assert said.key == "expect"
    assert said.values == {"gain": "1.9–2.3×"}


def test_a_sentence_that_no_catalogue_has_is_refused() -> None:
    with pytest.raises(KeyError, match="no_such_sentence"):
        say("no_such_sentence")


def test_a_value_that_is_missing_is_refused() -> None:
    with pytest.raises(KeyError, match="gain"):
        say("expect")


def test_braces_in_a_value_are_left_alone() -> None:
    assert say("expect", gain="{gain} {0}") == "expect {gain} {0}"


def test_what_is_copied_or_replaced_keeps_its_key() -> None:
    said = say("expect", gain="2×")
    whole = Holder(said)

    for kept in (
        copy.copy(said),
        copy.deepcopy(said),
        asdict(whole)["sentence"],
        replace(whole, number=1).sentence,
    ):
        assert isinstance(kept, Said)
        assert (kept, kept.key, kept.values) == (said, "expect", {"gain": "2×"})


def test_a_sentence_survives_being_rebuilt_from_its_parts() -> None:
    said = say("expect", gain="2×")
    make, parts = said.__reduce__()

    again = make(*parts)

    assert (again, again.key, again.values) == (said, said.key, said.values)


def test_a_file_gets_the_plain_words() -> None:
    assert json.dumps(say("expect", gain="2×")) == '"expect 2\\u00d7"'


def test_what_is_cut_out_of_a_sentence_is_a_sentence_no_more() -> None:
    assert not isinstance(say("expect", gain="2×")[:3], Said)


def test_a_clause_is_the_sentence_without_its_full_stop() -> None:
    assert clause(say("smi_said", smi="33 %")) == "nvidia-smi said 33 %"
    assert clause("What a driver said.") == "What a driver said"


def test_a_message_has_a_first_line() -> None:
    message = say("file.stacks_cut", file="stacks.json.gz")

    assert first_line(message) == "stacks.json.gz is cut short or damaged."
    assert first_line("") == ""


def test_sentences_in_a_row_are_one() -> None:
    said = joined("join.sentences", [say("smi_said", smi="33 %"), say("roofs_by_table")])

    assert said == "nvidia-smi said 33 %. Roofs by the table."
    assert isinstance(said, Said)


def test_things_are_enumerated_with_an_and() -> None:
    assert enumeration(("a", "b", "c")) == "a, b and c"
    assert enumeration(("a", "b")) == "a and b"
    assert enumeration(("a",)) == "a"
    assert enumeration(()) == ""
    assert listed(("a", "b", "c")) == "a, b, c"


def test_one_of_a_kind_is_singular() -> None:
    assert counted(1, "gap") == "1 gap"
    assert counted(0, "gap") == "0 gaps"
    assert counted(12_345, "step") == "12,345 steps"


def test_a_part_of_a_sentence_can_be_left_out() -> None:
    said = say("host.main_busy", main="54 %", maybe=say("host.maybe_busy"))
    rest = without(said, "maybe")

    assert rest == "the main thread is at 54 % of a core"
    assert isinstance(rest, Said)
    assert without(rest, "maybe") == rest


@pytest.mark.parametrize("sentence", [say("no_gpu"), "a plain one", listed(("a", "b"))])
def test_a_sentence_without_such_a_part_stays_as_it_is(sentence: str) -> None:
    assert without(sentence, "maybe") is sentence
