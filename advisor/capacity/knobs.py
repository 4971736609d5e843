"""What to turn for a higher concurrency, with a target value, its end and its cost.

A knob is offered only with arithmetic: from the report's own numbers, under the rules of the
release that the report settled on.
"""

from __future__ import annotations

from dataclasses import dataclass

from advisor.capacity.concurrency import requested
from advisor.capacity.pools import Setting
from advisor.capacity.releases import rules_of
from advisor.capacity.values import CapacityReport, Limit, LimitName


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One flag to set.

    Attributes:
        flag: As the release spells it.
        value: What to set; empty for a switch.
        reaches: Concurrency of one worker with this knob alone (tokens, for a token report).
        formula: The arithmetic behind the value.
        stops_at: Why there and no further.
        cost_bytes: GPU memory of one worker that it takes from elsewhere; negative frees it; None
            where the inputs do not tell.
        cost: What is paid, in words.
    """

    flag: str
    value: str
    reaches: int
    formula: str
    stops_at: str
    cost_bytes: int | None
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A settled report and what is wanted of it."""

    setting: Setting
    limits: tuple[Limit, ...]
    current: int
    target: int

    @property
    def release(self) -> str:
        """Return the release whose rules are used."""
        return self.setting.rules.release

    def limit(self, *names: LimitName) -> Limit | None:
        """Return the first bound of these names; None if there is none."""
        return next((limit for limit in self.limits if limit.name in names), None)

    def blocked_by(self, *names: LimitName) -> bool:
        """Say whether a bound of these names is known to lie below the target."""
        return any(
            limit.high is not None and limit.high < self.target
            for limit in self.limits
            if limit.name in names
        )

    def reach(self, new: int, *changed: LimitName) -> int:
        """Return the concurrency when the changed bounds become `new` and the others stay."""
        others = (limit.low for limit in self.limits if limit.name not in changed)
        return min((new, *others), default=new)

    def stop(self, new: int, *changed: LimitName) -> str:
        """Say which bound ends it: the target, or another bound below it."""
        others = [limit for limit in self.limits if limit.name not in changed]
        lowest = min(others, key=lambda limit: limit.low, default=None)
        if lowest is not None and lowest.low < min(new, self.target):
            return f"then this binds: {lowest.formula}"
        if new > self.target:
            return f"more than the {self.target} wanted"
        return f"just enough for {new}" if new == self.target else f"no further than {new}"


def situation(report: CapacityReport, target: int) -> Situation | None:
    """Return the settled state of a report; None if the target is reached or nothing is settled."""
    chosen = report.chosen
    if chosen is None:
        return None
    current = chosen.value if report.logged is None else report.logged
    if current is None or current >= target:
        return None
    rules = rules_of(chosen.releases[-1])
    asked = requested(rules, report.inputs)
    setting = Setting(
        rules=rules,
        inputs=report.inputs,
        requested=asked[1] if asked else None,
        slots=chosen.slots_per_request or 1,
    )
    return Situation(setting=setting, limits=chosen.limits, current=current, target=target)
