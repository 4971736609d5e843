"""Prefill and Decode lines of every release: read in blocks, or one by one, alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.diagnosis import PatternIndex, Request, diagnose_logs, patterns_of
from advisor.facts.model import RunFacts, Serving
from advisor.rules.load import load_rules
from advisor.sources.files import LogInput
from advisor.sources.serving_lines import ServingParser

WRAPPER = "sglang-1  | "

# Field by field as the log calls of each release have them; {u} is a usage of two decimals.
DECODE = {
    "0.4.6": "Decode batch. #running-req: {r}, #token: {t}, token usage: {u}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}",
    "0.4.6 draft": "Decode batch. #running-req: {r}, #token: {t}, token usage: {u}, accept len: {a}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}",
    "0.4.6 PD": "Decode batch. #running-req: {r}, #token: {t}, token usage: {u}, pre-allocated usage: {u}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}",
    "0.5.3": "Decode batch. #running-req: {r}, #token: {t}, token usage: {u}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}, ",
    "0.5.3 SWA": "Decode batch. #running-req: {r}, #full token: {t}, full token usage: {u}, #swa token: {t}, swa token usage: {u}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}, ",
    "0.5.3 PD": "Decode batch. #running-req: {r}, #token: {t}, token usage: {u}, pre-allocated usage: {u}, #prealloc-req: {q}, #transfer-req: {q}, #retracted-req: {q}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}, ",
    "0.5.6": "Decode batch [{i}], #running-req: {r}, #full token: {t}, full token usage: {u}, mamba num: {r}, mamba usage: {u}, accept len: {a}, accept rate: {u}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}, ",
    "0.5.12": "Decode batch, #running-req: {r}, #token: {t}, token usage: {u}, #gpu token: {t}, gpu token usage: {u}, #cpu token: {t}, cpu token usage: {u}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}, est. decode TFLOPS/s (per GPU): {s}, est. read BW (GB/s per GPU): {s}, est. write BW (GB/s per GPU): {s}, fwd occupancy: {u}%",
    "0.5.23": "Decode batch, #running-req: {r}, #token: {t}, token usage: {u}, accept len: {a}, accept rate: {u}, cap len: {a}, block accept len: {a}, est uncap acc len: {a} [{a}, {a}], pre-allocated usage: {u}, #prealloc-req: {q}, #transfer-req: {q}, #host-receive-req: {q}, #retracted-req: {q}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}, fwd occupancy: {u}%, fwd+idle occupancy: {u}%",
    "later": "Decode batch, #running-req: {r}, #token: {t}, token usage: {u}, new field: {t}, cuda graph: {g}, gen throughput (token/s): {s}, #queue-req: {q}, another: x",
}
PREFILL = {
    "0.4.6": "Prefill batch. #new-seq: {n}, #new-token: {w}, #cached-token: {c}, token usage: {u}, #running-req: {r}, #queue-req: {q}",
    "0.4.6 PD": "Prefill batch. #new-seq: {n}, #new-token: {w}, #cached-token: {c}, token usage: {u}, #running-req: {r}, #unbootstrapped-req: {q}, #queue-req: {q}, #transferring-req: {q} ",
    "0.5.3": "Prefill batch. #new-seq: {n}, #new-token: {w}, #cached-token: {c}, full token usage: {u}, swa token usage: {u}, #running-req: {r}, #queue-req: {q}, ",
    "0.5.6": "Prefill batch [{i}], #new-seq: {n}, #new-token: {w}, #cached-token: {c}, full token usage: {u}, mamba usage: {u}, #running-req: {r}, #queue-req: {q}, #prealloc-req: {q}, #inflight-req: {q}, input throughput (token/s): {s}, ",
    "0.5.9": "Prefill batch, #new-seq: {n}, #new-token: {w}, #cached-token: {c}, token usage: {u}, #running-req: {r}, #queue-req: {q}, input throughput (token/s): {s}, waiting-image-req: {q}, cuda graph: {g}",
    "0.5.23": "Prefill batch, #new-seq: {n}, #new-token: {w}, #cached-token: {c}, token usage: {u}, #running-req: {r}, #queue-req: {q}, #pending-token: {t}, #replay-token: {t}, #bootstrap-req: {q}, #inflight-req: {q}, cuda graph: {g}, input throughput (token/s): {s}, fwd occupancy: nan%",
}
RANKS = ("", " TP0", " DP0 TP0", " DP1 TP0", " DP10 TP3", " PP1 TP0")
FORMS = [*DECODE.values(), *PREFILL.values()]


@dataclass(frozen=True)
class Line:
    """One generated line; `second` is counted from the first line of the log."""

    second: int
    text: str


def _usage(value: int) -> str:
    return f"{value / 100:.2f}"


@st.composite
def one_line(draw: st.DrawFn, form: str) -> str:
    small, large = st.integers(0, 30), st.integers(0, 20_000)
    return form.format(
        r=draw(small),
        q=draw(st.sampled_from((0, 0, 0, 7, 120))),
        t=draw(large),
        i=draw(large),
        u=_usage(draw(st.integers(0, 100))),
        a=_usage(draw(st.integers(100, 400))),
        s=_usage(draw(st.integers(0, 500_000))),
        g=draw(st.booleans()),
        n=draw(st.integers(1, 3)),
        w=draw(large),
        c=draw(large),
    )


@st.composite
def logs(draw: st.DrawFn) -> list[Line]:
    forms = draw(st.lists(st.sampled_from(FORMS), min_size=1, max_size=5))
    ranks = draw(st.lists(st.sampled_from(RANKS), min_size=1, max_size=3))
    milliseconds = draw(st.sampled_from(("", ".250")))
    lines: list[Line] = []
    second = 0
    for _ in range(draw(st.integers(1, 30))):
        second += draw(st.sampled_from((0, 0, 1, 5, 12, 400)))
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{milliseconds}"
        text = draw(one_line(draw(st.sampled_from(forms))))
        rank = draw(st.sampled_from(ranks))
        lines.append(Line(second, f"[2026-03-04 {clock}{rank}] {text}"))
        if draw(st.integers(0, 4)) == 0:
            lines.append(Line(second, f'[2026-03-04 {clock}] INFO:     "POST /generate" 200 OK'))
    return lines


def facts(lines: Sequence[str], end: str = "\n") -> RunFacts:
    log = LogInput(name="x.log", text=end.join(lines) + end)
    return diagnose_logs(Request(logs=(log,), rules=(), fail_on=None), tolerant=True).run


def same(one: Serving, other: Serving) -> None:
    for item in fields(Serving):
        mine, theirs = getattr(one, item.name), getattr(other, item.name)
        if isinstance(mine, float):
            assert mine == pytest.approx(theirs), item.name
        elif item.name not in {"buckets", "replicas"}:
            assert mine == theirs, item.name
    assert [(b.low, b.lines, b.eager_share) for b in one.buckets] == [
        (b.low, b.lines, b.eager_share) for b in other.buckets
    ]
    assert [(r.rank, r.prefilled_tokens) for r in one.replicas] == [
        (r.rank, r.prefilled_tokens) for r in other.replicas
    ]


def places(run: RunFacts) -> dict[str, int]:
    """Return the lines of the evidence; of stalls of equal length any may be shown."""
    found = {path: place.line for path, place in run.evidence.items()}
    found.pop("serving.longest_stall_s", None)
    return found


@settings(max_examples=60, deadline=None)
@given(logs())
def test_blocks_and_single_lines_add_up_to_the_same(lines: list[Line]) -> None:
    plain = facts([line.text for line in lines])
    wrapped = facts([WRAPPER + line.text for line in lines])
    same(plain.serving, wrapped.serving)
    assert plain.ranks == wrapped.ranks
    assert places(plain) == places(wrapped)


@settings(max_examples=60, deadline=None)
@given(logs())
def test_windows_line_ends_change_nothing(lines: list[Line]) -> None:
    texts = [line.text for line in lines]
    same(facts(texts).serving, facts(texts, end="\r\n").serving)


@pytest.mark.parametrize("form", FORMS, ids=[*DECODE, *(f"{name} prefill" for name in PREFILL)])
def test_the_block_parser_knows_every_form(form: str) -> None:
    values = dict.fromkeys("rqtiuasnwc", "7") | {"g": "True"}
    text = "".join(
        f"[2026-03-04 05:06:07{rank}] {form.format(**values)}\n" for rank in RANKS
    ).encode()
    parsed = ServingParser().parse(text)
    assert parsed is not None
    assert sum(map(len, parsed)) == len(RANKS)
    assert {lines.rank for lines in parsed} == {rank.strip() for rank in RANKS}
    assert all(lines.columns["running"] == (b"7",) * len(lines) for lines in parsed)


@pytest.mark.parametrize("form", DECODE.values(), ids=list(DECODE))
def test_decode_values_are_read(form: str) -> None:
    values = {"r": 9, "q": 4, "t": 900, "i": 3, "u": "0.25", "a": "2.50", "s": "80.50", "g": False}
    serving = facts(["[2026-03-04 05:06:07 TP0] " + form.format(**values)]).serving
    assert (serving.decode_lines, serving.max_running, serving.max_queue) == (1, 9, 4)
    assert serving.mean_gen_tokens_per_s == 80.5
    assert serving.eager_share == 1.0
    assert serving.max_token_usage == 0.25
    assert serving.mean_accept_length in {None, 2.5}


def test_a_torn_line_is_read_apart() -> None:
    whole = "[2026-03-04 05:06:07 TP0] " + DECODE["0.4.6"].format(
        r=9, q=4, t=900, u="0.25", s="80.50", g=True
    )
    serving = facts([whole + whole, whole]).serving
    assert serving.decode_lines == 3


def test_user_text_that_looks_like_a_line_is_not_counted() -> None:
    whole = "[2026-03-04 05:06:07 TP0] " + DECODE["0.4.6"].format(
        r=9, q=4, t=900, u="0.25", s="80.50", g=True
    )
    prompt = f"[2026-03-04 05:06:08] Receive: obj=GenerateReqInput(text='{whole}')"
    serving = facts([whole, prompt, whole]).serving
    assert serving.decode_lines == 2


def test_line_numbers_count_over_blocks() -> None:
    access = '[2026-03-04 05:06:07] INFO:     "POST /generate HTTP/1.1" 200 OK'
    decode = "[2026-03-04 05:06:07 TP0] " + DECODE["0.4.6"]
    plain = decode.format(r=9, q=0, t=900, u="0.25", s="80.50", g=True)
    queued = decode.format(r=9, q=77, t=900, u="0.25", s="80.50", g=True)
    run = facts([*[plain, access] * 20_000, queued, plain])
    assert run.serving.decode_lines == 20_002
    assert run.evidence["serving.max_queue"].line == 40_001
    assert run.log.lines == 40_002


@pytest.mark.parametrize("form", FORMS)
def test_no_pattern_makes_serving_lines_slow(form: str) -> None:
    """A literal of a rule inside these lines would send each of them the long way round."""
    index = PatternIndex(patterns_of(load_rules(())))
    values = dict.fromkeys("rqtiuasnwc", "7")
    for graph in ("True", "False"):
        line = form.format(**values, g=graph)
        inside = {literal for literal in index.scanner.literals if literal in line}
        assert inside == {line[: line.index(" batch")] + " batch"}
    access = (
        '[2026-03-04 05:06:07] INFO:     10.0.3.7:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    )
    assert not [literal for literal in index.scanner.literals if literal in access]


def test_each_run_of_a_log_gets_its_own_lines() -> None:
    dump = "[2026-03-04 05:06:07] server_args=ServerArgs(model_path='/m', tp_size=1)"
    begin = "[2026-03-04 05:06:07 TP0] Load weight begin. avail mem=78.20 GB"
    decode = "[2026-03-04 05:06:08 TP0] " + DECODE["0.4.6"].format(
        r=9, q=4, t=900, u="0.25", s="80.50", g=True
    )
    run = facts([dump, begin, *[decode] * 7, dump, begin, *[decode] * 3])
    assert run.serving.decode_lines == 3
    assert run.evidence["serving.max_queue"].line == 12


def test_a_steady_decline_is_measured_only_with_enough_lines() -> None:
    def falling(count: int) -> Serving:
        return facts(
            [
                f"[2026-03-04 05:{second // 60:02}:{second % 60:02} TP0] "
                + DECODE["0.4.6"].format(r=16, q=0, t=900, u="0.25", s=1000 - 2 * second, g=True)
                for second in range(count)
            ]
        ).serving

    long, short = falling(240), falling(110)
    assert long.decline_trend == -1.0
    assert long.decline_ratio is not None
    assert long.decline_ratio < 0.7
    assert long.decline_length_ratio == 1.0
    assert (short.decline_ratio, short.decline_trend) == (None, None)


def test_pauses_are_stalls_only_while_requests_wait() -> None:
    def at(clock: str, queue: int) -> str:
        return f"[2026-03-04 {clock} TP0] " + DECODE["0.4.6"].format(
            r=16, q=queue, t=900, u="0.25", s=100, g=True
        )

    serving = facts(
        [at("05:00:00", 3), at("05:01:30", 0), at("05:01:31", 0), at("05:03:31", 0)]
    ).serving
    assert (serving.stalls, serving.longest_stall_s, serving.idle_s) == (1, 90.0, 120.0)


def test_the_spread_over_dp_replicas_needs_lines() -> None:
    def share(count: int) -> float | None:
        lines = [
            f"[2026-03-04 05:06:07 DP{number % 2} TP0] "
            + PREFILL["0.4.6"].format(n=1, w=400 if number % 2 else 1600, c=0, u="0.25", r=3, q=0)
            for number in range(count)
        ]
        return facts(lines).serving.replica_token_ratio

    assert share(40) == pytest.approx(0.4)
    assert share(30) is None
