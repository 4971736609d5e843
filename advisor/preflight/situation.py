"""What a launch command is judged against, and its facts by path for the conditions of the data.

Paths: `args.FIELD` (as given, else the release's fixed default), `gpu.sm`, `gpu.count`, `triton`,
`cuda_major`, `world` (GPUs that the ranks take), `model.FIELD` of config.json and `variables.NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from advisor.facts.launch import Launch
from advisor.facts.literals import Value
from advisor.facts.sheet import FactValue
from advisor.knowledge.arguments import DefaultKind, default_of
from advisor.knowledge.flags import flag_for_field
from advisor.knowledge.gpus import Gpu
from advisor.knowledge.ranges import Membership, VersionRange, membership, parse_ranges
from advisor.knowledge.releases import speakers
from advisor.preflight.inputs.command import ServerCommand
from advisor.preflight.model_config import ModelConfig
from advisor.rules.conditions import Answer
from advisor.sources.records import Evidence, shown
from advisor.sources.redaction import Redactor
from advisor.sources.shell import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the command is to run.

    Attributes:
        releases: The releases to judge for, oldest first: one if it is known.
        release_basis: How it is known.
        gpu_count: GPUs of one node; None if not given.
        triton: The installed version, or what the release pins; None if not known.
        cuda_major: Of the CUDA that the installed torch was built for, from a probe.
    """

    releases: tuple[str, ...]
    release_basis: str
    gpu: Gpu | None = None
    gpu_basis: str = ""
    gpu_count: int | None = None
    triton: str | None = None
    cuda_major: int | None = None
    model: ModelConfig | None = None

    @property
    def version(self) -> str | None:
        """Return the release, if just one is meant."""
        return self.releases[0] if len(self.releases) == 1 else None

    @property
    def shown_release(self) -> str:
        """Return the release or the range of them in words."""
        if self.version is not None:
            return self.version
        return VersionRange.between(self.releases[0], self.releases[-1]).describe()

    @property
    def shown_gpu(self) -> str:
        """Return the GPU in words."""
        if self.gpu is None:
            return "this GPU"
        return f"{self.gpu.name} (SM{self.gpu.sm})"

    def within(self, ranges: str) -> Answer:
        """Say whether the release, or every release in question, lies in version ranges."""
        spans = parse_ranges(ranges)
        answers = {membership(spans, version) for version in self.releases}
        if answers == {Membership.IN}:
            return Answer.YES
        return Answer.NO if answers == {Membership.OUT} else Answer.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A server command, its options read for the release, and its target."""

    command: ServerCommand
    launch: Launch
    target: Target
    redactor: Redactor
    values: Mapping[str, Value]
    unresolved: frozenset[str]

    @property
    def version(self) -> str:
        """Return the release whose parser reads the options: the newest in question."""
        return self.target.releases[-1]

    def fact(self, path: str) -> FactValue:
        """Return the value at a path; None where the inputs do not say."""
        head, _, name = path.partition(".")
        match head:
            case "args":
                return self.argument(name)
            case "gpu":
                return self._gpu(name)
            case "model":
                return cast("FactValue", getattr(self.target.model, name, None))
            case "variables":
                return self.variable(name)
            case "triton":
                return self.target.triton
            case "cuda_major":
                return self.target.cuda_major
            case _:
                return self.world

    def argument(self, field: str) -> Value:
        """Return an argument as given, else its fixed default."""
        if field in self.values:
            return self.values[field]
        if field in self.unresolved:
            return None
        default = default_of(field, self.version)
        return cast("Value", default.value) if default.kind is DefaultKind.FIXED else None

    def given(self, field: str) -> bool:
        """Say whether an argument stands on the command line."""
        return field in self.values or field in self.unresolved

    def argument_is_default(self, path: str) -> bool:
        """Whether an argument is None because nothing sets it, not because it is unknown."""
        head, _, field = path.partition(".")
        if head == "variables":
            return True
        if head != "args" or field in self.unresolved:
            return False
        if field in self.values:
            return True
        return default_of(field, self.version).kind in {DefaultKind.FIXED, DefaultKind.ABSENT}

    def has_signal(self, name: str) -> bool:  # noqa: ARG002  (the conditions' protocol)
        """Return False: there is no log."""
        return False

    def fired(self, rule: str) -> bool:  # noqa: ARG002  (the conditions' protocol)
        """Return False: there is no log."""
        return False

    def variable(self, name: str) -> str | None:
        """Return an environment variable that the input sets."""
        found = [word.text for key, word in self.command.variables if key == name]
        return found[-1] if found else None

    def number(self, field: str, default: int = 1) -> int | None:
        """Return a whole-number argument; None if it is not known."""
        if field in self.unresolved:
            return None
        value = self.argument(field)
        if value is None:
            return default
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def dp_attention(self) -> bool:
        """Say whether DP attention is on, by its old switch or, from 0.5.23, its size."""
        return self.argument("enable_dp_attention") is True or self.given("attn_dp_size")

    @property
    def world(self) -> int | None:
        """Return the GPUs that all ranks take; None if a size is not known."""
        tensor, pipeline = self.number("tp_size"), self.number("pp_size")
        data = 1 if self.dp_attention else self.number("dp_size")
        if tensor is None or pipeline is None or data is None:
            return None
        return tensor * pipeline * data

    def flag(self, field: str) -> str:
        """Return how the release spells the flag of a field."""
        own = "--" + field.replace("_", "-")
        return flag_for_field(field, self.version) or flag_for_field(field) or own

    def wording(self) -> dict[str, object]:
        """Return the values that every text may name: release, GPU and the releases compared."""
        releases = self.target.releases
        known = ", ".join(map(str, speakers(releases[0])))
        return {
            "release": self.target.shown_release,
            "gpu": self.target.shown_gpu,
            "compared": known if len(releases) == 1 else "the known releases",
        }

    def evidence(self, word: Word, text: str) -> Evidence:
        """Point at a place of the input; secrets are taken out."""
        return Evidence(source=word.source, line=word.line, text=shown(self.redactor.clean(text)))

    def evidence_of(self, *fields: str) -> tuple[Evidence, ...]:
        """Point at the options that set these fields; at the command if none does."""
        options = [
            o for o in self.launch.options if o.facts is not None and o.facts.field in fields
        ]
        if options:
            return tuple(self.evidence(option.word, option.text) for option in options)
        return (self.whole(),)

    def whole(self) -> Evidence:
        """Point at the command as a whole: its first word."""
        first = next(iter(self.command.words), None)
        text = " ".join(word.text for word in self.command.words)
        place = first or Word(text="", source=self.command.source, line=1)
        return self.evidence(place, text or self.command.name)

    def _gpu(self, name: str) -> FactValue:
        if name == "count":
            return self.target.gpu_count
        return cast("FactValue", getattr(self.target.gpu, name, None))
