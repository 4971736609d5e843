"""`advisor rules new` and `advisor rules docs`: begin a rule, and keep the pages of all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from advisor import __version__
from advisor.cli.output import write_atomically
from advisor.errors import EXIT_CLEAN, EXIT_FINDINGS, ConfigError, InputError
from advisor.examples import first_finding
from advisor.report import rule_page
from advisor.rules.load import load_rules
from advisor.rules.scaffold import is_id, scaffold
from advisor.rules.vocabulary import TOPICS

_CATALOGUE = "README.md"


@click.command(name="new", epilog="Example: advisor rules new disk-cache-slow --rules my-rules")
@click.argument("rule_id", metavar="ID")
@click.option(
    "--rules",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("rules"),
    show_default=True,
    help="The folder of the rules; made if it does not exist.",
)
@click.option("--family", default="own", show_default=True, help="The sub-folder to put it in.")
@click.option(
    "--topic",
    type=click.Choice(sorted(TOPICS)),
    default="startup",
    show_default=True,
    metavar="WORD",
)
def new_command(*, rule_id: str, folder: Path, family: str, topic: str) -> None:
    """Write a commented rule file that `advisor rules check` accepts, to be filled in.

    ID names the condition, not the cure, in words joined by hyphens.
    """
    if not is_id(rule_id) or not is_id(family):
        raise ConfigError("an id or family is words of a-z and 0-9 joined by hyphens")
    path = folder / family / f"{rule_id}.yaml"
    if path.exists():
        raise ConfigError(f"{path} exists already: choose another id, or edit it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be made: {error.strerror or error}") from None
    write_atomically(path, scaffold(rule_id, topic=topic, since=__version__))
    click.echo(f"{path}: fill it in, then run: advisor rules check {folder}")


@click.command(name="docs", epilog="Example: advisor rules docs docs/rules --check")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--rules",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A folder of your own rules.",
)
@click.option("--check", is_flag=True, help="Change nothing; exit 1 where a page is out of date.")
def docs_command(*, folder: Path, folders: tuple[Path, ...], check: bool) -> int:
    """Write a page for each rule and a catalogue into FOLDER, all made from the rule files.

    Pages of rules that are gone are removed: FOLDER holds nothing else.
    """
    pages = _pages(folders)
    present = {path.name: path for path in folder.glob("*.md")}
    stale = sorted(set(present) - set(pages))
    changed = sorted(name for name, text in pages.items() if _differs(present.get(name), text))
    if check:
        for name in (*changed, *stale):
            click.echo(f"{folder / name}: out of date; run: advisor rules docs {folder}", err=True)
        return EXIT_FINDINGS if changed or stale else EXIT_CLEAN
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        write_atomically(folder / name, pages[name])
    for name in stale:
        _remove(present[name])
    click.echo(f"{len(pages)} pages, {len(changed)} written, {len(stale)} removed")
    return EXIT_CLEAN


def _pages(folders: tuple[Path, ...]) -> Mapping[str, str]:
    rules = load_rules(folders)
    pages = {f"{rule.id}.md": rule_page.page(rule, first_finding(rule)) for rule in rules}
    return {**pages, _CATALOGUE: rule_page.catalogue(rules)}


def _differs(path: Path | None, text: str) -> bool:
    return path is None or path.read_text(encoding="utf-8") != text


def _remove(path: Path) -> None:
    """Remove a page that was made here; a file of another kind is left alone with an error.

    Raises:
        ConfigError: If the file is no rule's page.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or lines[0] != f"# {path.stem}":
        raise ConfigError(f"{path} is no page of a rule: give the rule pages a folder of their own")
    path.unlink()
