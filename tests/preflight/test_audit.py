"""The data against the wheels of the releases: flags, places and messages."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from advisor.errors import InputError
from advisor.knowledge.extract import read_interface
from advisor.knowledge.ranges import Membership, membership, releases_in
from advisor.knowledge.releases import known_versions
from advisor.knowledge.tree import SourceTree, open_tree
from advisor.knowledge.variables import variable_facts
from advisor.knowledge.wheels import find_wheel, wheel
from advisor.preflight.inputs.command import of_command_line
from advisor.preflight.judge import preflight
from advisor.preflight.support import SupportRow, rows
from advisor.preflight.target import Given, target_of

VERSIONS = [str(version) for version in known_versions()]
BY_RELEASE = pytest.mark.parametrize(
    ("tree", "version"), [(version, version) for version in VERSIONS], indirect=["tree"]
)
SPLIT_TEXT = re.compile(r"\"\s*\n\s*[rf]?\"")
REFUSALS = {"flag-unknown", "flag-renamed", "flag-ambiguous"}


@pytest.fixture(scope="module")
def tree(request: pytest.FixtureRequest) -> SourceTree:
    version = str(request.param)
    try:
        return open_tree(find_wheel(version) or wheel(version))
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.network
@BY_RELEASE
def test_every_flag_of_the_parser_is_known(tree: SourceTree, version: str) -> None:
    flags = [name for flag in read_interface(tree, version).flags for name in flag.names]
    command = of_command_line(["python", "-m", "sglang.launch_server", *flags])
    assert command is not None
    verdicts = preflight(
        [(command, target_of(command, Given(sglang=version)))], fail_on=None
    ).verdicts
    assert len(flags) > 100
    assert REFUSALS.isdisjoint({item.rule for item in verdicts.findings})


@pytest.mark.network
@BY_RELEASE
def test_each_row_names_a_file_and_a_message_of_the_release(tree: SourceTree, version: str) -> None:
    wanted = [row for row in rows() if version in {str(item) for item in releases_in(row.sglang)}]
    missing = [problem for row in wanted for problem in _problems(row, tree)]
    assert not missing


@pytest.mark.network
@BY_RELEASE
def test_the_variables_are_those_of_the_release(tree: SourceTree, version: str) -> None:
    read = _tool("extract_variables").read_variables(tree)
    assert len(read.named) > 40
    for name in read.named:
        facts = variable_facts(name)
        assert facts is not None
        assert membership(facts.seen, version) is Membership.IN
    for name, (acts, _) in read.deprecated.items():
        facts = variable_facts(name)
        assert facts is not None
        assert membership(facts.deprecated if acts else facts.ignored, version) is Membership.IN


def _tool(name: str) -> ModuleType:
    path = Path(__file__).parent.parent.parent / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _problems(row: SupportRow, tree: SourceTree) -> list[str]:
    texts = [text for path in row.where if (text := tree.read(f"srt/{path}")) is not None]
    if not texts:
        return [f"{row.check} {row.flags}: none of {row.where}"]
    if not row.message or row.raised_by != "SGLang":
        return []
    plain = [text + SPLIT_TEXT.sub("", text) for text in texts]
    if any(row.message in text for text in plain):
        return []
    return [f"{row.check} {row.flags}: no {row.message!r} in {row.where}"]
