"""What a gate lets pass: configuration, baseline, and what has grown worse. Pure but for file reading.

- `find_policy`, `read_policy`: `.advisor.yaml` or `[tool.advisor]` -> `Policy`.
- `apply(report, policy, today)`: select, ignore, change severities, judge again.
- `new_baseline`, `render_baseline`, `parse_baseline`: what is accepted today.
- `compare(report, baseline, origin, today)`: only what is new or worse remains.
"""

from __future__ import annotations

from advisor.gate.apply import GATE_RULES, apply
from advisor.gate.baseline import Baseline, new_baseline, parse_baseline, render_baseline
from advisor.gate.compare import compare
from advisor.gate.policy import Ignore, Policy
from advisor.gate.read import find_policy, read_policy

__all__ = [
    "GATE_RULES",
    "Baseline",
    "Ignore",
    "Policy",
    "apply",
    "compare",
    "find_policy",
    "new_baseline",
    "parse_baseline",
    "read_policy",
    "render_baseline",
]
