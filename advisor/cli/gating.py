"""The options of the gate, shared by the commands that end in a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from advisor.cli.output import write_atomically
from advisor.errors import ConfigError
from advisor.findings import Severity

if TYPE_CHECKING:
    from advisor.diagnosis import Report
    from advisor.gate import Policy
    from advisor.rules.model import Rule

_Command = TypeVar("_Command", bound=Callable[..., object])
_NEVER = "never"
_BY_OPTION = "--ignore on the command line"
_OPTIONS = (
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Configuration of the gate (default: the nearest .advisor.yaml or [tool.advisor]).",
    ),
    click.option(
        "--baseline",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Let pass what `advisor baseline` accepted; only new or worse findings count.",
    ),
    click.option(
        "--select",
        multiple=True,
        metavar="RULE",
        help="Only these rules (ids, patterns, topic:WORD, family:WORD).",
    ),
    click.option("--ignore", multiple=True, metavar="RULE", help="Not these rules."),
    click.option(
        "--write-baseline",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Accept what this report says: write it as a baseline.",
    ),
)


def gate_options(command: _Command) -> _Command:
    """Give a command the options of the gate, to be passed on to `gated`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fail_on_option(default: str) -> Callable[[_Command], _Command]:
    """Return the option `--fail-on`; a configuration file comes before its default."""
    return click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "note", _NEVER]),
        help=f"Exit 1 where a finding is at or above this level.  [default: {default}]",
    )


def threshold(fail_on: str | None, default: str) -> Severity | None:
    """Return the level of `--fail-on`; None never fails."""
    text = fail_on or default
    return None if text == _NEVER else Severity(text)


def known_rules(rules: Iterable[str] = ()) -> tuple[str, ...]:
    """Return every id that a policy may name: rules, checks of preflight, the gate's own."""
    from advisor.gate import GATE_RULES
    from advisor.preflight.catalogue import checks
    from advisor.rules.load import bundled_rules

    bundled = (rule.id for rule in bundled_rules())
    return tuple(sorted({*bundled, *rules, *checks(), *GATE_RULES}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownIds:
    """Every id that a policy may name, gathered only where a policy names one."""

    rules: tuple[str, ...]

    def __iter__(self) -> Iterator[str]:
        return iter(known_rules(self.rules))


def gated(
    report: Report,
    options: Mapping[str, object],
    *,
    fail_on: str | None,
    rules: Sequence[Rule] = (),
) -> Report:
    """Apply the configuration, the options and the baseline to a report.

    Raises:
        ConfigError: If the configuration or the baseline has mistakes.
    """
    from advisor.gate import apply, compare, parse_baseline
    from advisor.gate.compare import DEFAULT_TOLERANCE_RATIO

    policy = _policy(options, fail_on, rules)
    report = apply(report, policy, today())
    if isinstance(written := options["write_baseline"], Path):
        write_baseline(report, written, reason=f"accepted on {today()}")
    path = options["baseline"] or _configured(policy)
    if not isinstance(path, Path):
        return report
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: {reason}: make the baseline with `advisor baseline`") from None
    tolerance = policy.tolerance_ratio
    return compare(
        report,
        parse_baseline(text, str(path)),
        str(path),
        today(),
        tolerance_ratio=DEFAULT_TOLERANCE_RATIO if tolerance is None else tolerance,
    )


def write_baseline(report: Report, path: Path, *, reason: str, expires: date | None = None) -> None:
    """Write what a report says as the baseline.

    Raises:
        InputError: If the file cannot be written.
    """
    from advisor.gate import new_baseline, render_baseline

    baseline = new_baseline(report, today(), reason=reason, expires=expires)
    write_atomically(path, render_baseline(baseline))
    count = len(baseline.findings)
    click.echo(f"advisor: {count} finding{'' if count == 1 else 's'} accepted in {path}", err=True)


def today() -> date:
    """Return the date in UTC, so that a gate says the same on every runner."""
    return datetime.now(tz=UTC).date()


def _policy(options: Mapping[str, object], fail_on: str | None, rules: Sequence[Rule]) -> Policy:
    from advisor.gate import Ignore, find_policy, read_policy
    from advisor.gate.read import check_ids
    from advisor.rules.selection import expanded

    known = _KnownIds(rules=tuple(rule.id for rule in rules))
    config = options["config"]
    policy = (
        read_policy(config, known) if isinstance(config, Path) else find_policy(Path.cwd(), known)
    )
    select = expanded(_texts(options["select"]), rules)
    ignore = expanded(_texts(options["ignore"]), rules)
    check_ids(select, known, "--select")
    check_ids(ignore, known, "--ignore")
    added = tuple(Ignore(rule=rule, reason=_BY_OPTION) for rule in ignore)
    policy = replace(policy, ignores=(*added, *policy.ignores), select=select or policy.select)
    return policy if fail_on is None else replace(policy, fail_on=None, fails=True)


def _configured(policy: Policy) -> Path | None:
    return None if policy.baseline is None else Path(policy.origin).parent / policy.baseline


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, tuple) else ()
