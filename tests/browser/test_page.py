"""The page in a real browser: it draws, zooms, sorts, searches, switches, and hurts nobody."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfzero import text
from perfzero.report.build import build
from perfzero.report.html import html
from perfzero.report.model import Report

from .conftest import HOSTILE, Open

Reports = Callable[[str], Report]
Pages = Callable[[str, Report], Path]

DRAWN = """(canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3]) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  }
  return seen.size;
}"""
"""How many colours a canvas shows: nothing is drawn on one that has none."""


def said(text: str | None) -> str:
    """What an element says, with plain spaces."""
    return " ".join((text or "").replace("\u00a0", " ").split())


def timeline(page: Any) -> Any:
    page.locator("#timeline").scroll_into_view_if_needed()
    page.wait_for_selector("#timeline .plot canvas")
    page.wait_for_selector("#timeline .body[data-view]")
    return page.locator("#timeline .plots")


def view(page: Any) -> tuple[float, float]:
    """The stretch of time in sight, after it has been drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    start, end = page.get_attribute("#timeline .body", "data-view").split()
    return float(start), float(end)


def test_the_first_screen_says_what_is_wrong_and_what_to_do(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    its = report("resnet50_nchw")
    page = open_page(pages("nchw", its))
    verdict = its.gpus[0].diagnosis.verdict
    assert verdict is not None
    assert verdict.gain is not None
    assert said(page.text_content("h1")) == its.headline
    assert said(page.text_content(".sure b")) == "sure"
    assert text.times(verdict.gain.low, verdict.gain.high) in said(page.text_content(".gain"))
    assert said(page.text_content(".action dd.main p")) == verdict.remedies[0].text
    assert its.next_command is not None
    assert page.text_content(".command code") == its.next_command
    assert said(page.text_content(".truth")).count("%") >= 4
    box = page.locator(".command").bounding_box()
    assert box["y"] + box["height"] <= 900, "the check is part of the first screen"


def test_all_sections_are_there_and_the_counters_are_drawn(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("fp32", report("_looks/resnet50_fp32")))
    timeline(page)
    names = page.eval_on_selector_all("main section", "(parts) => parts.map((p) => p.id)")
    assert names == [
        "verdict", "steps", "time", "timeline", "step", "layers", "roofline", "clocks", "host", "quality",
        "numbers",
    ]  # fmt: skip
    colours = page.eval_on_selector_all("#timeline canvas", f"(all) => all.map({DRAWN})")
    assert len(colours) >= 8
    assert min(colours) >= 2


def test_dragging_zooms_shift_pans_and_a_double_click_shows_all(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    timeline(page)
    whole = view(page)
    box = page.locator("#timeline .plot .u-over").first.bounding_box()
    x, y, width = box["x"], box["y"] + 40, box["width"]

    page.mouse.move(x + width * 0.5, y)
    page.mouse.down()
    page.mouse.move(x + width * 0.75, y, steps=4)
    page.mouse.up()
    start, end = view(page)
    length = whole[1] - whole[0]
    assert start == pytest.approx(whole[0] + 0.5 * length, abs=0.01 * length)
    assert end == pytest.approx(whole[0] + 0.75 * length, abs=0.01 * length)

    page.keyboard.down("Shift")
    page.mouse.move(x + width * 0.5, y)
    page.mouse.down()
    page.mouse.move(x + width * 0.6, y, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    panned = view(page)
    assert panned[1] - panned[0] == pytest.approx(end - start)
    assert panned[0] == pytest.approx(start - 0.1 * (end - start), rel=0.05)

    page.mouse.dblclick(x + width * 0.3, y)
    assert view(page) == pytest.approx(whole)


def test_wheel_and_keys_zoom_about_where_they_are_asked_to(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    plots = timeline(page)
    whole = view(page)
    box = page.locator("#timeline .plot .u-over").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 30)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -60)
    page.keyboard.up("Control")
    start, end = view(page)
    middle = 0.75 * whole[1]
    assert end - start < whole[1] * 0.7
    assert (middle - start) / (end - start) == pytest.approx(0.75, abs=0.01), "what is pointed at stays there"

    plots.focus()
    page.keyboard.press("0")
    assert view(page) == pytest.approx(whole)
    page.keyboard.press("+")
    start, end = view(page)
    assert end - start == pytest.approx(whole[1] / 2)
    page.keyboard.press("ArrowRight")
    assert view(page)[0] == pytest.approx(start + 0.2 * (end - start))
    page.keyboard.press("Home")
    assert view(page)[0] == 0


def test_ticks_of_the_axis_are_where_they_say(open_page: Open, report: Reports, pages: Pages) -> None:
    """Ticks 2.5 s apart read 2.5, 5.0, 7.5: rounded to whole seconds they would be wrong."""
    page = open_page(pages("nchw", report("resnet50_nchw")))
    steps = {2.5: [0, 2.5, 5], 0.25: [1, 1.25], 10: [10, 20], 0.00005: [3.1, 3.10005]}
    told = {
        s: page.evaluate("([t, s]) => t.map((v) => perfzero.figureAt(v, s))", [t, s])
        for s, t in steps.items()
    }
    assert told == {
        2.5: ["0.0", "2.5", "5.0"], 0.25: ["1.00", "1.25"], 10: ["10", "20"], 0.00005: ["3.10000", "3.10005"],
    }  # fmt: skip


def test_a_plain_wheel_scrolls_the_page(open_page: Open, report: Reports, pages: Pages) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    timeline(page)
    whole, before = view(page), page.evaluate("scrollY")
    box = page.locator("#timeline .plot .u-over").first.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 30)
    page.mouse.wheel(0, 200)
    page.wait_for_timeout(120)
    assert page.evaluate("scrollY") > before
    assert view(page) == whole


def test_what_is_drawn_is_what_was_sampled(open_page: Open, report: Reports, pages: Pages) -> None:
    """The mean over all samples of a window, as the legend tells it, is the mean of the recording."""
    its = report("resnet50_nchw")
    page = open_page(pages("nchw", its))
    timeline(page)
    pm = its.gpus[0].timeline.tables["pm"]
    start_ns = its.gpus[0].timeline.start_ns
    first, last = 3000, 3100  # 0.2 s within one window
    from_s, to_s = (pm.start_ns[first] - start_ns) / 1e9, (pm.end_ns[last - 1] - start_ns) / 1e9
    found = page.evaluate(
        """async ([from, to]) => {
          const { start, end, line } = (await perfzero.tablesOf(0)).pm;
          const mean = [null], low = [null], high = [null];
          line('sm_active').fill(from, to, mean, low, high, 1);
          return [mean[0], low[0], high[0], start.length];
        }""",
        [from_s, to_s],
    )
    values = pm.column("sm_active")[first:last]
    span = float(pm.column("sm_active").max() - pm.column("sm_active").min())
    assert found[3] == len(pm)
    assert found[0] == pytest.approx(values.mean(), abs=span / 1000)
    assert found[1] == pytest.approx(values.min(), abs=span / 1000)
    assert found[2] == pytest.approx(values.max(), abs=span / 1000)


def test_sums_over_blocks_say_what_the_samples_say(open_page: Open, report: Reports, pages: Pages) -> None:
    """A value per pixel made of 16 and 256 samples at a time is the one made of them one by one."""
    page = open_page(pages("nchw", report("resnet50_nchw")))
    off = page.evaluate(
        """() => {
          const n = 70000, values = new Float32Array(n);
          const start = new Float64Array(n), end = new Float64Array(n);
          for (let i = 0; i < n; i++) {
            start[i] = i * 0.001 + (i > 30000 ? 5 : 0); end[i] = start[i] + 0.001;
            values[i] = i % 97 === 0 ? NaN : Math.sin(i * 0.7) + (i === 12345 ? 50 : 0);
          }
          const fast = new perfzero.Line(start, end, values), slow = new perfzero.Line(start, end, values);
          slow.levels = [];
          let worst = 0, holes = 0;
          for (const [from, to] of [[0, 75], [3.3337, 41.1], [29.9, 36.2], [12.3, 12.5]]) {
            const a = [0, 1, 2].map(() => new Array(311).fill(null)), b = a.map((x) => [...x]);
            fast.fill(from, to, ...a, 1);
            slow.fill(from, to, ...b, 1);
            a.forEach((line, k) => line.forEach((v, i) => {
              if ((v === null) !== (b[k][i] === null)) worst = Infinity;
              if (v === null) holes++; else worst = Math.max(worst, Math.abs(v - b[k][i]));
            }));
          }
          return [worst, holes];
        }"""
    )
    assert off[0] < 1e-5
    assert off[1] > 0, "the hole in the samples is one in the line"


def test_tables_sort_and_search_and_the_tree_is_entered(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    its = report("_looks/resnet50_fp32")
    page = open_page(pages("fp32", its))
    page.locator("#layers").scroll_into_view_if_needed()
    page.wait_for_selector("#layers .rows tbody tr")
    (look,) = its.breakdowns.values()
    heaviest = max(look.alike, key=lambda a: a.row.time.gpu_ns)
    first = page.locator("#layers .rows tbody tr:not(.space) td").first
    assert said(first.text_content()) == heaviest.row.name

    page.get_by_role("button", name="DRAM bytes", exact=True).click()
    most = max(look.alike, key=lambda a: _bytes(a.row.counted))
    assert said(first.text_content()) == most.row.name
    page.get_by_role("button", name="DRAM bytes", exact=True).click()
    assert page.locator("#layers th[aria-sort=ascending]").count() == 1

    page.fill("#layers input[type=search]", "LAYER3")
    names = page.eval_on_selector_all(
        "#layers .rows tbody tr:not(.space)", "(r) => r.map((x) => x.cells[0].textContent)"
    )
    assert names
    assert all("layer3" in name for name in names)
    page.fill("#layers input[type=search]", "nothing of the kind")
    assert page.locator("#layers .rows tbody tr:not(.space)").count() == 0
    page.fill("#layers input[type=search]", "")
    page.get_by_role("tab", name="Kernels").click()
    page.get_by_role("button", name="time", exact=True).click()
    slowest = max(look.kernels, key=lambda k: k.row.time.gpu_ns)
    assert said(first.text_content()) == text.printable(slowest.row.name)

    canvas = page.locator("#layers .icicle canvas")
    canvas.click(position={"x": 60, "y": 28 * 2 + 10})
    assert canvas.get_attribute("data-at") != "0"
    assert "layer1" in said(page.text_content("#layers .path"))
    page.get_by_role("button", name="Up", exact=True).click()
    page.get_by_role("button", name="Up", exact=True).click()
    assert canvas.get_attribute("data-at") == "0"
    canvas.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "layer1" in said(page.text_content("#layers .path"))


def test_the_tree_is_as_wide_as_time_or_as_bytes(open_page: Open, report: Reports, pages: Pages) -> None:
    its = report("_looks/resnet50_fp32")
    (look,) = its.breakdowns.values()
    page = open_page(pages("fp32", its))
    page.locator("#layers").scroll_into_view_if_needed()
    page.get_by_role("button", name="by DRAM bytes").click()
    page.locator("#layers .icicle canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    depth_two = [m for m in look.modules if m.depth == 1]
    most = max(depth_two, key=lambda m: _bytes(m.total_counted))
    told = said(page.text_content("#layers .path"))
    assert told.startswith(f"{most.path} · {most.class_name} · ")
    assert text.quantity(_bytes(most.total_counted), "bytes") in told


def _bytes(counted: Any) -> float:
    value = counted.dram_read_bytes.value + counted.dram_write_bytes.value
    return -math.inf if math.isnan(value) else float(value)


def test_fifty_thousand_nodes_do_not_hang(open_page: Open, report: Reports, pages: Pages) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    spent = page.evaluate(
        """() => {
          const n = 50000, parent = [-1], name = [0], kind = [0], ns = [n];
          for (let i = 1; i < n; i++) {
            parent.push(Math.floor((i - 1) / 6)); name.push(1); kind.push(1); ns.push(1);
          }
          for (let i = n - 1; i > 0; i--) if (parent[i] > 0) ns[parent[i]] += ns[i];
          const tree = { names: ['', 'module'], kinds: ['work', 'module'], parent, name, kind, ns };
          const look = { busy_ns: n, steps: 1 };
          const view = { rows: n, names: ['a'], columns: { name: name.map(() => 0), share: ns, ns } };
          const none = { rows: 0, names: [], columns: {} };
          const began = performance.now();
          const icicle = new perfzero.Icicle(tree, look);
          document.body.append(icicle.node);
          icicle.draw();
          const views = { layers: view, operators: none, kernels: none, lines: none };
          const table = new perfzero.Rows(views, look);
          document.body.append(table.node);
          table.find('a');
          return [performance.now() - began, icicle.boxes.length, table.rows.children.length];
        }"""
    )
    assert spent[0] < 3000
    assert spent[1] < 20_000
    assert spent[2] < 100, "only rows in sight are in the document"


def test_another_gpu_is_shown_where_it_is_asked_for(open_page: Open, report: Reports, pages: Pages) -> None:
    its = report("_looks/ddp")
    page = open_page(pages("ddp", its))
    assert said(page.text_content("h1")) == its.gpus[0].diagnosis.headline
    page.click("[data-gpu='1']")
    page.wait_for_selector("html[data-ready]", state="attached")
    assert said(page.text_content("h1")) == its.gpus[1].diagnosis.headline
    assert page.get_attribute("[data-gpu='1']", "aria-pressed") == "true"
    timeline(page)
    assert len(page.query_selector_all("#timeline .plot")) >= 5


def test_the_theme_follows_the_system_until_it_is_chosen(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    path = pages("nchw", report("resnet50_nchw"))
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light, dark = open_page(path), open_page(path, dark=True)
    assert light.evaluate(paper) != dark.evaluate(paper)
    timeline(dark)
    dark.click("button.theme")
    assert dark.evaluate(paper) == light.evaluate(paper)


@pytest.mark.parametrize(("width", "height", "touch"), [(390, 844, True), (3840, 2160, False)])
def test_it_fits_a_phone_and_a_large_screen(
    open_page: Open, report: Reports, pages: Pages, width: int, height: int, touch: bool
) -> None:
    page = open_page(pages("fp32", report("_looks/resnet50_fp32")), width=width, height=height, touch=touch)
    timeline(page)
    page.locator("#layers").scroll_into_view_if_needed()
    page.wait_for_selector("#layers .rows tbody tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    measure = page.evaluate(
        """() => {
          const words = document.querySelector('.because');
          return words.clientWidth / parseFloat(getComputedStyle(words).fontSize);
        }"""
    )
    assert measure < 45, "a line of text stays short enough to be read"
    size = page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)")
    assert size == (16 if width == 390 else 24)
    axis = float(page.evaluate("perfzero.axisFont()").split("px")[0])
    assert axis == pytest.approx(11 * size / 16)
    page.locator("#roofline").scroll_into_view_if_needed()
    page.wait_for_selector("#roofline .drawing text", state="attached")
    word = page.eval_on_selector("#roofline .drawing text", "(n) => parseFloat(getComputedStyle(n).fontSize)")
    assert word == 0.75 * size


def test_what_is_named_as_markup_is_shown_as_text(open_page: Open, hostile: Report, pages: Pages) -> None:
    page = open_page(pages("hostile", hostile))
    assert said(page.text_content("h1")) == HOSTILE
    page.locator("#layers").scroll_into_view_if_needed()
    page.get_by_role("tab", name="Kernels").click()
    assert said(page.text_content("#layers .rows tbody tr:not(.space) td")).startswith(HOSTILE)
    assert page.locator("img").count() == 0


def test_without_a_verdict_the_page_says_so(open_page: Open, report: Reports, pages: Pages) -> None:
    its = report("killed")
    page = open_page(pages("killed", its))
    assert said(page.text_content("h1")) == its.headline
    empty = open_page(pages("empty", build([], recording="r")))
    assert said(empty.text_content("h1")) == "No verdict: the recording holds no GPU."


def test_a_counter_is_explained_by_keyboard(open_page: Open, report: Reports, pages: Pages) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    page.locator("#numbers .tip").first.focus()
    tooltip = page.locator("#tooltip")
    assert tooltip.is_visible()
    assert "gr__cycles_active" in said(tooltip.text_content())
    page.keyboard.press("Escape")
    assert not tooltip.is_visible()


def test_numbers_are_written_as_the_terminal_writes_them(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    shares = [0, 1e-5, 0.00031, 0.0071, 0.04449, 0.0996, 0.42, 0.9896, 0.9949, 0.997, 0.99951, 1, -0.02, 1.11]
    times = [0, 2.2e-9, 9.99e-7, 3.8e-6, 0.00104, 0.0999, 0.9996, 1.234, 31.4, 99.96, 130, 3599.6, 3600, 3900]
    amounts = [0, 1, 999.4, 999.7, 1e3, 61.4e12, 999.7e9, 1.2e12, 4.31e12]
    assert page.evaluate("(v) => v.map(perfzero.percent)", shares) == [text.percent(v) for v in shares]
    assert page.evaluate("(v) => v.map((x) => perfzero.duration(x))", times) == [
        text.duration(v) for v in times
    ]
    assert page.evaluate("(v) => v.map((x) => perfzero.amount(x, 'B/s'))", amounts) == [
        text.quantity(v, "bytes/s") for v in amounts
    ]


def test_the_first_screen_is_painted_at_once(open_page: Open, report: Reports, pages: Pages) -> None:
    page = open_page(pages("fp32", report("_looks/resnet50_fp32")))
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < 2000


def test_it_prints_without_the_controls(open_page: Open, report: Reports, pages: Pages) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    page.emulate_media(media="print")
    assert not page.locator(".bar").is_visible()
    assert page.locator("h1").is_visible()
    page.locator("#step .phases").scroll_into_view_if_needed()
    assert page.locator("#step .phases button").first.is_visible(), "the phases are no controls"


def test_on_paper_it_is_light_and_the_table_of_layers_is_there(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("fp32", report("_looks/resnet50_fp32")), dark=True)
    page.locator("#layers").scroll_into_view_if_needed()
    page.wait_for_selector("#layers .rows tbody tr")
    ink = "() => getComputedStyle(document.body).color"
    assert page.evaluate(ink) == "rgb(236, 238, 241)"
    page.click("button.theme")
    page.click("button.theme")  # dark by choice, too
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(ink) == "rgb(26, 28, 32)"
    assert page.locator("#layers .rows tbody tr").first.is_visible()
    assert page.locator("#layers .rows th button").first.is_visible()
    assert page.locator("#layers .lead").first.is_visible()
    assert not page.locator("#layers .tools").first.is_visible()


def test_a_gpu_asked_for_twice_is_shown_once_and_keeps_the_focus(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("ddp", report("_looks/ddp")))
    page.dblclick("[data-gpu='1']")
    page.wait_for_selector("html[data-ready]", state="attached")
    page.wait_for_timeout(200)
    names = page.eval_on_selector_all("main section", "(parts) => parts.map((p) => p.id)")
    assert len(names) == len(set(names)) >= 8
    assert page.locator("footer").count() == 1
    assert page.evaluate("document.activeElement.dataset.gpu") == "1"


def test_a_link_leads_to_its_section_though_those_above_grow_and_lets_go(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("fp32", report("_looks/resnet50_fp32")))
    page.click(".bar nav a[href='#host']")
    page.wait_for_timeout(1200)
    top = "() => document.getElementById('host').getBoundingClientRect().top"
    assert 0 <= page.evaluate(top) <= 80
    page.mouse.wheel(0, -500)
    page.wait_for_timeout(400)
    assert page.evaluate(top) > 80


def test_data_that_was_cut_short_is_told_where_it_is_missing(
    open_page: Open, report: Reports, pages: Pages, tmp_path: Path
) -> None:
    whole = pages("fp32", report("_looks/resnet50_fp32")).read_text("utf-8")
    for name in ("data-samples-0", "data-layers"):
        at = whole.index(f'id="{name}">') + len(f'id="{name}">')
        whole = whole[: at + 400] + whole[whole.index("</script>", at) :]
    (tmp_path / "cut.html").write_text(whole, "utf-8")
    page = open_page(tmp_path / "cut.html")
    for name in ("timeline", "layers", "roofline", "times"):
        if page.locator(f"#{name}").count():
            page.locator(f"#{name}").scroll_into_view_if_needed()
            page.wait_for_selector(f"#{name} .why")
            assert "could not be drawn" in said(page.text_content(f"#{name} .why"))
    assert page.locator("#steps .why").count() == 0


def test_a_deep_tree_stays_low_and_a_look_without_rows_says_so(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    tall, deep, words = page.evaluate(
        """() => {
          const n = 20000, zeros = new Array(n).fill(0);
          const parent = zeros.map((_, i) => i - 1), ns = zeros.map(() => 1);
          const tree = { names: ['a'], kinds: ['module'], parent, name: zeros, kind: zeros, ns };
          const icicle = new perfzero.Icicle(tree, { busy_ns: 1, steps: 1 });
          document.body.append(icicle.node);
          icicle.draw();
          const tall = icicle.canvas.clientHeight;
          icicle.enter(15000);
          const none = { rows: 0, names: [], columns: {} };
          const views = { layers: none, operators: none, kernels: none, lines: none };
          const rows = new perfzero.Rows(views, { first: 'layers' });
          return [tall, icicle.canvas.clientHeight, rows.node.textContent];
        }"""
    )
    assert 28 * 5 < tall <= 28 * 50
    assert tall < deep <= 28 * 50
    assert "no row" in words


def test_views_are_chosen_with_arrow_keys_and_a_link_skips_the_bar(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("fp32", report("_looks/resnet50_fp32")))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("#layers").scroll_into_view_if_needed()
    page.locator("#layers [role=tab][aria-selected=true]").focus()
    page.keyboard.press("ArrowRight")
    tab = page.locator("#layers [role=tab][aria-selected=true]")
    assert tab.get_attribute("data-view") == "operators"
    assert page.evaluate("document.activeElement.dataset.view") == "operators"
    panel = page.locator(f"#{tab.get_attribute('aria-controls')}")
    assert panel.get_attribute("role") == "tabpanel"
    assert panel.get_attribute("aria-labelledby") == tab.get_attribute("id")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.view") == "operators", "other keys do nothing"


def test_a_command_of_megabytes_leaves_the_verdict_on_the_first_screen(
    open_page: Open, report: Reports, tmp_path: Path
) -> None:
    its = report("resnet50_nchw")
    long = ("python", "-c", "x = 1; " * 100_000)
    command = replace(its, process=replace(its.process, command=long), next_command=" ".join(long))
    (tmp_path / "long.html").write_bytes(html(command))
    page = open_page(tmp_path / "long.html")
    assert page.locator(".eyebrow").bounding_box()["height"] < 120
    assert page.locator("h1").bounding_box()["y"] < 300
    assert page.locator(".command").bounding_box()["height"] < 250


def test_another_look_is_shown_on_the_roofline_too(open_page: Open, report: Reports, pages: Pages) -> None:
    its = report("_looks/ddp")
    assert len(its.breakdowns) == 2
    page = open_page(pages("ddp", its))
    page.locator("#layers").scroll_into_view_if_needed()
    page.eval_on_selector("#roofline .body > *", "(node) => { node.id = 'before'; }")
    page.locator("#layers .tools button[aria-pressed=false]").first.click()
    assert page.locator("#before").count() == 0
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_what_is_unknown_comes_last_whichever_way_a_table_is_sorted(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    order = page.evaluate(
        """() => {
          const view = { rows: 4, names: ['a', 'b', 'c', 'd'],
            columns: { name: [0, 1, 2, 3], share: [0.1, null, 0.3, 0.2] } };
          const none = { rows: 0, names: [], columns: {} };
          const views = { layers: view, operators: none, kernels: none, lines: none };
          const table = new perfzero.Rows(views, { first: 'layers' });
          const down = [...table.order];
          table.head.children[1].querySelector('button').click();
          return [down, table.order];
        }"""
    )
    assert order == [[2, 3, 0, 1], [0, 3, 2, 1]]


def test_the_look_of_a_gpu_is_its_own_where_there_is_one(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("ddp", report("_looks/ddp")))
    gpus = page.evaluate("() => [0, 1, 7].map((index) => perfzero.lookOf({ index }))")
    theirs = page.evaluate("() => perfzero.found.looks.map((look) => look.gpus)")
    assert [theirs[gpus[0]], theirs[gpus[1]]] == [[0], [1]]
    assert gpus[2] == 0, "else the busiest"


def test_a_dot_a_gauge_and_a_second_way_say_what_they_were_given(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    dots = page.evaluate(
        """() => perfzero.placed({ rows: 2, names: ['a'], columns: { name: [0, 0], share: [0.5, 0.1],
          flops: [4e9, 0], intensity: [8, null], ns: [2e6, 1e6] } }).map((r) => [r.rate, r.intensity])"""
    )
    assert dots == [[2e12, 8]], "4 GFLOP in 2 ms; what computes nothing has no place"
    places = page.evaluate(
        """() => {
          const node = document.createElement('div');
          const its = { name: 'x', threshold: '', points: '', off: '' };
          node.append(...perfzero.held({ held: its, scale: { value: 0.25, limit: 0.9 } }).filter(Boolean));
          return [node.querySelector('i').style.width, node.querySelector('u').style.left];
        }"""
    )
    assert places == ["25%", "90%"]
    gains = page.evaluate(
        """() => {
          const way = { text: 'a', needs: [], seen: '', next: '', verify: '', gain: null, snippet: [] };
          const gpu = { healthy: '', undecided: '', next: '', gain: { times: '2-3×', assumption: '' },
            remedies: [way, way, { ...way, gain: { times: '1.1×', assumption: '' } }] };
          const ways = [...perfzero.actions(gpu).querySelectorAll('.way')];
          return ways.map((n) => n.querySelector('.gain')?.textContent ?? '');
        }"""
    )
    assert ["2-3×" in gains[0], gains[1], "1.1×" in gains[2]] == [True, "", True]


def test_of_another_remedy_the_limit_after_it_is_told_beside_it(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    told = page.evaluate(
        """() => {
          const way = { text: 'a', needs: [], seen: '', next: '', verify: '', gain: null, snippet: [] };
          const gpu = { healthy: '', undecided: '', next: 'the host', gain: null, severity: 'bad',
            remedies: [way, { ...way, next: 'memory' }] };
          const card = perfzero.actions(gpu);
          return [...card.querySelectorAll('.way')].map((n) => n.textContent).concat(card.textContent);
        }"""
    )
    assert [text.count("next limit is memory") for text in told] == [0, 1, 1]
    assert told[2].count("next limit is the host") == 1


def test_where_no_remedy_is_left_the_page_has_nothing_to_check(
    open_page: Open, report: Reports, pages: Pages
) -> None:
    page = open_page(pages("nchw", report("resnet50_nchw")))
    told = page.evaluate(
        """() => {
          const way = { text: 'a', needs: [], seen: '', verify: '', gain: null, snippet: [] };
          const gpu = { healthy: '', undecided: '', next: '', gain: null, severity: 'bad', remedies: [] };
          const check = (changed) =>
            Boolean(perfzero.actions({ ...gpu, ...changed })?.querySelector('.command'));
          const doctor = (changed) =>
            perfzero.actions({ ...gpu, ...changed })?.textContent.includes('doctor') ?? false;
          return [check({}), check({ remedies: [way] }), check({ severity: 'none' }), doctor({})];
        }"""
    )
    assert told == [False, True, True, False]
