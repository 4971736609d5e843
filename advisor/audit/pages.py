"""An audit as text, as JSON, and as the committed table of docs/coverage.md. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from advisor.audit.coverage import Audit, Counted, Share
from advisor.audit.drift import Outcome, Verdict
from advisor.audit.scope import COUNTED, Kind

_REMARKS = (Outcome.UNPROVEN, Outcome.MOVED, Outcome.INDIRECT, Outcome.WIDER)
_MEANINGS = {
    Outcome.MISSING: "no text of this release holds",
    Outcome.UNPROVEN: "the pattern reads no likely form of the text with",
    Outcome.MOVED: "stands in other modules than named:",
    Outcome.INDIRECT: "stands in the source, not seen to be logged:",
    Outcome.WIDER: "this release has it too, the range leaves it out:",
}
_LONGEST_TEXT = 120
_INTRODUCTION = """\
Made by `advisor rules audit --sglang all --format markdown -o docs/coverage.md`.
[Auditing rules](audit.md) says what is counted. A cell reads: known of all, and the share."""
_REFUSALS = """\
Texts that end a start (`raise` and `assert` in argument and model checks) say themselves what is
wrong: rules over the facts of a failure tell them whatever their words. By their words are known: """
_LISTED_IN_TABLE = ("0.5.9", "0.5.23")


def terminal(audits: Sequence[Audit]) -> str:
    """Return the audits for reading: drift first, then remarks, coverage, and what is unknown."""
    return "\n\n".join("\n".join(_terminal(item)) for item in audits) + "\n"


def as_json(audits: Sequence[Audit]) -> str:
    """Return the audits as one JSON document."""
    return json.dumps({"releases": [_document(item) for item in audits]}, indent=2) + "\n"


def markdown(audits: Sequence[Audit]) -> str:
    """Return docs/coverage.md: a row a release, then areas and unknown texts of two releases."""
    parts = [
        "# Coverage of SGLang's texts",
        _INTRODUCTION,
        _table(
            ("release", "texts", "checked", "drift", *(kind.value for kind in COUNTED), "together"),
            [
                (
                    item.version,
                    str(item.templates),
                    str(len(_checked(item))),
                    str(len(item.drift)),
                    *(_cell(item.share(kind)) for kind in COUNTED),
                    _cell(item.share()),
                )
                for item in audits
            ],
        ),
        _REFUSALS
        + ", ".join(f"{item.version} {_cell(item.share(Kind.REFUSAL))}" for item in audits)
        + ".",
    ]
    for item in audits:
        if item.version in _LISTED_IN_TABLE:
            parts += [f"## {item.version} by area", _areas_table(item)]
            parts += [f"## {item.version}: not known", _unknown_list(item)]
    return "\n\n".join(parts) + "\n"


def _terminal(item: Audit) -> Iterator[str]:
    yield f"SGLang {item.version}: {item.templates} texts, {len(_checked(item))} claims checked"
    if item.unread:
        yield f"  files that this Python cannot parse: {', '.join(item.unread)}"
    yield f"drift: {len(item.drift) or 'none'}"
    yield from (f"  {_sentence(verdict)}" for verdict in item.drift)
    remarks = [verdict for verdict in item.verdicts if verdict.outcome in _REMARKS]
    if remarks:
        yield f"remarks: {len(remarks)}"
        yield from (f"  {_sentence(verdict)}" for verdict in remarks)
    yield (
        "coverage: "
        + ", ".join(f"{kind.value} {_cell(item.share(kind))}" for kind in COUNTED)
        + f", together {_cell(item.share())}; refusals {_cell(item.share(Kind.REFUSAL))}"
    )
    yield from (f"  {module:<56} {_cell(share)}" for module, share in _modules(item))
    unknown = _alarming(item)
    if unknown:
        yield f"not known: {len(unknown)}"
        yield from (f"  {_line(counted)}" for counted in unknown)


def _sentence(verdict: Verdict) -> str:
    literals = " | ".join(verdict.claim.pattern.literals)
    where = ""
    if verdict.outcome is Outcome.MOVED:
        where = f" ({', '.join(sorted({item.module for item in verdict.templates}))})"
    return f"{verdict.claim.name}: {_MEANINGS[verdict.outcome]} {literals!r}{where}"


def _line(item: Counted) -> str:
    return f"{item.kind.value:<11} {item.template.module}:{item.template.line} {_shown(item)}"


def _shown(item: Counted) -> str:
    text = " ".join(item.template.text.shown().split())
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def _document(item: Audit) -> dict[str, object]:
    return {
        "version": item.version,
        "texts": item.templates,
        "checked": len(_checked(item)),
        "unread_files": list(item.unread),
        "drift": [_verdict(verdict) for verdict in item.drift],
        "remarks": [_verdict(verdict) for verdict in item.verdicts if verdict.outcome in _REMARKS],
        "coverage": {
            **{kind.value: _pair(item.share(kind)) for kind in Kind},
            "together": _pair(item.share()),
        },
        "modules": {module: _pair(share) for module, share in _modules(item)},
        "unknown": [
            {
                "kind": counted.kind.value,
                "module": counted.template.module,
                "line": counted.template.line,
                "level": counted.template.level.value,
                "text": counted.template.text.shown(),
            }
            for counted in item.unknown
        ],
    }


def _verdict(verdict: Verdict) -> dict[str, object]:
    return {
        "claim": verdict.claim.name,
        "outcome": verdict.outcome.value,
        "literals": list(verdict.claim.pattern.literals),
        "modules": sorted({item.module for item in verdict.templates}),
    }


def _pair(share: Share) -> dict[str, int]:
    return {"known": share.known, "total": share.total}


def _cell(share: Share) -> str:
    if share.ratio is None:
        return "–"
    return f"{share.known} of {share.total} ({int(share.ratio * 100)} %)"


def _checked(item: Audit) -> list[Verdict]:
    skipped = (Outcome.ELSEWHERE, Outcome.WIDER)
    return [verdict for verdict in item.verdicts if verdict.outcome not in skipped]


def _alarming(item: Audit) -> list[Counted]:
    return [counted for counted in item.unknown if counted.kind in COUNTED]


def _modules(item: Audit) -> Iterator[tuple[str, Share]]:
    counted = {entry.template.module for entry in item.counted if entry.kind in COUNTED}
    yield from ((module, item.share(module=module)) for module in sorted(counted))


def _areas_table(item: Audit) -> str:
    areas: dict[str, list[Counted]] = {}
    for counted in item.counted:
        if counted.kind in COUNTED:
            areas.setdefault("/".join(counted.template.module.split("/")[:2]), []).append(counted)
    rows = [
        (f"`{area}`", _cell(Share(known=sum(one.known for one in found), total=len(found))))
        for area, found in sorted(areas.items())
    ]
    return _table(("modules", "known"), rows)


def _unknown_list(item: Audit) -> str:
    rows = [
        f"- {counted.kind.value} · `{counted.template.module}` · {_code(_shown(counted))}"
        for counted in _alarming(item)
    ]
    return "\n".join(rows) if rows else "None."


def _code(text: str) -> str:
    """Return text as a code span, whatever backticks it holds."""
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
