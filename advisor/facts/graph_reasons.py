"""Why prefill graphs are off where SGLang does not say: read from the arguments of the release.

The rules stand in `advisor/data/prefill_graph.yaml`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from advisor.facts.literals import Value
from advisor.knowledge.ranges import Membership, VersionRange, membership
from advisor.resources import read_data

_DATA_FILE = "prefill_graph.yaml"
_Condition = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reason:
    text: str
    releases: VersionRange
    conditions: tuple[_Condition, ...]


def prefill_off_reasons(
    args: Mapping[str, Value] | None, model_class: str | None, release: VersionRange | None
) -> tuple[str, ...]:
    """Return every reason that applies, in the order of SGLang's checks; empty if none is known.

    A release that may or may not have a check counts as having it only if it is not known at all.
    """
    if args is None:
        return ()
    found = [
        reason.text
        for reason in _reasons()
        if _concerns(reason.releases, release)
        and any(_holds(condition, args, model_class) for condition in reason.conditions)
    ]
    return tuple(dict.fromkeys(found))


def _concerns(wanted: VersionRange, release: VersionRange | None) -> bool:
    if release is None or release.first is None:
        return True
    return membership([wanted], release.first) is Membership.IN


def _holds(condition: _Condition, args: Mapping[str, Value], model_class: str | None) -> bool:
    if "model_class" in condition:
        return model_class is not None and str(condition["model_class"]) in model_class
    value = args.get(str(condition["argument"]))
    if "set" in condition:
        return value is not None and value != ()
    if "equals" in condition:
        return value == condition["equals"]
    if "above" in condition:
        return isinstance(value, (int, float)) and value > cast("float", condition["above"])
    return value is not None and value != condition["other_than"]


@functools.cache
def _reasons() -> tuple[_Reason, ...]:
    rows = cast("Sequence[Mapping[str, object]]", read_data(_DATA_FILE))
    return tuple(
        _Reason(
            text=str(row["reason"]),
            releases=VersionRange.parse(str(row["releases"])),
            conditions=tuple(cast("Sequence[_Condition]", row["when"])),
        )
        for row in rows
    )
