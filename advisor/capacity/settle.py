"""Which bound binds, and how the outcome stands to the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from advisor.capacity.inputs import CapacityInputs
from advisor.capacity.releases import is_newer_than_known, known_releases
from advisor.capacity.values import Candidate, CapacityReport, Limit, Verdict


def report(
    quantity: str,
    inputs: CapacityInputs,
    candidates: tuple[Candidate, ...],
    logged: int | None,
) -> CapacityReport:
    """Mark the binding limits, merge releases that agree, and compare with the logged value."""
    marked = tuple(replace(one, limits=_marked(one, logged)) for one in candidates)
    merged = _merged(marked)
    verdict = _verdict(merged, logged)
    reason = _reason(quantity, inputs, merged, logged, verdict)
    return CapacityReport(
        quantity=quantity,
        inputs=inputs,
        candidates=merged,
        logged=logged,
        verdict=verdict,
        reason=reason,
    )


def _marked(candidate: Candidate, logged: int | None) -> tuple[Limit, ...]:
    """Mark the bounds that bind; the logged value helps where the inputs leave ranges.

    A bound that is exactly the logged value binds whatever the others turn out to be.
    """
    ceiling = candidate.high
    able = [limit for limit in candidate.limits if ceiling is None or limit.low <= ceiling]
    outcome = candidate.value
    if logged is not None and candidate.admits(logged):
        able = [limit for limit in able if limit.admits(logged)]
        outcome = logged
    return tuple(
        replace(limit, binds=_binds(limit, able, outcome) if limit in able else False)
        for limit in candidate.limits
    )


def _binds(limit: Limit, able: list[Limit], outcome: int | None) -> bool | None:
    settled = len(able) == 1 or (outcome is not None and limit.value == outcome)
    return True if settled else None


def _merged(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    groups: dict[tuple[object, ...], Candidate] = {}
    for one in candidates:
        key = (one.limits, one.assumptions, one.slots_per_request)
        known = groups.get(key)
        releases = (*known.releases, *one.releases) if known else one.releases
        groups[key] = replace(one, releases=releases)
    return tuple(groups.values())


def _verdict(candidates: tuple[Candidate, ...], logged: int | None) -> Verdict:
    if logged is None or not candidates:
        return Verdict.UNKNOWN
    if any(one.explains(logged) for one in candidates):
        return Verdict.VERIFIED
    if any(one.admits(logged) for one in candidates):
        return Verdict.UNKNOWN
    return Verdict.CONTRADICTS


def _reason(
    quantity: str,
    inputs: CapacityInputs,
    candidates: tuple[Candidate, ...],
    logged: int | None,
    verdict: Verdict,
) -> str:
    first, last = known_releases()[0], known_releases()[-1]
    if not candidates:
        return f"the formulas are known for SGLang {first} to {last}"
    text = _comparison(quantity, candidates, logged, verdict)
    if inputs.version is not None and is_newer_than_known(inputs.version):
        text += f"; by the rules of {last}, the newest release known"
    return text


def _comparison(
    quantity: str, candidates: tuple[Candidate, ...], logged: int | None, verdict: Verdict
) -> str:
    results = " or ".join(dict.fromkeys(_result(one) for one in candidates))
    if logged is None:
        return f"{quantity} is not in the log; recomputed: {results}"
    if verdict is Verdict.CONTRADICTS:
        return f"the log says {logged}, recomputed: {results}"
    if verdict is Verdict.UNKNOWN:
        lacking = dict.fromkeys(name for one in candidates for name in one.missing)
        return f"the log says {logged}; {results} without {', '.join(lacking) or 'more inputs'}"
    exact = tuple(one for one in candidates if one.explains(logged))
    if len(exact) == len(candidates):
        if all(one.value == logged for one in exact):
            return f"recomputed {logged} equals the logged value"
        return f"the logged {logged} lies within the recomputed {results}"
    return f"of {results}, the logged {logged} fits {' and '.join(map(_described, exact))}"


def _result(candidate: Candidate) -> str:
    if candidate.value is not None:
        return str(candidate.value)
    return f"{candidate.low} to {'?' if candidate.high is None else candidate.high}"


def _described(candidate: Candidate) -> str:
    releases = candidate.releases
    span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
    return ", ".join((f"SGLang {span}", *candidate.assumptions))
