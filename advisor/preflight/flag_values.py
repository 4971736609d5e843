"""The values of options, as the release's parser takes or refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from advisor.facts.launch import Option
from advisor.findings import Severity
from advisor.knowledge.flag_kinds import Takes
from advisor.knowledge.flags import FlagFacts, choices_of, flag_value
from advisor.knowledge.releases import known_versions
from advisor.preflight.catalogue import Result, Undecided, fired, plugin_values
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Answer

_EXPECTED = {Takes.ONE: "one argument", Takes.MANY: "at least one argument"}
_NUMBERS: Mapping[str, type] = {"int": int, "float": float}
_CONFIG = "--config"


def judge_value(situation: Situation, option: Option, facts: FlagFacts) -> Iterator[Result]:
    """Judge whether an option has the values that its flag takes in the release."""
    place = (situation.evidence(option.word, option.text),)
    if facts.name == _CONFIG and option.joined:
        replacement = f"{_CONFIG} {option.values[0]}"
        yield fired(
            "config-file-unread",
            place,
            {**situation.wording(), "option": option.text, "replacement": replacement},
        )
    if not option.values and facts.takes in _EXPECTED:
        values = {"flag": facts.name, "expected": _EXPECTED[facts.takes]}
        yield fired("flag-value-missing", place, {**situation.wording(), **values})
    elif facts.takes is Takes.NOTHING and option.values:
        yield _refused_value(
            situation, option, option.values[0], "taken: the flag stands alone", facts.name
        )
    elif option.resolved:
        yield from _typed(situation, option, facts)


def _typed(situation: Situation, option: Option, facts: FlagFacts) -> Iterator[Result]:
    convert = _NUMBERS.get(facts.type)
    for value in option.values:
        if convert is not None and not _converts(convert, value):
            kind = "a whole number" if convert is int else "a number"
            yield _refused_value(situation, option, value, kind, "")
        elif facts.choices is not None and value not in facts.choices:
            yield from _unlisted(situation, option, facts, value)


def _converts(convert: type, value: str) -> bool:
    try:
        convert(value)
    except ValueError:
        return False
    return True


def _unlisted(
    situation: Situation, option: Option, facts: FlagFacts, value: str
) -> Iterator[Result]:
    """Word a value that the release does not list: renamed there, or never known."""
    if any(
        value in (choices_of(facts.name, item) or (value,)) for item in situation.target.releases
    ):
        reason = (
            f"{option.text} is valid in some of {situation.target.shown_release}: give --sglang"
        )
        yield Undecided(check="flag-value-invalid", reason=reason)
        return
    renamed = flag_value(facts.name, value, situation.version)
    if renamed is None or renamed == value:
        yield _not_a_choice(situation, option, facts, value)
        return
    yield fired(
        "flag-value-renamed",
        (situation.evidence(option.word, option.text),),
        {
            **_refusal(situation, option, value),
            "replacement_value": renamed,
            "replacement": f"{option.flag} {renamed}",
            "advice": f"Write {option.flag} {renamed}",
        },
    )


def _not_a_choice(situation: Situation, option: Option, facts: FlagFacts, value: str) -> Result:
    """Word a value that no parser lists: an error, or a note where a plugin may well add it."""
    near = _near_value(value, facts.choices or ())
    expected = f"one of its values ({', '.join(facts.choices or ())})"
    replacement = f"{option.flag} {near}" if near else ""
    plugins = plugin_values()
    if facts.name not in plugins.flags or situation.target.within(plugins.sglang) is not Answer.YES:
        return _refused_value(situation, option, value, expected, replacement)
    known = any(value in (choices_of(facts.name, item) or ()) for item in known_versions())
    consequence = (
        f"The parser of SGLang {situation.target.shown_release} refuses the value and the start "
        "ends, unless an installed plugin adds it: this release lets plugins add values."
    )
    severity = Severity.ERROR if near or known else Severity.NOTE
    return _refused_value(situation, option, value, expected, replacement, (severity, consequence))


def _near_value(value: str, choices: tuple[str, ...]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(value, choices, n=1, cutoff=0.6)), "")


def _refused_value(
    situation: Situation,
    option: Option,
    value: str,
    expected: str,
    replacement: str,
    milder: tuple[Severity, str] | None = None,
) -> Result:
    severity, consequence = milder or (
        Severity.ERROR,
        _refusal(situation, option, value)["consequence"],
    )
    return fired(
        "flag-value-invalid",
        (situation.evidence(option.word, option.text),),
        {
            **_refusal(situation, option, value),
            "consequence": consequence,
            "expected": expected,
            "replacement": replacement,
            "advice": f"Write {replacement}" if replacement else "Give another value",
        },
        severity=severity,
    )


def _refusal(situation: Situation, option: Option, value: str) -> dict[str, object]:
    return {
        **situation.wording(),
        "option": option.text,
        "flag": option.flag,
        "value": value,
        "consequence": f"The parser of SGLang {situation.target.shown_release} refuses the value and the start ends.",
        "source": f"argparse checks a value before anything is loaded. Source: the parser of SGLang {situation.target.shown_release}.",
    }
