"""What the capacity formulas give."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from advisor.capacity.inputs import CapacityInputs


class LimitName(StrEnum):
    """What can bound the concurrency or the token pool."""

    REQUESTED = "requested"
    SPECULATIVE_DEFAULT = "speculative_default"
    DEEPSEEK_V4_DEFAULT = "deepseek_v4_default"
    TOKEN_ESTIMATE = "token_estimate"  # noqa: S105  (a limit, not a secret)
    HALF_OF_TOKENS = "half_of_tokens"
    STATE_SLOTS = "state_slots"
    KV_MEMORY = "kv_memory"
    MAX_TOTAL_TOKENS = "max_total_tokens"


class Verdict(StrEnum):
    """How a recomputed value stands to the logged one."""

    VERIFIED = "verified"
    CONTRADICTS = "contradicts"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One bound, with its arithmetic.

    Attributes:
        high: None where nothing known bounds it above.
        binds: The bound is the smallest one; None if the inputs do not tell.
        formula: The arithmetic with the numbers filled in.
        inputs: Names of the `CapacityInputs` fields that went in.
        missing: Names of the fields that would turn the range into a number.
    """

    name: LimitName
    low: int
    high: int | None
    formula: str
    inputs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    binds: bool | None = None

    @property
    def value(self) -> int | None:
        """Return the value, or None where only a range is known."""
        return self.low if self.low == self.high else None

    def admits(self, value: int) -> bool:
        """Say whether the bound can have this value."""
        return self.low <= value and (self.high is None or value <= self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The outcome under one set of assumptions.

    Attributes:
        releases: Those known releases whose rules give this outcome.
        assumptions: What had to be assumed, in words; empty when the inputs settle everything.
        slots_per_request: State slots that a request takes; None without a state pool.
    """

    releases: tuple[str, ...]
    limits: tuple[Limit, ...]
    assumptions: tuple[str, ...] = ()
    slots_per_request: int | None = None

    @property
    def low(self) -> int:
        """Return the least value that the smallest bound can have."""
        return min(limit.low for limit in self.limits)

    @property
    def high(self) -> int | None:
        """Return the largest value that the smallest bound can have."""
        return min((limit.high for limit in self.limits if limit.high is not None), default=None)

    @property
    def value(self) -> int | None:
        """Return the outcome, or None where only a range is known."""
        return self.low if self.low == self.high else None

    @property
    def binding(self) -> Limit | None:
        """Return the bound that is known to be the smallest; the first of equals."""
        return next((limit for limit in self.limits if limit.binds), None)

    @property
    def next_limit(self) -> Limit | None:
        """Return the bound that would stop the count next; None if there is none."""
        binding = self.binding
        if binding is None:
            return None
        others = [limit for limit in self.limits if limit is not binding]
        return min(others, key=lambda limit: limit.low, default=None)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the inputs that keep the outcome from being a number.

        Empty also for a range that only printed digits leave open.
        """
        able = (limit for limit in self.limits if limit.binds is not False)
        return tuple(dict.fromkeys(name for limit in able for name in limit.missing))

    def admits(self, value: int) -> bool:
        """Say whether the outcome can be this value."""
        return self.low <= value and (self.high is None or value <= self.high)

    def explains(self, value: int) -> bool:
        """Say whether the outcome is this value, as far as printed digits tell.

        A bound that is exactly this value explains it even while others are unknown: they could
        only have lowered the outcome.
        """
        if not self.admits(value):
            return False
        return not self.missing or any(limit.value == value for limit in self.limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReport:
    """A recomputed value beside the logged one.

    Attributes:
        quantity: `max_running_requests` or `max_total_num_tokens`.
        candidates: Distinct outcomes, oldest release first; empty for releases that are not known.
        reason: One sentence behind the verdict.
    """

    quantity: str
    inputs: CapacityInputs
    candidates: tuple[Candidate, ...]
    logged: int | None
    verdict: Verdict
    reason: str

    @property
    def matching(self) -> tuple[Candidate, ...]:
        """Return the outcomes that the logged value allows; all of them without one."""
        if self.logged is None:
            return self.candidates
        exact = tuple(one for one in self.candidates if one.explains(self.logged))
        return exact or tuple(one for one in self.candidates if one.admits(self.logged))

    @property
    def chosen(self) -> Candidate | None:
        """Return the outcome to show: the newest release among those that match."""
        return max(self.matching or self.candidates, key=_age, default=None)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Return the bounds of the outcome to show."""
        return self.chosen.limits if self.chosen else ()

    @property
    def binding(self) -> Limit | None:
        """Return the smallest bound, unless matching outcomes disagree on which it is."""
        names = {one.binding.name if one.binding else None for one in self.matching}
        return self.chosen.binding if self.chosen and len(names) == 1 else None

    @property
    def next_limit(self) -> Limit | None:
        """Return the bound behind the smallest one."""
        return self.chosen.next_limit if self.chosen and self.binding else None


def _age(candidate: Candidate) -> tuple[int, ...]:
    return tuple(int(part) for part in candidate.releases[-1].split("."))
