"""What one rank says of its memory while it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One KV pool; `draft` where it was made after the target's pools stood."""

    tokens: int
    gib: float
    dtype: str | None
    draft: bool


class Stage(StrEnum):
    """How far a rank's use of memory came."""

    BEFORE = "before"
    WEIGHTS = "weights"
    POOLS = "pools"
    STANDING = "standing"
    GRAPHS = "graphs"
    CAPTURED = "captured"


@dataclass(slots=True)
class RankMemory:
    """What one rank printed, GiB; `pools` lists the KV pools in order (target first).

    `before_pools_gib` is the free memory when the target's pools were sized: after a draft model
    too, where that is loaded first (0.5.14 and later). `last_gib` is the newest free amount.
    """

    before_weights_gib: float | None = None
    after_weights_gib: float | None = None
    before_pools_gib: float | None = None
    weights_gib: float | None = None
    draft_weights_gib: float | None = None
    after_pools_gib: float | None = None
    distributed_gib: float | None = None
    decode_graph_gib: float | None = None
    prefill_graph_gib: float | None = None
    draft_graph_gib: float | None = None
    last_gib: float | None = None
    pools: list[Pool] = field(default_factory=list)
    mamba_slots: int | None = None
    mamba_conv_gib: float | None = None
    mamba_ssm_gib: float | None = None
    mamba_intermediate_gib: float | None = None
    model_class: str | None = None
    loads: int = 0
    stage: Stage = Stage.BEFORE

    @property
    def mamba_state_gib(self) -> float | None:
        """The states of the pool, both parts."""
        return total(self.mamba_conv_gib, self.mamba_ssm_gib)

    def pool_gib(self, *, draft: bool) -> float | None:
        """Return the KV pools of the target or of the draft model together."""
        return total(*(pool.gib for pool in self.pools if pool.draft is draft))


def headroom(rank: RankMemory) -> float:
    """Order ranks by what they have left, latest figure first."""
    for value in (rank.after_pools_gib, rank.after_weights_gib, rank.before_weights_gib):
        if value is not None:
            return value
    return float("inf")


def total(*parts: float | None) -> float | None:
    """Add what is known; None if nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
