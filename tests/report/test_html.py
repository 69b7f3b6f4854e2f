"""report.html: whole, alone, and safe whatever a recording is named; its numbers are those of the samples."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from perfzero.diagnose.verdict import Fact, Picture, Remedy
from perfzero.report.analysis import judged_report
from perfzero.report.build import Judged, build
from perfzero.report.html import SCRIPTS, html, json_in_markup
from perfzero.report.model import Report, Span
from perfzero.report.page_samples import LEVELS, MISSING, TIME_BYTES, block, deflated, longest, quantised
from perfzero.report.page_words import page_words
from perfzero.report.snippets import SNIPPETS, snippet
from perfzero.values import Gap, Process, Samples
from perfzero.words.catalogue import LANGUAGES

from .conftest import diagnosis, observation, silent_diagnosis, table

RECORDINGS = Path(__file__).parents[1] / "recordings"
HOSTILE = '</script><img src=x onerror="alert(1)"><!--=document--><!-- \u2028 & ]]> \x1b[31m'


def made(**changes: Any) -> str:
    judged = [Judged(observation(), replace(diagnosis(), **changes))]
    return html(build(judged, recording="r", process=Process(1, ("python", "train.py")))).decode()


def document_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="document">(.*?)</script>', page, re.DOTALL)
    document: dict[str, Any] = json.loads(found)
    return document


def inflated(page: str, gpu: int) -> bytes:
    (text,) = re.findall(
        rf'<script type="text/plain" id="data-samples-{gpu}">(.*?)</script>', page, re.DOTALL
    )
    return zlib.decompress(base64.b64decode(text, validate=True))


def test_the_page_says_what_the_report_says() -> None:
    document = document_of(made())
    gpu = document["gpus"][0]
    assert gpu["headline"] == "The GPU waits for data 58 % of the time."
    assert gpu["sure_text"] == "sure"
    assert gpu["gain"]["times"] == "1.9–2.3×"
    assert gpu["next"] == "memory bandwidth"
    assert document["check"] == "perfzero run --against r -- python train.py"
    assert [(bar["key"], bar["text"]) for bar in gpu["truth"]] == [
        ("smi", "57 %"), ("sm", "37 %"), ("tensor", "14 %"), ("dram", "44 %"),
    ]  # fmt: skip
    assert [(c["class"], c["text"], c["per_step"]) for c in gpu["time"]] == [
        ("idle", "58 %", "47 ms"), ("memory", "26 %", "21 ms"), ("tensor", "16 %", "13 ms"),
    ]  # fmt: skip


def test_the_line_to_check_with_has_every_space_and_shows_what_cannot_be_seen() -> None:
    process = Process(1, ("python", "-c", 'print("a  b")\nx = "\u2028"'))
    report = build([Judged(observation(), diagnosis())], recording="r", process=process)

    told = 'perfzero run --against r -- python -c $\'print("a  b")\\nx = "\\342\\200\\250"\''
    assert document_of(html(report).decode())["check"] == report.next_command == told


def test_without_a_verdict_the_page_says_why_and_shares_out_no_time() -> None:
    report = build([Judged(observation(), silent_diagnosis())], recording="r")
    gpu = document_of(html(report).decode())["gpus"][0]
    assert gpu["sure_text"] == "no verdict"
    assert gpu["because"] == "All counters read 0 while nvidia-smi says 57 %: the counters are broken."
    assert gpu["time"] == []


def test_a_recording_without_a_gpu_has_a_page_too() -> None:
    assert document_of(html(build([], recording="r")).decode())["gpus"] == []


def test_names_that_are_markup_stay_text() -> None:
    """Nothing that is recorded can end the element it stands in, or begin another."""
    page = made(headline=HOSTILE, doubts=(HOSTILE,))
    plain = made()
    assert page.count("<script") == plain.count("<script")
    assert page.count("</script") == plain.count("</script")
    assert page.count("<!--") == plain.count("<!--")
    assert "<img" not in page
    said = document_of(page)["gpus"][0]["headline"]
    assert said.startswith('</script><img src=x onerror="alert(1)">')
    assert "\x1b" not in said


def test_text_in_a_script_has_no_sign_that_markup_knows() -> None:
    words = json_in_markup({"a": HOSTILE})
    assert not set("<>&\u2028\u2029") & set(words)
    assert json.loads(words) == {"a": HOSTILE}


def test_the_page_is_alone_and_its_policy_says_so() -> None:
    page = made()
    assert "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:" in page
    assert not re.findall(
        r"""(?:src|href|action|poster)\s*=\s*["']?(?!data:,)[^"'>\s#]""", page.split("<body>")[0]
    )
    assert "url(" not in page
    assert "@import" not in page
    # The one address names where the library comes from, in its own notice.
    assert set(re.findall(r"https?://[^\s\"'<>)]+", page)) <= {
        "https://github.com/leeoniya/uPlot",
        "http://www.w3.org/2000/svg",
    }
    assert "Permission is hereby granted" in page  # the library's licence comes with it


def test_the_same_report_gives_the_same_page() -> None:
    assert made() == made()


def test_every_language_has_every_phrase() -> None:
    for language in LANGUAGES:
        said = page_words(language)
        assert {key: words.count("%s") for key, words in said.items()} == {
            key: words.count("%s") for key, words in page_words("en").items()
        }
    with pytest.raises(KeyError, match="'xx'; there are: en"):
        page_words("xx")


def test_the_page_speaks_chinese() -> None:
    page = html(judged_report(RECORDINGS / "resnet50_nchw"), language="zh").decode()

    assert '<html lang="zh">' in page
    assert page_words("zh")["sec_time"] in page
    made_of = {fact["name"]: fact["made"] for fact in document_of(page)["gpus"][0]["facts"]}
    assert made_of["sm_active"].startswith("SM 上至少驻留一个 warp 的周期占比")
    assert "算。计数器：sm__cycles_active" in made_of["sm_active"]
    assert page_words("en")["sec_time"] not in page


def test_samples_come_back_to_a_thousandth_of_what_they_span() -> None:
    values = np.array([0.0, 0.25, np.nan, 1.9, -0.3, 0.7])
    planes, low, high = quantised(values)
    numbers = np.frombuffer(planes, np.uint8).reshape(2, -1).astype(int)
    numbers = numbers[0] * 256 + numbers[1]
    back = np.where(numbers == MISSING, np.nan, low + numbers * (high - low) / LEVELS)
    assert np.isnan(back[2])
    assert np.nanmax(np.abs(back - values)) <= 2.2 / LEVELS / 2 + 1e-12


@pytest.mark.parametrize(
    "values", [np.full(4, 0.3), np.full(3, np.nan), np.empty(0), np.array([-1e308, 1e308])]
)
def test_a_column_that_spans_nothing_or_everything_is_no_error(values: np.ndarray) -> None:
    planes, low, high = quantised(values)
    assert len(planes) == 2 * len(values)
    assert low <= high


def test_too_many_samples_are_merged_and_few_are_left_alone() -> None:
    noise = np.random.default_rng(1).random(40_000)
    tables = {
        "pm": table(0, 40_000, 0.001).with_columns({"gr_active": noise}),
        "zoom": table(50, 2_000, 0.00002, gr_active=0.5),
        "board": table(0, 40, 1.0, power=300.0),
    }
    whole = block(tables, ("gr_active", "power"), start_ns=0, most=1_000_000).directory
    assert (whole["pm"]["rows"], whole["pm"]["merged"]) == (40_000, 1)
    merged = block(tables, ("gr_active", "power"), start_ns=0, most=20_000)
    assert len(merged.text) <= 20_000
    rows, each = merged.directory["pm"]["rows"], merged.directory["pm"]["merged"]
    assert each >= 3
    assert rows == -(-40_000 // each)
    assert merged.directory["zoom"]["rows"] == 2_000, "a burst stays as fine as it was"
    assert merged.directory["board"]["rows"] == 40


def starts_us(entry: dict[str, Any], content: bytes) -> np.ndarray:
    planes = np.frombuffer(content, np.uint8)[entry["at"] : entry["at"] + TIME_BYTES * entry["rows"]]
    after = planes.reshape(TIME_BYTES, -1).astype(np.int64).T @ (256 ** np.arange(TIME_BYTES - 1, -1, -1))
    found: np.ndarray = entry["first_us"] + np.cumsum(after)
    return found


@pytest.mark.parametrize("most", [5_000, 300])
def test_where_other_tables_are_too_much_they_are_merged_in_few_passes_and_bursts_last(most: int) -> None:
    noise = np.random.default_rng(1).random(10_000)
    tables = {
        "pm": table(0, 300, 0.001, gr_active=0.5),
        "board": table(0, 10_000, 1.0).with_columns({"gr_active": noise}),
        "zoom": table(50, 500, 0.00002).with_columns({"gr_active": noise[:500]}),
    }
    with patch("perfzero.report.page_samples.deflated", wraps=deflated) as packed:
        found = block(tables, ("gr_active",), start_ns=0, most=most)
    assert packed.call_count < 40
    assert len(found.text) <= most
    assert found.directory["board"]["merged"] > 1
    assert (found.directory["zoom"]["merged"] > 1) == (most < 1000), "bursts only where nothing else helps"


def test_a_table_that_hardly_counts_is_not_merged_away_for_one_that_does() -> None:
    """Constant samples compress to nothing: merging them one more at a time took thousands of passes."""
    tables = {
        "pm": table(0, 60_000, 0.001, gr_active=0.5),
        "zoom": table(90, 3_000, 0.00002).with_columns({"gr_active": np.random.default_rng(1).random(3_000)}),
    }
    with patch("perfzero.report.page_samples.deflated", wraps=deflated) as packed:
        found = block(tables, ("gr_active",), start_ns=0, most=6_000)
    assert len(found.text) <= 6_000
    assert packed.call_count < 25
    assert found.directory["pm"]["rows"] >= 500
    assert found.directory["zoom"]["merged"] > 1


def test_of_too_many_steps_the_longest_are_kept_and_none_becomes_two() -> None:
    ends = np.cumsum(np.full(9, 10))
    ends[4:] += 70  # the fifth takes 80
    steps = Samples(np.append(0, ends[:-1]), ends, {})
    kept = longest(steps, 3)
    assert (kept.end_ns - kept.start_ns).tolist() == [10, 80, 10]
    assert kept.start_ns[1] == 40
    assert longest(steps, 1) is steps


def test_rows_hours_apart_are_drawn_when_they_were() -> None:
    """Six bytes of microseconds; four would put the second row at 72 minutes."""
    hours = np.array([0, 3, 3 + 24 * 365]) * 3_600_000_000_000
    found = block({"board": Samples(hours, hours + 1_000, {})}, (), start_ns=0, most=1_000)
    content = zlib.decompress(base64.b64decode(found.text))
    assert starts_us(found.directory["board"], content).tolist() == (hours // 1000).tolist()


def test_times_are_whole_microseconds_from_the_start_of_the_recording() -> None:
    page = made()
    entry = document_of(page)["gpus"][0]["samples"]["pm"]
    starts = starts_us(entry, inflated(page, 0))
    assert starts[:3].tolist() == [20_000_000, 20_001_000, 20_002_000]
    assert starts[1000] == 60_000_000


def test_an_amount_is_drawn_as_a_rate() -> None:
    entry = document_of(made())["gpus"][0]["samples"]["pm"]["columns"]["dram_read_bytes"]
    assert entry["high"] == pytest.approx(1.2e12)


def test_a_remedy_with_code_has_its_change_and_one_without_has_none() -> None:
    assert ("+", 'torch.set_float32_matmul_precision("high")  # TF32 on the tensor cores') in snippet(
        Remedy('Allow TF32: torch.set_float32_matmul_precision("high").')
    )
    assert snippet(Remedy("Have the cooling checked.")) == ()
    assert all(lines for lines in SNIPPETS.values())


def test_a_fact_to_watch_is_as_much_off_as_a_bad_one() -> None:
    (gpu,) = document_of(made())["gpus"]
    off = {fact["status"]: fact["off"] for fact in gpu["facts"]}
    assert off == {"bad": True, "watch": True, "ok": False, "info": False, "unknown": False}
    step = replace(diagnosis().steps[0], facts=(Fact("sm_active", 0.37, "ratio", "watch", "≥ 0.7", -0.47),))
    (watched,) = document_of(made(steps=(step,)))["gpus"][0]["steps"]
    assert watched["held"]["off"] == "yes"
    fine = replace(step, facts=(Fact("sm_active", 0.8, "ratio", "ok", "≥ 0.7", 0.14),))
    assert document_of(made(steps=(fine,)))["gpus"][0]["steps"][0]["held"]["off"] == ""


def test_lengths_of_steps_are_told_in_order() -> None:
    """Of steps of 1 to 100 ms the longest twentieth begins at 95 ms, the longest hundredth at 99 ms."""
    length = np.arange(1, 101) * 1_000_000
    ends = np.cumsum(length)
    picture = Picture(np.column_stack([ends - length, ends]), None, (), Samples.empty(), Samples.empty())
    (gpu,) = document_of(made(picture=picture))["gpus"]
    assert [words for _, words in gpu["step_times"]["figures"]] == [
        "50.5 ms", "95 ms", "99 ms", "100 ms", "25 / 100",
    ]  # fmt: skip
    assert document_of(made())["gpus"][0]["step_times"] is None


def test_power_is_held_against_the_limit_of_the_board() -> None:
    (gpu,) = document_of(html(judged_report(RECORDINGS / "resnet50_nchw")).decode())["gpus"]
    (power,) = [bar for bar in gpu["clocks"] if bar["label"] == page_words("en")["clock_power"]]
    assert (power["text"], round(power["share"], 2)) == ("516 W", 0.74)  # of 700 W
    assert "700 W" in power["note"]


def test_what_is_drawn_is_in_the_units_it_names_and_from_the_same_start() -> None:
    (gpu,) = document_of(made())["gpus"]
    (gap,) = gpu["gaps"]
    assert (gap["at"], gap["length"]) == ("30 s", "3 s")
    scales = {track["unit"]: track["scale"] for track in gpu["tracks"]}
    assert (scales["TB/s"], scales["GB/s"], scales["%"]) == (1e-12, 1e-9, 100)
    (judged,) = [mark for mark in gpu["marks"] if mark["kind"] == "judged"]
    assert (judged["start"], judged["end"]) == (12, 94)
    assert not [m for m in document_of(silent())["gpus"][0]["marks"] if m["kind"] == "judged"]


def silent() -> str:
    return html(build([Judged(observation(), silent_diagnosis())], recording="r")).decode()


def test_the_mean_step_is_drawn_within_its_band() -> None:
    (gpu,) = document_of(html(judged_report(RECORDINGS / "resnet50_nchw")).decode())["gpus"]
    lines = [line for track in gpu["profile"] for line in track["lines"]]
    assert lines
    for line in lines:
        inside = [
            low * 0.999 <= mean <= high * 1.001 + 1e-9
            for low, mean, high in zip(line["low"], line["mean"], line["high"], strict=True)
        ]
        assert np.mean(inside) >= 0.95, line["label"]


def with_gaps(count: int) -> Report:
    report = build([Judged(observation(), diagnosis())], recording="r")
    (gpu,) = report.gpus
    start = gpu.timeline.start_ns
    gaps = tuple(Gap(0, "pm", start + i * 1_000_000, start + i * 1_000_000 + 9, "lost") for i in range(count))
    spans = tuple(Span("gap", i / 1000, i / 1000 + 9e-9) for i in range(count))
    changed = replace(gpu, losses=replace(gpu.losses, gaps=gaps), timeline=replace(gpu.timeline, spans=spans))
    return replace(report, gpus=(changed,))


def test_many_gaps_are_cut_and_counted_and_few_are_all_told() -> None:
    many, few = (document_of(html(with_gaps(n)).decode())["gpus"][0] for n in (50_000, 50))
    assert (len(many["gaps"]), many["more_gaps"]) == (50, "49,950")
    assert (len(few["gaps"]), few["more_gaps"]) == (50, "")
    its = [m for m in many["marks"] if m["kind"] == "gap"]
    assert len(its) <= 2000
    assert its[0]["start"] == 0
    assert its[-1]["end"] == pytest.approx(49.999)
    assert len([m for m in few["marks"] if m["kind"] == "gap"]) == 50
    assert len(html(with_gaps(50_000))) < len(html(with_gaps(50))) + 100_000


def test_where_no_script_runs_the_headline_stands_there_as_text() -> None:
    body = made(headline=HOSTILE).split("<body>")[1].split("<script")[0]
    assert "<h1>&lt;/script&gt;&lt;img" in body
    assert "report.json says the same" in body
    assert "\x1b" not in body


def test_no_script_holds_what_a_browser_of_2022_cannot_parse() -> None:
    """A lookbehind in a regular expression left the whole page blank."""
    for name in SCRIPTS:
        assert "(?<" not in (files("perfzero.report") / "page" / name).read_text("utf-8"), name


def test_the_page_of_a_shipped_recording_is_small() -> None:
    page = html(judged_report(RECORDINGS / "resnet50_nchw"))
    assert len(page) < 400_000


def luminance(colour: str) -> float:
    """Relative luminance of "#rrggbb" (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def themes() -> dict[str, dict[str, str]]:
    """The colours of each theme by name: the first block is light, and dark stands twice, alike."""
    css = (files("perfzero.report") / "page" / "page.css").read_text("utf-8")
    blocks = re.findall(r"color-scheme: (light|dark);(.*?)\}", css, re.DOTALL)
    found = [(name, dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))) for name, block in blocks]
    (_, light), (_, dark), (_, again) = found
    assert dark == again
    return {"light": light, "dark": dark}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(theme: str) -> None:
    """At least 4.5 to 1, as WCAG's AA asks of text."""
    its = themes()[theme]
    inks = ("ink", "soft", "faint", "accent", "ok", "watch", "bad", "unknown", "info")
    pairs = [(ink, paper) for ink in inks for paper in ("paper", "card")]
    pairs += [
        ("add-ink", "add"),
        ("del-ink", "del"),
        ("ink", "watch-wash"),
        ("ink", "wash"),
        ("soft", "wash"),
    ]
    pairs += [("on-dark", f"k-{name}") for name in ("tensor", "fma", "communication", "latency")]
    pairs += [("on-dark", f"c{place}") for place in range(4)]
    assert {pair: round(c, 2) for pair in pairs if (c := contrast(its[pair[0]], its[pair[1]])) < 4.5} == {}
    for name in ("memory", "copy", "small_grid"):
        assert contrast("#1a1c20", its[f"k-{name}"]) >= 4.5


def test_black_on_white_is_21_to_1() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
