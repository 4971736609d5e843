"""What holds for every format, whatever the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from advisor.diagnosis import Report
from advisor.findings import Action, Finding
from advisor.report.formats import FORMATS, Style
from advisor.sources.records import Evidence

UNSAFE = regex.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
STYLE = Style(width=80)


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_reaches_the_terminal_that_could_move_its_cursor(
    form: str, any_report: Report
) -> None:
    text = FORMATS[form](any_report, STYLE)
    assert UNSAFE.search(text) is None
    assert not regex.search(r"\\u00(?:[01][0-9a-f]|7f|[89])", text)


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_report_gives_the_same_bytes(form: str, any_report: Report) -> None:
    assert FORMATS[form](any_report, STYLE).encode() == FORMATS[form](any_report, STYLE).encode()


@pytest.mark.parametrize("form", FORMATS)
def test_a_text_ends_with_one_newline_or_is_empty(form: str, any_report: Report) -> None:
    text = FORMATS[form](any_report, STYLE)
    assert text == "" or (text.endswith("\n") and not text.endswith("\n\n"))


def tokens(markdown: str) -> list[Token]:
    """Return all tokens of a Markdown text, inline ones too, as GitHub's dialect has them."""
    parsed = (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)
    )
    return [*parsed, *(child for token in parsed for child in token.children or ())]


class Tags(HTMLParser):
    """Collects tags and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check_markdown(text: str, headings: int) -> None:
    found = tokens(text)
    kinds = [token.type for token in found]
    assert "image" not in kinds
    assert "html_block" not in kinds
    assert {token.content for token in found if token.type == "html_inline"} <= {"<!-- -->"}
    links = [str(token.attrs["href"]) for token in found if token.type == "link_open"]
    assert all(link.startswith("https://example.org/") for link in links)
    assert kinds.count("heading_open") == headings
    assert "code_block" not in kinds


def check_html(text: str) -> None:
    page = Tags()
    page.feed(text)
    page.close()
    names = {tag for tag, _ in page.found}
    assert names.isdisjoint({"script", "img", "iframe", "object", "link", "form"})
    assert not any(name.startswith("on") for _, attrs in page.found for name in attrs)
    links = [attrs["href"] for tag, attrs in page.found if tag == "a"]
    assert all(str(link).startswith("https://example.org/") for link in links)


def test_a_hostile_log_stays_text_in_markdown(made: dict[str, Report]) -> None:
    text = FORMATS["markdown"](made["hostile"], STYLE)
    check_markdown(text, headings=5)
    assert not regex.search(r"(?<!`)[@#](?=everyone|123)", regex.sub(r"(?s)(`{3,}).*?\1", "", text))


def test_a_hostile_log_stays_text_in_html(made: dict[str, Report]) -> None:
    check_html(FORMATS["html"](made["hostile"], STYLE))


def test_templates_do_not_run_what_a_log_holds(made: dict[str, Report]) -> None:
    for form in ("markdown", "html"):
        assert "49" not in FORMATS[form](made["hostile"], STYLE).replace("#49", "")


def test_html_needs_nothing_besides_itself(made: dict[str, Report]) -> None:
    page = Tags()
    page.feed(FORMATS["html"](made["healthy"], STYLE))
    names = [tag for tag, _ in page.found]
    assert "style" in names
    assert not {"script", "link", "img"} & set(names)
    assert not any("src" in attrs for _, attrs in page.found)


TEXTS = st.text(
    alphabet=st.sampled_from("ab 1.)-+=#*_`~<>[]()!|\\&$@\n\t\x1b\r:%{}/\"'é漢"), max_size=40
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=TEXTS)
def test_no_text_breaks_a_format(
    text: str,
    make_report: Callable[..., Report],
    make_finding: Callable[..., Finding],
    make_evidence: Callable[..., Evidence],
) -> None:
    action = Action(title=text, command=text, expect=text, risk=text, verify=text)
    made = make_report(
        make_finding(
            title=text,
            summary=text,
            why=text,
            evidence=(make_evidence(text, source=text, ranks=(text,)),),
            actions=(action,),
            references=(text, "https://example.org/a"),
        ),
        source=text,
    )
    check_markdown(FORMATS["markdown"](made, STYLE), headings=3 if made.plan else 2)
    check_html(FORMATS["html"](made, STYLE))
    for form in ("json", "sarif", "gitlab", "jsonl"):
        json.loads(FORMATS[form](made, STYLE))
    ET.fromstring(FORMATS["junit"](made, STYLE))  # noqa: S314  (our own output)
    assert len(FORMATS["github"](made, STYLE).splitlines()) == 1
    assert FORMATS["terminal"](made, STYLE).endswith("\n")
