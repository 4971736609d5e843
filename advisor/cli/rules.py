"""`advisor rules`: the catalogue and its upkeep."""

from __future__ import annotations

import json
from pathlib import Path

import click

from advisor.cli.rule_audit import audit_command
from advisor.cli.rule_writing import docs_command, new_command
from advisor.errors import ConfigError, RuleError
from advisor.examples import example_problems, first_finding
from advisor.report import rule_page
from advisor.rules.checking import check_rules, has_sound_texts
from advisor.rules.load import bundled_rules, load_rules, parse_folders
from advisor.rules.model import Rule
from advisor.rules.nodes import near


@click.group(name="rules", epilog="Example: advisor rules explain moe-config-missing")
def rules_group() -> None:
    """List, explain and check the rules."""


for command in (audit_command, new_command, docs_command):
    rules_group.add_command(command)


@rules_group.command(name="list", epilog="Example: advisor rules list --topic moe_config")
@click.option("--topic", help="Only rules of this topic.")
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), default="terminal")
@click.option(
    "--rules",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A folder of your own rules.",
)
def list_command(*, topic: str | None, form: str, folders: tuple[Path, ...]) -> None:
    """List the rules: id, severity, topic and title."""
    rules = [rule for rule in load_rules(folders) if topic in {None, rule.topic}]
    if form == "json":
        click.echo(json.dumps([rule_page.summary(rule) for rule in rules], indent=2))
        return
    for rule in rules:
        click.echo(
            f"{rule.id:<40} {rule.wording.severity.value:<8} {rule.topic:<18} {rule_page.plain_title(rule)}"
        )


@rules_group.command(name="explain", epilog="Example: advisor rules explain moe-config-missing")
@click.argument("rule_id", metavar="ID")
@click.option(
    "--rules",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A folder of your own rules.",
)
def explain_command(*, rule_id: str, folders: tuple[Path, ...]) -> None:
    """Say what a rule looks for, why it matters, what to do, and when to ignore it.

    ID is any id of a report: of a rule, of a check of `advisor preflight`, or of the gate.
    """
    click.echo(_page(rule_id, load_rules(folders)), nl=False)


@rules_group.command(name="check", epilog="Example: advisor rules check my-rules/")
@click.argument("folders", type=click.Path(path_type=Path), nargs=-1)
def check_command(*, folders: tuple[Path, ...]) -> None:
    """Check rule files: all mistakes at once, examples included (the bundled rules by default)."""
    rules, problems = parse_folders(folders)
    known = {rule.id for rule in rules} | (
        {rule.id for rule in bundled_rules()} if folders else set()
    )
    problems += check_rules(rules, known)
    problems += example_problems(rule for rule in rules if has_sound_texts(rule))
    if problems:
        raise RuleError(problems)
    examples = sum(len(rule.examples) for rule in rules)
    click.echo(f"{len(rules)} rules, {examples} examples: all hold")


def _page(rule_id: str, rules: tuple[Rule, ...]) -> str:
    from advisor.gate import GATE_RULES
    from advisor.preflight.catalogue import checks
    from advisor.preflight.pages import page

    for rule in rules:
        if rule.id == rule_id:
            return rule_page.page(rule, first_finding(rule))
    if rule_id in checks():
        return page(rule_id)
    if rule_id in GATE_RULES:
        return f"# {rule_id}\n\n{GATE_RULES[rule_id]}\n"
    known = [*(rule.id for rule in rules), *checks(), *GATE_RULES]
    raise ConfigError(f"no rule {rule_id!r}{near(rule_id, known)}")
