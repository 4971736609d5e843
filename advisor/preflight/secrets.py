"""Secrets in clear: on the command line and in the variables that the input sets."""

from __future__ import annotations

from collections.abc import Iterator

import regex

from advisor.facts.requested import SECRET_FIELDS
from advisor.preflight.catalogue import Result, fired
from advisor.preflight.inputs.command import COMMAND_LINE
from advisor.preflight.situation import Situation
from advisor.sources.records import Evidence
from advisor.sources.redaction import HIDDEN
from advisor.sources.shell import Word

_SECRET_VARIABLE = regex.compile(
    r"(?:.*_)?(?:TOKEN|API_KEY|SECRET(?:_KEY)?|PASSWORD|PASSWD|ACCESS_KEY(?:_ID)?|PRIVATE_KEY)$"
)
_SHAPED = regex.compile(
    r"hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|://[^\s/@:]+:[^\s/@]+@"
)
_PRINTED = "api_key and ssl_keyfile_password among them"


def judge_secrets(situation: Situation) -> Iterator[Result]:
    """Find values that are secrets by their flag, their variable or their shape."""
    names: list[str] = []
    places: list[Evidence] = []
    for option in situation.launch.options:
        field = option.facts.field if option.facts is not None else None
        shaped = any(_SHAPED.search(value) for value in option.values)
        if option.resolved and option.values and (field in SECRET_FIELDS or shaped):
            names.append(option.flag)
            places.append(_place(option.word, f"{option.written} {HIDDEN}"))
    for name, word in situation.command.variables:
        value = word.text.strip()
        if word.resolved and value and (_SECRET_VARIABLE.match(name) or _SHAPED.search(value)):
            if "$" in value:
                continue
            names.append(name)
            places.append(_place(word, f"{name}={HIDDEN}"))
    if names:
        source = situation.command.source
        yield fired(
            "secret-in-command",
            tuple(places),
            {
                "place": "the command" if source == COMMAND_LINE else source,
                "names": ", ".join(dict.fromkeys(names)),
                "printed": _PRINTED,
            },
        )


def _place(word: Word, text: str) -> Evidence:
    return Evidence(source=word.source, line=word.line, text=text)
