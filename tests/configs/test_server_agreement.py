"""The lookup and the built-in tiles equal those of SGLang's own code, release by release."""

from __future__ import annotations
import __future__

import ast
import functools
import json
import os
import random
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.configs.defaults import default_entry
from advisor.configs.entries import Entry
from advisor.configs.loaders import loader_of_version, loader_paths
from advisor.configs.lookup import Lookup, Request, Source, lookup
from advisor.configs.names import MoeConfigName
from advisor.configs.trees import DiskFiles, listed_configs, open_tree, read_releases

pytestmark = [pytest.mark.network, pytest.mark.slow]

TRITONS = ("3.1.0", "3.2.0", "3.3.0", "3.3.1", "3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.9.0")
DEVICES = ("NVIDIA_H200", "NVIDIA_B200", "NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition")
POINTS = 30
TOKENS = (1, 3, 48, 100, 700, 1024, 5000)
FUNCTIONS = ("get_config_file_name", "get_moe_configs", "get_default_config")
CHOICE = "try_get_optimal_moe_config"


@dataclass(kw_only=True)
class Recorder:
    """Stands for the server's logger."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def info(self, text: str, *values: object) -> None:
        self.lines.append(("INFO", text % values if values else text))

    def warning(self, text: str, *values: object) -> None:
        self.lines.append(("WARNING", text % values if values else text))

    def warning_once(self, text: str, *values: object) -> None:
        """Overrides of BLOCK_SIZE_M are not part of the lookup."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The lookup functions of one release, lifted out of its file and run alone."""

    scope: dict[str, Any]
    logger: Recorder
    has_down: bool
    has_per_channel: bool


def server(package: Path, triton: str, device: str, *, deterministic: bool = False) -> Server:
    path = next(package / one for one in loader_paths() if (package / one).is_file())
    tree = ast.parse(path.read_text())
    functions = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in {*FUNCTIONS, CHOICE}
    ]
    for node in functions:
        node.body = [one for one in node.body if not isinstance(one, ast.ImportFrom)]
    logger = Recorder()
    arguments = SimpleNamespace(enable_deterministic_inference=deterministic)
    scope: dict[str, Any] = {
        **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")},
        "__file__": str(path),
        "functools": functools,
        "json": json,
        "os": os,
        "logger": logger,
        "log_info_on_rank0": lambda to, text: to.info(text),
        "triton": SimpleNamespace(__version__=triton),
        "get_device_name": lambda: device.replace("_", " "),
        "get_global_server_args": lambda: arguments,
        "get_server_args": lambda: arguments,
        "get_exec": lambda: SimpleNamespace(deterministic=arguments),
        "get_config": lambda: None,
        "_is_hip": False,
        "_use_low_smem_fp8_default": lambda: "RTX" in device,
    }
    flags = __future__.annotations.compiler_flag
    exec(compile(ast.Module([*functions], []), str(path), "exec", flags=flags), scope)  # noqa: S102
    choice = next(node for node in functions if node.name == CHOICE)
    parameters = {one.arg for one in choice.args.args}
    return Server(
        scope=scope,
        logger=logger,
        has_down="return_down_config" in parameters,
        has_per_channel="per_channel_quant" in parameters,
    )


def choose(one: Server, name: MoeConfigName, tokens: int) -> tuple[Any, Any]:
    """Return what the server's own code takes for up and down, as dicts."""
    options: dict[str, Any] = {"block_shape": list(name.block_shape) if name.block_shape else None}
    if one.has_per_channel:
        options["per_channel_quant"] = name.per_channel
    if one.has_down:
        options["return_down_config"] = True
    w1 = (name.experts, 2 * name.width, 4096)
    w2 = (name.experts, 4096, name.width)
    result = one.scope[CHOICE](w1, w2, 8, name.dtype and str(name.dtype), tokens, **options)
    if one.has_down:
        return result[0], result[1][0]
    return result, None


def points(package: Path, version: str) -> Iterator[tuple[MoeConfigName, str]]:
    """Sample shapes of the release and shapes it does not have, with Triton versions."""
    random_points = random.Random(version)  # noqa: S311
    known = [one.name.for_down(down=False) for one in listed_configs(open_tree(package).files)]
    for _ in range(POINTS):
        name = random_points.choice(known)
        if random_points.random() < 0.3:
            name = replace(name, width=random_points.choice((name.width + 1, 768)))
        if random_points.random() < 0.3:
            name = replace(name, device=random_points.choice(DEVICES))
        yield name, random_points.choice(TRITONS)


def expected_entry(result: Lookup, name: MoeConfigName, tokens: int, version: str) -> Entry:
    if result.up.table is not None:
        return result.up.table.nearest(tokens)[1]
    limit = 101376 if "RTX" in name.device else None
    loader = loader_of_version(version)
    return default_entry(name, tokens, loader, shared_memory_bytes=limit)


@pytest.mark.parametrize("version", read_releases())
def test_lines_and_entries_equal_the_servers(
    version: str, server_package: Callable[[str], Path]
) -> None:
    package = server_package(version)
    tree = open_tree(package)
    for name, triton in points(package, version):
        one = server(package, triton, name.device)
        limit = 101376 if "RTX" in name.device else None
        request = Request(name=name, triton=triton, shared_memory_bytes=limit)
        result = lookup(request, tree.files, tree.loader)
        for tokens in TOKENS:
            try:
                up, down = choose(one, name, tokens)
            except AssertionError:
                assert result.crash is not None
                break
            assert up == expected_entry(result, name, tokens, version).as_json(), (name, tokens)
            if down is not None:
                assert result.down is not None
                assert result.down.table is not None
                assert down["BLOCK_SIZE_N"] == result.down.table.nearest(tokens)[1].block_n
        assert one.logger.lines == [(line.level, line.text) for line in result.lines]


@pytest.mark.parametrize("version", [one for one in read_releases() if one >= "0.5.6"])
def test_deterministic_inference_reads_nothing(
    version: str, server_package: Callable[[str], Path]
) -> None:
    package = server_package(version)
    name = MoeConfigName(experts=128, width=768, device="NVIDIA_H200")
    one = server(package, "3.6.0", name.device, deterministic=True)
    up, _ = choose(one, name, 1)
    tree = open_tree(package)
    request = Request(name=name, triton="3.6.0", deterministic=True)
    result = lookup(request, tree.files, tree.loader)
    assert [(line.level, line.text) for line in result.lines] == one.logger.lines
    assert up == default_entry(name, 1, tree.loader, deterministic=True).as_json()


@pytest.mark.parametrize("version", [one for one in read_releases() if one != "0.4.6.post5"])
@pytest.mark.parametrize(
    "fault",
    ["broken", "vllm", "empty", "foreign folder", "no folder", "down only", "other block"],
)
def test_faults_end_as_in_the_server(
    version: str,
    fault: str,
    server_package: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = MoeConfigName(experts=4, width=64, device="NVIDIA_H200")
    make_fault(tmp_path, fault, name)
    monkeypatch.setenv("SGLANG_MOE_CONFIG_DIR", str(tmp_path))
    package = server_package(version)
    one = server(package, "3.6.0", name.device)
    files = DiskFiles(folder=tmp_path)
    result = lookup(Request(name=name, triton="3.6.0"), files, open_tree(package).loader)
    crashed: str | None = None
    for tokens in TOKENS:
        try:
            choose(one, name, tokens)
        except (ValueError, AssertionError, FileNotFoundError) as error:
            crashed = type(error).__name__
            break
    assert (result.crash or "").split(":")[0].split(" ")[0] == (crashed or "")
    assert one.logger.lines == [(line.level, line.text) for line in result.lines]


def make_fault(root: Path, fault: str, name: MoeConfigName) -> None:
    good = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    folder = root / "configs" / "triton_3_6_0"
    if fault == "no folder":
        return
    folder.mkdir(parents=True)
    down = name.for_down(down=True).file_name
    texts = {
        "broken": {name.file_name: "{"},
        "vllm": {name.file_name: json.dumps({"triton_version": "3.6.0", "1": good})},
        "empty": {name.file_name: "{}"},
        "foreign folder": {},
        "down only": {down: json.dumps({"1": good})},
        "other block": {
            name.file_name: json.dumps({"1": good, "4096": good | {"BLOCK_SIZE_M": 64}}),
            down: json.dumps({"1": good}),
        },
    }
    for file_name, text in texts[fault].items():
        (folder / file_name).write_text(text)
    if fault == "foreign folder":
        (root / "configs" / "triton_nightly").mkdir()


def test_every_source_occurs_in_the_sample(server_package: Callable[[str], Path]) -> None:
    """The comparison above is worth something only if its points end differently."""
    ends = set()
    for version in read_releases():
        package = server_package(version)
        tree = open_tree(package)
        for name, triton in points(package, version):
            result = lookup(Request(name=name, triton=triton), tree.files, tree.loader)
            ends |= {one.source for one in (result.up, result.down) if one}
    assert ends >= {Source.EXACT, Source.FALLBACK, Source.REUSED_UP, Source.DEFAULT}
