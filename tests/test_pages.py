"""What makes the pages of the documentation: examples that are run, and links of the site."""

from __future__ import annotations

import examples
import pytest
import site_pages

FENCE = "```"


def page(*lines: str) -> str:
    return "\n".join(["# A page", "", f"{FENCE}console", *lines, FENCE, "", "The end.", ""])


def test_what_a_command_prints_stands_below_it() -> None:
    """The second command sees what the first one made; old output goes."""
    filled = examples.filled(page("$ echo one > file", "$ cat file; echo two >&2", "three"))

    assert filled == page("$ echo one > file", "$ cat file; echo two >&2", "one", "two")
    assert examples.filled(filled) == filled


def test_a_block_that_is_no_console_is_left_alone() -> None:
    text = f"{FENCE}\n$ false\n{FENCE}\n"

    assert examples.filled(text) == text


@pytest.mark.parametrize("command", ["false", "false | cat", "perfzero analyze nowhere"])
def test_a_page_may_not_show_a_command_that_fails(command: str) -> None:
    with pytest.raises(examples.ExampleError, match="ended with"):
        examples.filled(page(f"$ {command}"))


def test_examples_speak_english_without_colour_wherever_they_run(monkeypatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.setenv("PERFZERO_DEBUG", "1")
    shown = examples.filled(page("$ echo [$LC_ALL$PERFZERO_DEBUG] $LANG $COLUMNS $NO_COLOR"))

    assert "[] C.UTF-8 100 1" in shown


PAGES = {"rules.md", "README.md", "project/readme.md", "project/benchmarks.md"}


@pytest.mark.parametrize(
    ("at", "link", "turned"),
    [
        ("rules.md", "[a](README.md#x)", "[a](README.md#x)"),
        ("rules.md", "[a](../README.md)", "[a](project/readme.md)"),
        ("rules.md", "[a](../benchmarks/README.md#b)", "[a](project/benchmarks.md#b)"),
        ("project/readme.md", "[a](docs/rules.md)", "[a](../rules.md)"),
        ("project/readme.md", "[a](docs/)", "[a](../README.md)"),
        ("project/benchmarks.md", "[a](../docs/rules.md)", "[a](../rules.md)"),
        ("project/benchmarks.md", "[a](look/run.py)", "a"),  # no page
        ("rules.md", "[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("rules.md", "[a](#here)", "[a](#here)"),
    ],
)
def test_a_link_leads_to_where_the_page_is_in_the_site(at: str, link: str, turned: str) -> None:
    assert site_pages.with_links(f"See {link}.", at=at, pages=PAGES) == f"See {turned}."


def test_every_page_outside_of_docs_that_the_site_has_is_there() -> None:
    missing = [origin for origin in site_pages.OUTSIDE if not (site_pages.ROOT / origin).exists()]

    assert missing in ([], ["README.zh-CN.md"])
