"""Options and outputs shared by the commands that end in a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import click

from advisor.cli.output import emit
from advisor.diagnosis import Report
from advisor.errors import ConfigError
from advisor.report.formats import FORMATS, Style
from advisor.report.places import Repository

_Command = TypeVar("_Command", bound=Callable[..., object])
_RUNNER_ROOTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
_OPTIONS = (
    click.option(
        "--format",
        "form",
        type=click.Choice(list(FORMATS)),
        default="terminal",
        show_default=True,
        help="How to write the report.",
    ),
    click.option(
        "-o",
        "output",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write the report to this file instead of printing it.",
    ),
    click.option(
        "--output",
        "outputs",
        metavar="FORMAT:FILE",
        multiple=True,
        help="Write the report in another format to a file, too; may be given several times.",
    ),
    click.option(
        "--width",
        type=click.IntRange(40, 400),
        help="Columns of the terminal report (default: the terminal's).",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print only the verdict and the findings."),
    click.option(
        "--category",
        metavar="NAME",
        help="Name of the server or job in SARIF and JUnit (default: the log's name).",
    ),
    click.option(
        "--anchor",
        metavar="FILE",
        help="File of the repository that alerts attach to, such as deploy/server.yaml.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What the user asked for: the main report and further ones."""

    form: str
    output: Path | None
    outputs: tuple[tuple[str, Path], ...]
    style: Style

    @classmethod
    def of(cls, options: Mapping[str, object]) -> ReportOptions:
        """Check the options before anything runs.

        Raises:
            ConfigError: If an `--output` is not FORMAT:FILE, or a file is named twice.
        """
        output = _path(options["output"])
        width, category, anchor = options["width"], options["category"], options["anchor"]
        style = replace(
            Style.of_terminal(
                width=width if isinstance(width, int) else None,
                to_file=output is not None,
                quiet=bool(options["quiet"]),
            ),
            category=None if category is None else str(category),
            anchor=None if anchor is None else str(anchor),
            repository=_repository(),
        )
        named = options["outputs"]
        pairs = tuple(_pair(str(text)) for text in named) if isinstance(named, tuple) else ()
        files = [path for _, path in pairs] + ([] if output is None else [output])
        for path in files:
            if files.count(path) > 1:
                raise ConfigError(f"{path}: two reports would be written to this file")
        return cls(form=str(options["form"]), output=output, outputs=pairs, style=style)

    def named(self, category: str | None) -> ReportOptions:
        """Return the options with a category where the user gave none."""
        if self.style.category is not None or category is None:
            return self
        return replace(self, style=replace(self.style, category=category))

    def write(self, report: Report) -> None:
        """Write the further reports, then print or write the main one.

        Raises:
            InputError: If a file cannot be written.
        """
        plain = replace(self.style, colour=False, ascii_only=False)
        for form, path in self.outputs:
            emit(FORMATS[form](report, plain), path)
        emit(FORMATS[self.form](report, self.style), self.output)


def report_options(command: _Command) -> _Command:
    """Give a command the options of reports, to be passed on to `ReportOptions.of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _pair(text: str) -> tuple[str, Path]:
    form, colon, name = text.partition(":")
    if not colon or not name:
        raise ConfigError(
            f"--output {text}: write FORMAT:FILE, such as markdown:ticket.md; -o FILE takes the one"
            " report of --format"
        )
    if form not in FORMATS:
        raise ConfigError(f"--output {text}: no format {form!r}; there are {', '.join(FORMATS)}")
    return form, Path(name)


def _path(value: object) -> Path | None:
    return value if isinstance(value, Path) else None


def _repository() -> Repository:
    """Find the checkout around the working folder: a runner's variable, or the nearest `.git`."""
    here = Path.cwd()
    candidates = [Path(os.environ[name]) for name in _RUNNER_ROOTS if os.environ.get(name)]
    candidates += [folder for folder in (here, *here.parents) if (folder / ".git").exists()]
    for root in candidates:
        if here == root or root in here.parents:
            folder = here.relative_to(root).as_posix()
            return Repository(root=root.as_posix(), folder="" if folder == "." else folder)
    return Repository(root=here.as_posix())
