"""The starts of a server in its log, read as `advisor diagnose` reads it, for `advisor tune`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from advisor.errors import InputError

if TYPE_CHECKING:
    from advisor.facts.literals import Value
    from advisor.facts.model import MoeFacts
    from advisor.facts.run import RunCollector
    from advisor.tuner.server import ConfigSearch, ServedModel, ServerRun

_ACTIVATIONS = {"half": "fp16", "float16": "fp16", "bfloat16": "bf16"}


def server_runs(log: str) -> tuple[ServerRun, ...]:
    """Return the starts that a log holds: a file, a folder, a glob, or - for standard input.

    Raises:
        InputError: If it cannot be read.
    """
    from advisor.diagnosis import Request, read_logs
    from advisor.sources.files import expand

    return tuple(map(_run, read_logs(Request(logs=expand((log,)), rules=())).runs))


def _run(collector: RunCollector) -> ServerRun:
    from advisor.tuner.server import ServerRun

    arguments = collector.arguments.result()
    values = arguments.effective or {}
    moe = collector.moe.result()
    versions = collector.identity.versions(arguments, moe)
    return ServerRun(
        searches=tuple(_searches(moe)),
        models=tuple(_models(values)),
        triton=versions.triton,
        releases=versions.sglang,
        package=moe.sglang_folder,
        overlay=moe.config_folder if moe.overlay else None,
        redundant_experts=_size(values, "ep_num_redundant_experts") or 0,
        ranks=_size(values, "tp_size"),
        expert_parallel=_size(values, "ep_size") or 1,
        activation=_ACTIVATIONS.get(str(values.get("dtype"))),
        silence=_silence(moe),
    )


def _searches(moe: MoeFacts) -> Iterator[ConfigSearch]:
    from advisor.configs.names import parse_moe_name
    from advisor.facts.model import MoeOutcome
    from advisor.tuner.server import ConfigSearch

    for lookup in moe.lookups:
        try:
            name = parse_moe_name(lookup.file_name)
        except InputError:
            continue
        yield ConfigSearch(name=name, found=lookup.outcome is MoeOutcome.EXACT)


def _models(values: Mapping[str, Value]) -> Iterator[ServedModel]:
    from advisor.tuner.server import ServedModel

    for path, revision in (
        ("model_path", "revision"),
        ("speculative_draft_model_path", "speculative_draft_model_revision"),
    ):
        name, of = values.get(path), values.get(revision)
        if isinstance(name, str) and name:
            yield ServedModel(name=name, revision=of if isinstance(of, str) else None)


def _silence(moe: MoeFacts) -> str | None:
    from advisor.facts.model import MoeOutcome

    if moe.up_outcome == MoeOutcome.DETERMINISTIC:
        return "deterministic inference reads no config file"
    return f"its MoE runner is {moe.runner}" if moe.runner else None


def _size(values: Mapping[str, Value], name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
