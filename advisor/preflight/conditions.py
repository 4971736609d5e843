"""Conditions of shipped data (`when` of flag_support.yaml) as conditions of the rule engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from advisor.facts.literals import Value
from advisor.knowledge.flags import flag_for_field
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Combined, Condition, FactCondition, Operator

_GROUPS = {"all": "all_of", "any": "any_of", "none": "none_of"}
_NEGATIONS = {"not_equals": Operator.EQUALS, "not_one_of": Operator.ONE_OF}


def condition(node: object) -> Condition:
    """Build a condition from plain data: a mapping, or a list of mappings that all hold.

    Raises:
        ValueError: If a comparison is not known.
    """
    if isinstance(node, Sequence) and not isinstance(node, str):
        return Combined(all_of=tuple(condition(item) for item in node))
    fields = cast("Mapping[str, object]", node)
    return Combined(all_of=tuple(_one(key, value) for key, value in fields.items()))


def _one(key: str, value: object) -> Condition:
    if key in _GROUPS:
        parts = tuple(condition(item) for item in cast("Sequence[object]", value))
        return Combined(**{_GROUPS[key]: parts})
    if not isinstance(value, Mapping):
        return FactCondition(path=key, operator=Operator.EQUALS, operand=cast("Value", value))
    return Combined(all_of=tuple(_compared(key, word, item) for word, item in value.items()))


def _compared(path: str, word: str, operand: object) -> Condition:
    """Build one comparison; `not_equals` and `not_one_of` hold for what is not set, too."""
    positive = _NEGATIONS.get(word)
    if positive is None:
        return FactCondition(path=path, operator=Operator(word), operand=_operand(operand))
    same = FactCondition(path=path, operator=positive, operand=_operand(operand))
    return Combined(none_of=(same,))


def _operand(value: object) -> Value:
    return tuple(value) if isinstance(value, list) else cast("Value", value)


def reason(paths: Sequence[str], situation: Situation) -> str:
    """Say in words what is missing to judge a condition."""
    return "; ".join(dict.fromkeys(_missing(path, situation) for path in paths))


def _missing(path: str, situation: Situation) -> str:
    head, _, name = path.partition(".")
    match head:
        case "gpu":
            return "the GPU is not known: give --gpu or --env"
        case "model":
            if situation.target.model is None:
                return "the model is not known: give --model-config config.json"
            return f"{situation.target.model.origin} does not say {name}"
        case "args":
            flag = flag_for_field(name, situation.version) or f"--{name.replace('_', '-')}"
            known = "is filled in by the shell" if name in situation.unresolved else "is not given"
            return f"{flag} {known}, and SGLang decides it at the start"
        case "cuda_major":
            return "the CUDA version of the installed torch is not known: give --env"
        case "triton":
            return "the Triton version is not known: give --triton or --env"
        case _:
            return "the sizes of the parallel groups are not known"
