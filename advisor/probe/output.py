"""The environment as text."""

from __future__ import annotations

import json

from advisor.knowledge.environment import Environment, render_environment
from advisor.probe.summary import summarise


def rendered(environment: Environment, format_: str) -> str:
    """Return the environment as `json` or as the summary for a `terminal`."""
    if format_ == "terminal":
        return summarise(environment)
    return json.dumps(render_environment(environment), indent=2) + "\n"
