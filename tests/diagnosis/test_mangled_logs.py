"""Torn, shuffled, edited and hostile logs: always a report in every format, never a traceback."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.diagnosis import Request, diagnose_logs
from advisor.report.formats import FORMATS
from advisor.report.style import Style
from advisor.rules.load import bundled_rules
from advisor.sources.files import LogInput

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
LOGS = sorted([*(FIXTURES / "logs").glob("*.log"), *(FIXTURES / "story").glob("*.log")])
HOSTILE = "\x7f\x1b\u202e'\"{}()[]%\\\r"
ODD_NUMBERS = ("0", "-1", "1000000000000", "3", "1e999", "nan")


def shuffled(lines: list[str], draw: random.Random) -> list[str]:
    return draw.sample(lines, len(lines))


def cut_short(lines: list[str], draw: random.Random) -> list[str]:
    return lines[: draw.randrange(len(lines))]


def torn(lines: list[str], draw: random.Random) -> list[str]:
    return [line[: draw.randrange(len(line) + 1)] for line in lines]


def garbled(lines: list[str], draw: random.Random) -> list[str]:
    return [
        "".join(draw.choice(HOSTILE) if draw.random() < 0.01 else letter for letter in line)
        for line in lines
    ]


def renumbered(lines: list[str], draw: random.Random) -> list[str]:
    return [
        re.sub(r"\d+", lambda _: draw.choice(ODD_NUMBERS), line) if draw.random() < 0.3 else line
        for line in lines
    ]


def doubled(lines: list[str], draw: random.Random) -> list[str]:
    return [*lines, *draw.choice(LOGS).read_text(errors="replace").split("\n")]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "mangle", [shuffled, cut_short, torn, garbled, renumbered, doubled], ids=lambda f: f.__name__
)
def test_a_mangled_log_never_breaks_the_diagnosis(
    mangle: Callable[[list[str], random.Random], list[str]], seed: int
) -> None:
    draw = random.Random(seed)  # noqa: S311  (reproducible damage, no secret)
    lines = draw.choice(LOGS).read_text(errors="replace").split("\n")
    log = LogInput(name="x.log", text="\n".join(mangle(lines, draw)))
    request = Request(logs=(log,), rules=bundled_rules(), fail_on=None)
    report = diagnose_logs(request, tolerant=True)
    pages = {name: render(report, Style()) for name, render in FORMATS.items()}
    assert all(pages[name] for name in ("terminal", "markdown", "html", "json", "sarif", "junit"))


@pytest.mark.parametrize("value", ["0", "-5", "999999999999999999"])
def test_numbers_that_no_server_has_stay_out_of_the_arithmetic(value: str) -> None:
    text = (
        "[2026-03-04 05:06:07] server_args=ServerArgs(model_path='/m', tp_size=1, page_size=0, "
        f"mem_fraction_static={value}, speculative_num_draft_tokens={value})\n"
        f"[2026-03-04 05:06:08] Load weight begin. avail mem={value.lstrip('-')} GB\n"
        f"[2026-03-04 05:06:09] max_total_num_tokens={value.lstrip('-')}, "
        f"chunked_prefill_size={value}, max_prefill_tokens=0, "
        f"max_running_requests={value.lstrip('-')}, context_len={value.lstrip('-')}, "
        "available_gpu_mem=-1 GB\n"
    )
    log = LogInput(name="x.log", text=text)
    report = diagnose_logs(Request(logs=(log,), rules=bundled_rules(), fail_on=None))
    assert report.run.model == "/m"
