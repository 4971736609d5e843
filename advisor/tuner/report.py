"""What a run found, for people and programs: latencies, gains, and what they can be worth."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from advisor.configs.problem import Gemm, MoeProblem
from advisor.tuner.decide import Choice, Origin, Proof
from advisor.tuner.problem import label, touched_weight_bytes
from advisor.tuner.rehearsal import DEVICE as MADE_UP
from advisor.tuner.run import Result

SCHEMA_VERSION = 1
_WORTH_SAYING_RATIO = 1.02
_SHORT_US = 60.0
_MADE_UP_LINE = (
    "a rehearsal: the GPU is made up, every latency is computed, and the files are of no use"
)
_BUILT_IN = "SGLang's built-in tiles (which files the server finds today is not known)"
_HEADS = (
    *("batch", "default", "today", "chosen", "gain", "spread"),
    *("memory floor", "entry", "note"),
)
_LEGEND = (
    "Latency of both GEMMs of one MoE layer, in us (median of the last race, unless said otherwise). "
    "Default: SGLang's built-in tile. Today: what the server's files give now. Gain: chosen against "
    "today, else default. Memory floor: the share of the latency that reading the weights once takes. "
    "Entry: up / down, one if equal: M x N x K of the tile, GROUP_SIZE_M, warps, stages."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under what a run was made.

    Attributes:
        kernel: Whose kernel was timed.
        routing: How experts were drawn.
        bandwidth_gb_s: The GPU's memory bandwidth by its data sheet; None if not known.
        versions: Name and version of what matters: triton, torch, driver, sglang.
        early_launch: Whether kernels are launched before their predecessor has ended.
        today_known: Whether it is known which files the server finds, if any.
    """

    problem: MoeProblem
    device: str
    gpus: int
    kernel: str
    routing: str
    bandwidth_gb_s: int | None
    versions: tuple[tuple[str, str], ...]
    early_launch: bool = False
    today_known: bool = True

    @property
    def made_up(self) -> bool:
        """Say whether this is a rehearsal, whose latencies are computed."""
        return self.device == MADE_UP

    @property
    def release(self) -> str:
        """Return whose rules of SGLang were followed, in words."""
        known = "SGLang" in dict(self.versions)
        return "" if known else "; SGLang's release not known, rules of the newest possible"


def report_markdown(result: Result, conditions: Conditions) -> str:
    """Return the report as Markdown."""
    lines = [
        f"# MoE tuning: {label(conditions.problem)}",
        "",
        *(f"- {line}" for line in _circumstances(result, conditions)),
        "",
        _LEGEND,
        "",
        f"| {' | '.join(_HEADS)} |",
        "|---:|---:|---:|---:|---:|---:|---:|---|---|",
        *(_row(_cells(choice, conditions)) for choice in result.choices),
        "",
        *(f"- {line}" for line in conclusions(result, conditions)),
    ]
    return "\n".join(lines) + "\n"


def _circumstances(result: Result, conditions: Conditions) -> tuple[str, ...]:
    versions = ", ".join(f"{name} {version}" for name, version in conditions.versions)
    return (
        f"GPU: {conditions.gpus} x {conditions.device}; {versions}{conditions.release}",
        f"kernel: {conditions.kernel}; routing: {conditions.routing}; weights cold in L2",
        effort_line(result),
    )


def effort_line(result: Result) -> str:
    """Return how much was measured, and whether the run ended early."""
    stopped = {"budget": "; time ran out", "interrupt": "; interrupted"}.get(result.stopped, "")
    replayed = f", {result.replayed} from the journal" if result.replayed else ""
    return (
        f"{result.measured} measurements in {result.elapsed_s:.0f} s{replayed}, "
        f"{result.failed} could not run{stopped}"
    )


def _row(cells: Sequence[str]) -> str:
    """Return a row of a table; what a compiler says may hold bars and line ends."""
    return f"| {' | '.join(' '.join(cell.split()).replace('|', '/') for cell in cells)} |"


def _cells(choice: Choice, conditions: Conditions) -> tuple[str, ...]:
    floor = floor_us(conditions, choice.tokens)
    share = f"{floor / choice.chosen_us:.0%}" if floor and choice.chosen_us else ""
    pair = choice.pair
    entry = pair.up.key if pair.up == pair.down else f"{pair.up.key} / {pair.down.key}"
    spread = "" if choice.spread_ratio is None else f"{choice.spread_ratio:.1%}"
    gain = "" if choice.gain_ratio is None else f"{choice.gain_ratio:.3f}"
    return (
        str(choice.tokens),
        *(_us(value) for value in (choice.default_us, choice.today_us, choice.chosen_us)),
        gain,
        spread,
        share,
        f"{choice.origin}: {entry}",
        choice.note,
    )


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def floor_us(conditions: Conditions, tokens: int) -> float | None:
    """Return the time in which the weights of a batch can be read at best."""
    if not conditions.bandwidth_gb_s:
        return None
    read = sum(touched_weight_bytes(conditions.problem, gemm, tokens) for gemm in Gemm)
    return read / (conditions.bandwidth_gb_s * 1e3)


def conclusions(result: Result, conditions: Conditions) -> tuple[str, ...]:
    """Return what the figures mean, and what they do not."""
    gains = {choice.tokens: choice.gain_ratio for choice in result.choices if choice.gain_ratio}
    tuned = [choice for choice in result.choices if choice.origin is Origin.TUNED]
    worth = [tokens for tokens, gain in gains.items() if gain >= _WORTH_SAYING_RATIO]
    others = "; the others keep what is there" if len(tuned) < len(result.choices) else ""
    lines = [f"{len(tuned)} of {len(result.choices)} entries are new{others}"]
    if conditions.made_up:
        lines.insert(0, _MADE_UP_LINE)
    lines += _proofs(result.choices)
    if not gains:
        return (*lines, "nothing was timed against what the server has now")
    mean = math.exp(sum(map(math.log, gains.values())) / len(gains))
    best = max(gains, key=lambda tokens: gains[tokens])
    over = "what the server has now" if conditions.today_known else _BUILT_IN
    lines.append(
        f"kernel gain over {over}: {mean:.3f} x on average (geometric, {len(gains)} batch "
        f"size{'s' if len(gains) > 1 else ''}), {gains[best]:.3f} x at most (batch {best})"
    )
    if worth:
        lines.append(f"worth it (2 % or more) at batch {', '.join(map(str, worth))}")
    else:
        lines.append("tuning is worth nothing for this shape: no batch gains 2 %")
    lines += [
        *_bounds(result.choices),
        _memory_line(result.choices, conditions),
        _overlap_line(tuned, conditions),
    ]
    return tuple(line for line in lines if line)


def _proofs(choices: Sequence[Choice]) -> Iterator[str]:
    """Yield which entries do not rest on a last race."""
    for proof, text in (
        (Proof.SCREENED, "no last race; latencies are of single measurements of each GEMM"),
        (Proof.UNMEASURED, "no latency; what is there is kept"),
    ):
        batches = [str(choice.tokens) for choice in choices if choice.proof is proof]
        if batches:
            yield f"batch {', '.join(batches)}: {text}"


def _bounds(choices: Sequence[Choice]) -> tuple[str, ...]:
    saved = [
        (before - choice.chosen_us, choice.tokens)
        for choice in choices
        if choice.chosen_us and (before := choice.today_us or choice.default_us)
    ]
    if not saved:
        return ()
    most, tokens = max(saved)
    line = (
        f"end to end expect less: a forward step saves at most {most:.0f} us per MoE layer (batch "
        f"{tokens}); attention, communication and the rest are not sped up, so throughput gains "
        "less than the kernel does"
    )
    return (line,)


def _memory_line(choices: Sequence[Choice], conditions: Conditions) -> str:
    bound = [
        choice.tokens
        for choice in choices
        if choice.chosen_us
        and (floor := floor_us(conditions, choice.tokens))
        and floor / choice.chosen_us > 0.8  # noqa: PLR2004  (within a fifth of the floor)
    ]
    if not bound:
        return ""
    return (
        f"at batch {', '.join(map(str, bound))} reading the weights once takes over 80 % of the "
        "time: no tile can do much better"
    )


def _overlap_line(tuned: Sequence[Choice], conditions: Conditions) -> str:
    short = [one.tokens for one in tuned if one.chosen_us and one.chosen_us < _SHORT_US]
    if not short or not conditions.early_launch:
        return ""
    return (
        f"at batch {', '.join(map(str, short))} the kernels are so short that the server overlaps them "
        "with the activation between them, which was not timed: take a gain of a few percent with care"
    )


def report_json(result: Result, conditions: Conditions) -> Mapping[str, object]:
    """Return the report for programs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "problem": asdict(conditions.problem),
        "device": conditions.device,
        "made_up": conditions.made_up,
        "today_known": conditions.today_known,
        "gpus": conditions.gpus,
        "kernel": conditions.kernel,
        "routing": conditions.routing,
        "versions": dict(conditions.versions),
        "measured": result.measured,
        "failed": result.failed,
        "replayed": result.replayed,
        "elapsed_s": round(result.elapsed_s, 2),
        "stopped": result.stopped or None,
        "entries": [_entry(choice) for choice in result.choices],
        "conclusions": list(conclusions(result, conditions)),
    }


def _entry(choice: Choice) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "tokens": choice.tokens,
        "origin": str(choice.origin),
        "proof": str(choice.proof),
        "up": choice.pair.up.entry().as_json(),
        "down": choice.pair.down.entry().as_json(),
    }
    numbers = {
        "chosen_us": choice.chosen_us,
        "default_us": choice.default_us,
        "today_us": choice.today_us,
        "best_us": choice.best_us,
        "gain_ratio": choice.gain_ratio,
        "spread_ratio": choice.spread_ratio,
        "error_ratio": choice.error_ratio,
    }
    fields |= {name: round(value, 6) for name, value in numbers.items() if value is not None}
    return fields | ({"note": choice.note} if choice.note else {})


def report_html(result: Result, conditions: Conditions, plot: str) -> str:
    """Return the report as one page without outside parts."""
    body = "\n".join(
        "<tr>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(choice, conditions))
        + "</tr>"
        for choice in result.choices
    )
    under = _items(_circumstances(result, conditions))
    says = _items(conclusions(result, conditions))
    title = html.escape(f"MoE tuning: {label(conditions.problem)} on {conditions.device}")
    head = "".join(f"<th>{name}</th>" for name in _HEADS)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{font-family:sans-serif;max-width:72em;margin:2em auto;padding:0 1em}"
        "td,th{padding:.2em .6em;text-align:right;border-bottom:1px solid #ddd}"
        "td:nth-last-child(-n+2),th:nth-last-child(-n+2){text-align:left}</style></head>\n"
        f"<body><h1>{title}</h1>\n<ul>{under}</ul>\n<ul>{says}</ul>\n{plot}\n"
        f"<p>{html.escape(_LEGEND)}</p>\n<table><tr>{head}</tr>\n{body}\n</table></body></html>\n"
    )


def _items(lines: Sequence[str]) -> str:
    return "".join(f"<li>{html.escape(line)}</li>" for line in lines)
