"""Verify whole config files: their name, keys, entries, and the file of the other GEMM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.configs.checks import Gravity, Problem, pair_problems, table_problems
from advisor.configs.entries import ConfigTable, read_table
from advisor.configs.loaders import Loader
from advisor.configs.names import MoeConfigName, parse_moe_name
from advisor.configs.pool import OnDone
from advisor.configs.problem import MoeProblem, problem_of_name
from advisor.configs.verify import EntryCheck, Verifier, questions_of, verify_questions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """One config file as read.

    Attributes:
        sibling: Table of the other GEMM's file beside it; None if there is none.
    """

    path: Path
    name: MoeConfigName
    table: ConfigTable
    sibling: ConfigTable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What verification says about one file."""

    file: ConfigFile
    checks: tuple[EntryCheck, ...]
    problems: tuple[Problem, ...]

    @property
    def unfit(self) -> tuple[EntryCheck, ...]:
        """Return the checks of entries that the target cannot run."""
        return tuple(check for check in self.checks if not check.fits)

    @property
    def unfit_tokens(self) -> tuple[int, ...]:
        """Return their batch sizes, each once."""
        return tuple(dict.fromkeys(check.tokens for check in self.unfit))

    @property
    def clean(self) -> bool:
        """Say whether everything fits and nothing is an error."""
        errors = any(problem.gravity is Gravity.ERROR for problem in self.problems)
        return not self.unfit and not errors


def read_config(path: Path) -> ConfigFile:
    """Read a fused-MoE config file, and the other GEMM's file if it lies beside it.

    Raises:
        InputError: If the file cannot be read, is no JSON object, or its name is not SGLang's.
    """
    table = read_table(path)
    name = parse_moe_name(path.name)
    other = path.with_name(name.for_down(down=not name.down).file_name)
    sibling = read_table(other) if other.is_file() else None
    return ConfigFile(path=path, name=name, table=table, sibling=sibling)


ProblemOf = Callable[[MoeConfigName], MoeProblem]
"""How the numbers behind a name are found; `problem_of_name` assumes what the name does not say."""


def verify_files(
    files: Sequence[ConfigFile],
    verifier: Verifier,
    *,
    loader: Loader | None = None,
    problem_of: ProblemOf = problem_of_name,
    on_done: OnDone | None = None,
) -> tuple[FileReport, ...]:
    """Verify files in one go, so that equal entries are compiled once.

    Raises:
        InputError: If the verifier's SGLang install has no kernel that can be used.
    """
    asked = [
        questions_of(file.table.entries, problem_of(file.name), down=file.name.down)
        for file in files
    ]
    flat = [question for questions in asked for question in questions]
    answers = iter(verify_questions(flat, verifier, on_done=on_done))
    return tuple(
        FileReport(
            file=file,
            checks=tuple(next(answers) for _ in questions),
            problems=_problems(file, loader),
        )
        for file, questions in zip(files, asked, strict=True)
    )


def _problems(file: ConfigFile, loader: Loader | None) -> tuple[Problem, ...]:
    found = table_problems(file.name, file.table, loader)
    if file.sibling is None:
        return found
    tables = (file.sibling, file.table) if file.name.down else (file.table, file.sibling)
    return found + pair_problems(*tables, loader)
