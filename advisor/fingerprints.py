"""What makes a finding the same finding tomorrow: rule and evidence, without what always moves.

Lines, times, ranks, process ids, sizes and counters change from start to start; the rule, the
wording of the message and the names in it do not. The gate formats and the baseline key on this.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

import regex

from advisor.findings import Finding

_TIME_LIMIT_S = 2.0
_ARGUMENTS = regex.compile(r"\bserver_args\s*=.*", regex.DOTALL)
_MOVING = (
    (
        regex.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?"),
        "",
    ),
    (regex.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (regex.compile(r"\b(?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d+\b"), "RANK"),
    (regex.compile(r"(?:/[^\s/'\"]+)+/(?=[^\s/'\"]+/[^\s/'\"]+)"), ""),
    (regex.compile(r"(?<![\w.=-])[-+]?\d+(?:[.,:]\d+)*(?![\w-])(?!\.\d)"), "#"),
    (regex.compile(r"(?<=(?<!\b[EN])=)[-+]?\d+(?:[.,:]\d+)*(?![\w-])"), "#"),
    (regex.compile(r"(?<![\w.=-])[-+]?\d+(?:\.\d+)?(?=(?:[kKMGT]i?B|ms|us|s|it|tok)\b)"), "#"),
    (regex.compile(r"\s+"), " "),
)
_DIGEST_LENGTH = 32


def fingerprint(finding: Finding) -> str:
    """Return a finding's fingerprint, 32 hexadecimal digits."""
    return _digest(finding.rule, *sorted({normalised(place.text) for place in finding.evidence}))


def fingerprints(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return one fingerprint for each finding, all different, in their order.

    Findings that would share one are told apart by their order.
    """
    seen: Counter[str] = Counter()
    result: list[str] = []
    for finding in findings:
        base = fingerprint(finding)
        result.append(base if not seen[base] else _digest(base, str(seen[base])))
        seen[base] += 1
    return tuple(result)


def normalised(text: str) -> str:
    """Take out of a message what differs between two starts of the same server.

    The shape in the name of a MoE config (E=, N=) and digits that are part of a word stay; of a
    long path the last two parts stay.

    >>> normalised("[2026-03-04 05:06:07 TP1] Load weight end. avail mem=12.68 GB, elapsed=3 s")
    '[ RANK] Load weight end. avail mem=# GB, elapsed=# s'
    >>> normalised("not found at /opt/a/configs/triton_3_6_0/E=8,N=96,device_name=NVIDIA_H200.json")
    'not found at triton_3_6_0/E=8,N=96,device_name=NVIDIA_H200.json'
    """
    text = _ARGUMENTS.sub("server_args", text, timeout=_TIME_LIMIT_S)
    for pattern, replacement in _MOVING:
        text = pattern.sub(replacement, text, timeout=_TIME_LIMIT_S)
    return text.strip()


def _digest(*parts: str) -> str:
    whole = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(whole).hexdigest()[:_DIGEST_LENGTH]
