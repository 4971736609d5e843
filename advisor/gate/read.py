"""Read `.advisor.yaml` or `[tool.advisor]`; every mistake is told with its place, all at once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from advisor.errors import ConfigError
from advisor.findings import Severity
from advisor.gate.policy import Ignore, Policy
from advisor.rules import nodes
from advisor.rules.nodes import Problems

FILE_NAME = ".advisor.yaml"
PROJECT_FILE = "pyproject.toml"
_NEVER = "never"
_KEYS = ("select", "ignore", "severity", "fail-on", "baseline", "tolerance")
_IGNORE_KEYS = ("rule", "reason", "expires")
_LARGEST_BYTES = 1 << 20


def find_policy(folder: Path, known: Iterable[str]) -> Policy:
    """Return the configuration of the nearest folder upwards that has one; empty if none has.

    The search ends at the root of the repository (the folder with `.git`).

    Raises:
        ConfigError: If it has mistakes.
    """
    for steps, place in enumerate((folder, *folder.parents)):
        shown = Path(*[".."] * steps)
        if (place / FILE_NAME).is_file():
            return read_policy(shown / FILE_NAME, known, folder)
        if (place / PROJECT_FILE).is_file() and _project_section(place / PROJECT_FILE) is not None:
            return read_policy(shown / PROJECT_FILE, known, folder)
        if (place / ".git").exists():
            break
    return Policy()


def read_policy(path: Path, known: Iterable[str], folder: Path = Path()) -> Policy:
    """Read a configuration file.

    Args:
        path: YAML, or a pyproject.toml with `[tool.advisor]`; named so in messages.
        known: The ids of all rules and checks.
        folder: Where a relative path begins.

    Raises:
        ConfigError: If it cannot be read or has mistakes; one line for each.
    """
    problems = Problems(file=str(path))
    if path.suffix == ".toml":
        section = _project_section(folder / path)
        if section is None:
            raise ConfigError(f"{path}: no [tool.advisor] in it")
        text = yaml.safe_dump(section, allow_unicode=True, sort_keys=False)
        problems.file = f"{path}: [tool.advisor]"
    else:
        text = _text(folder / path)
    if _is_empty(text):
        return Policy(origin=str(path))
    top = nodes.compose(text, problems)
    policy = Policy() if top is None else _policy(top, str(path), sorted(known), problems)
    if problems.lines:
        raise ConfigError("\n".join(problems.lines))
    return policy


def _is_empty(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    return all(not line or line.startswith("#") or line in {"{}", "---"} for line in lines)


def check_ids(patterns: Iterable[str], known: Iterable[str], option: str) -> None:
    """Check ids given on the command line.

    Raises:
        ConfigError: If one fits no known id; the nearest is told.
    """
    if not patterns:
        return
    ids = sorted(known)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in ids):
            raise ConfigError(f"{option} {pattern}: no such rule{nodes.near(pattern, ids)}")


def _policy(top: yaml.MappingNode, origin: str, known: list[str], problems: Problems) -> Policy:
    fields = nodes.pairs(top, problems)
    nodes.check_keys(fields, _KEYS, problems)
    fail_on = nodes.text(fields.get("fail-on"), problems)
    baseline = nodes.text(fields.get("baseline"), problems)
    return Policy(
        origin=origin,
        select=_ids(fields.get("select"), known, problems),
        ignores=tuple(
            _ignore(node, known, problems) for node in nodes.items(fields.get("ignore"), problems)
        ),
        severities=_severities(fields.get("severity"), known, problems),
        fail_on=None
        if fail_on in {"", _NEVER}
        else _severity(fail_on, fields["fail-on"], problems),
        fails=fail_on != _NEVER,
        baseline=Path(baseline) if baseline else None,
        tolerance_ratio=_tolerance(fields.get("tolerance"), problems),
    )


def _ids(node: yaml.Node | None, known: list[str], problems: Problems) -> tuple[str, ...]:
    ids = () if node is None else nodes.texts(node, problems)
    for pattern in ids:
        _check_id(pattern, node, known, problems)
    return ids


def _check_id(pattern: str, node: yaml.Node | None, known: list[str], problems: Problems) -> None:
    if not any(fnmatchcase(name, pattern) for name in known):
        problems.add(node, f"no rule {pattern!r}{nodes.near(pattern, known)}")


def _ignore(node: yaml.Node, known: list[str], problems: Problems) -> Ignore:
    fields = nodes.pairs(node, problems)
    nodes.check_keys(fields, _IGNORE_KEYS, problems)
    rule = nodes.text(fields.get("rule"), problems)
    reason = nodes.text(fields.get("reason"), problems).strip()
    if not rule:
        problems.add(node, "an ignore needs `rule`")
    else:
        _check_id(rule, fields["rule"], known, problems)
    if not reason:
        problems.add(node, f"the ignore of {rule or '?'} needs a `reason`")
    return Ignore(
        rule=rule,
        reason=reason,
        expires=_date(fields.get("expires"), problems),
        line=node.start_mark.line + 1,
    )


def _date(node: yaml.Node | None, problems: Problems) -> date | None:
    if node is None:
        return None
    text = nodes.text(node, problems)
    try:
        return date.fromisoformat(text)
    except ValueError:
        problems.add(node, f"{text!r} is no date: write YYYY-MM-DD")
        return None


def _severities(
    node: yaml.Node | None, known: list[str], problems: Problems
) -> Mapping[str, Severity]:
    found: dict[str, Severity] = {}
    for pattern, value in ({} if node is None else nodes.pairs(node, problems)).items():
        _check_id(pattern, value, known, problems)
        severity = _severity(nodes.text(value, problems), value, problems)
        if severity is not None:
            found[pattern] = severity
    return found


def _severity(text: str, node: yaml.Node, problems: Problems) -> Severity | None:
    try:
        return Severity(text)
    except ValueError:
        allowed = [item.value for item in Severity]
        problems.add(node, f"{text!r} is no severity: write {', '.join(allowed)}")
        return None


def _tolerance(node: yaml.Node | None, problems: Problems) -> float | None:
    """Read a share such as 0.05 or "5 %"."""
    if node is None:
        return None
    text = nodes.text(node, problems)
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        problems.add(node, f"tolerance {text!r}: write a share such as 0.05 or 5%")
        return None
    return value


def _project_section(path: Path) -> Mapping[str, object] | None:
    try:
        document = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None
    tool = document.get("tool")
    section = tool.get("advisor") if isinstance(tool, dict) else None
    return section if isinstance(section, dict) else None


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path}: larger than 1 MiB, so no configuration")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: {reason}") from None
