"""MoE kernel configurations: what the server looked up and what it found.

Lines of `layers/moe/fused_moe_triton/fused_moe_triton_config.py` (to 0.5.10) and
`layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py` (from 0.5.12).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from advisor.facts.hits import Hit, Sightings
from advisor.facts.model import MoeFacts, MoeLookup, MoeOutcome

_OUTCOMES = {
    "moe-config-used": MoeOutcome.EXACT,
    "moe-config-fallback-triton": MoeOutcome.FALLBACK,
    "moe-config-down-missing-old": MoeOutcome.REUSE_UP,
    "moe-config-down-missing-new": MoeOutcome.REUSE_UP,
    "moe-config-default": MoeOutcome.DEFAULT,
}
_PACKAGED_FOLDERS = ("/sglang/srt/layers/moe/", "/python/sglang/")
_Key = tuple[str, int, int, str, str | None, str | None, str | None]


@dataclass(slots=True)
class MoeCollector:
    """Joins the look-ups of all ranks; the last outcome of a shape and projection counts."""

    _lookups: dict[_Key, MoeLookup] = field(default_factory=dict)
    _seen: dict[_Key, Sightings] = field(default_factory=dict)
    _runner: str | None = None
    _deterministic: Sightings | None = None

    def take(self, hit: Hit) -> None:
        """Note one look-up line, or the line that names the MoE runner."""
        if hit.key in _OUTCOMES:
            self._take_lookup(hit, _OUTCOMES[hit.key])
        elif hit.key == "moe-runner-choice":
            self._runner = hit.values.get("backend")
        elif hit.key == "moe-config-deterministic":
            self._deterministic = self._deterministic or Sightings(first=hit.record)
            self._deterministic.add(hit.record)

    def _take_lookup(self, hit: Hit, outcome: MoeOutcome) -> None:
        lookup = _lookup(hit, outcome)
        key = (
            lookup.projection,
            lookup.experts,
            lookup.width,
            lookup.device_name,
            lookup.dtype,
            str(lookup.block_shape),
            lookup.folder if outcome is MoeOutcome.EXACT else None,
        )
        seen = self._seen.setdefault(key, Sightings(first=hit.record))
        seen.add(hit.record)
        self._lookups[key] = lookup

    def result(self) -> MoeFacts:
        """Return the look-ups in log order and what the first shape came to."""
        lookups = tuple(self._finished(key, lookup) for key, lookup in self._lookups.items())
        up = next((item for item in lookups if item.projection == "up"), None)
        down = next((item for item in lookups if item.projection == "down"), None)
        first = up or down
        up_outcome = _up_outcome(up, down)
        if first is None and self._deterministic is not None:
            up_outcome = MoeOutcome.DETERMINISTIC
        return MoeFacts(
            lookups=lookups,
            up_outcomes=_up_outcomes(lookups, up_outcome),
            up_outcome=up_outcome,
            down_outcome=None if down is None else _down_outcome(down, up_outcome),
            experts=None if first is None else first.experts,
            width=None if first is None else first.width,
            dtype=None if first is None else first.dtype,
            triton=None if first is None else first.triton,
            runner=self._runner,
            config_folder=None if first is None else first.folder,
            overlay=None if first is None else _is_overlay(first.folder),
            sglang_folder=None if first is None else _sglang_folder(first.folder),
        )

    def _finished(self, key: _Key, lookup: MoeLookup) -> MoeLookup:
        return MoeLookup(
            projection=lookup.projection,
            outcome=lookup.outcome,
            experts=lookup.experts,
            width=lookup.width,
            device_name=lookup.device_name,
            dtype=lookup.dtype,
            block_shape=lookup.block_shape,
            per_channel=lookup.per_channel,
            triton=lookup.triton,
            file_name=lookup.file_name,
            folder=lookup.folder,
            used_path=lookup.used_path,
            used_triton=lookup.used_triton,
            evidence=self._seen[key].evidence(),
        )


def _up_outcome(up: MoeLookup | None, down: MoeLookup | None) -> MoeOutcome | None:
    """The reuse line of 0.5.16 and later proves that a tuned up file was found."""
    if up is not None:
        return up.outcome
    if down is not None and "reusing the tuned" in down.evidence.text:
        return MoeOutcome.EXACT
    return None


def _up_outcomes(
    lookups: tuple[MoeLookup, ...], first: MoeOutcome | None
) -> tuple[MoeOutcome, ...] | None:
    """Name each outcome of an up look-up once, in log order; None without any MoE line."""
    found = [item.outcome for item in lookups if item.projection == "up"]
    found += [] if first is None else [first]
    return tuple(dict.fromkeys(found)) or None


def _down_outcome(down: MoeLookup, up: MoeOutcome | None) -> MoeOutcome:
    """Without an up file the line of 0.5.6 to 0.5.14 means default tiles for down as well."""
    if down.outcome is MoeOutcome.REUSE_UP and up is MoeOutcome.DEFAULT:
        return MoeOutcome.DEFAULT
    return down.outcome


def _lookup(hit: Hit, outcome: MoeOutcome) -> MoeLookup:
    suffix = "_want" if outcome is MoeOutcome.FALLBACK else ""

    def value(name: str) -> str | None:
        return hit.values.get(name + suffix)

    block = (value("block_n"), value("block_k"))
    triton = value("triton")
    return MoeLookup(
        projection="down" if value("down") else "up",
        outcome=outcome,
        experts=int(value("E") or 0),
        width=int(value("N") or 0),
        device_name=value("device") or "",
        dtype=value("dtype"),
        block_shape=None if None in block else (int(block[0] or 0), int(block[1] or 0)),
        per_channel=value("per_channel") is not None,
        triton=None if triton is None else triton.replace("_", "."),
        file_name=_file_name(hit, suffix),
        folder=value("config_dir") or "",
        used_path=hit.values.get("used_path"),
        used_triton=hit.values.get("fallback_triton"),
        evidence=hit.record.evidence(),
    )


def _file_name(hit: Hit, suffix: str) -> str:
    """Rebuild the file's name from its parts, as the server spells it."""
    values = hit.values
    parts = [
        f"E={values['E' + suffix]}",
        f"N={values['N' + suffix]}",
        f"device_name={values['device' + suffix]}",
    ]
    if dtype := values.get("dtype" + suffix):
        parts.append(f"dtype={dtype}")
    if "block_n" + suffix in values:
        parts.append(f"block_shape=[{values['block_n' + suffix]}, {values['block_k' + suffix]}]")
    if "per_channel" + suffix in values:
        parts.append("per_channel_quant=True")
    return ",".join(parts) + ("_down" if "down" + suffix in values else "") + ".json"


def _is_overlay(folder: str) -> bool:
    return not any(part in f"{folder}/" for part in _PACKAGED_FOLDERS)


def _sglang_folder(folder: str) -> str | None:
    """Return the server's `sglang/` folder; None for a path that does not lead through it.

    >>> _sglang_folder("/opt/venv/site-packages/sglang/srt/layers/moe/fused_moe_triton")
    '/opt/venv/site-packages/sglang'
    """
    before, found, _ = folder.rpartition("/sglang/srt/")
    return f"{before}/sglang" if found else None
