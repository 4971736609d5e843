"""The command line as the release's own parser sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from advisor.facts.launch import Option
from advisor.knowledge.flag_kinds import Status, Takes
from advisor.knowledge.flags import (
    FlagFacts,
    choices_of,
    expand,
    flag_exists,
    flag_history,
    flag_name,
    flag_value,
    near_misses,
    renaming_of,
)
from advisor.knowledge.ranges import describe_ranges
from advisor.knowledge.releases import known_versions, speakers
from advisor.preflight.catalogue import Result, Undecided, fired
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Answer

_EXPECTED = {Takes.ONE: "one argument", Takes.MANY: "at least one argument"}
_NUMBERS: Mapping[str, type] = {"int": int, "float": float}
_CONFIG = "--config"
_NO_SERVE = {
    "trouble": "does not exist",
    "history": "The command came with 0.5.6.",
    "advice": "Start the module",
    "replacement": "python3 -m sglang.launch_server --model-path MODEL",
}
_NO_POSITIONAL = {
    "trouble": "takes no model without a flag",
    "history": "The start ends with `--model-path is required`; a model without a flag came with 0.5.16.",
    "advice": "Write --model-path before the model",
    "replacement": "sglang serve --model-path MODEL",
}
_ONLY_MODEL_PATH = {
    "trouble": "wants --model-path spelled out",
    "history": "The start ends with `--model-path is required`; --model is understood from 0.5.12.",
    "advice": "Write --model-path",
    "replacement": "sglang serve --model-path MODEL",
}
_APPENDING = frozenset({"--lora-paths", "--forward-hooks"})


def judge_flags(situation: Situation) -> Iterator[Result]:
    """Judge each option by what the parser of the release would do with it."""
    for option in situation.launch.options:
        yield from _option(situation, option)
    yield from _repeated(situation)
    yield from _stray(situation)
    yield from _cut_off(situation)
    yield from _serve(situation)


def _option(situation: Situation, option: Option) -> Iterator[Result]:
    if "{{" in option.written or (not option.word.resolved and not option.flags):
        return
    if not option.flags:
        yield from _unknown(situation, option)
    elif len(option.flags) > 1:
        doubt = _doubt(situation, option.written)
        is_open = doubt and len(situation.target.releases) > 1
        yield (
            Undecided(check="flag-ambiguous", reason=doubt)
            if is_open
            else _ambiguous(situation, option)
        )
    elif option.facts is None:
        yield Undecided(
            check="flag-unknown",
            reason=f"whether SGLang {situation.target.shown_release} has {option.flag} is not known",
        )
    else:
        yield from _shortened(situation, option)
        yield from _status(situation, option, option.facts)
        yield from _value(situation, option, option.facts)


def _unknown(situation: Situation, option: Option) -> Iterator[Result]:
    """Word a flag that the parser refuses: renamed, of another release, or mistyped."""
    doubt = _doubt(situation, option.written)
    if doubt:
        yield Undecided(check="flag-unknown", reason=doubt)
        return
    renamed = flag_name(option.written, situation.version) if _was(option.written) else None
    row = renaming_of(option.written)
    near = near_misses(option.written, situation.version)
    replacement = _with_value(renamed, option) if renamed else ""
    if renamed:
        advice = f"Write {replacement}"
    elif row is not None and row.instead:
        advice = f"Use {row.instead}"
    elif _was(option.written) and not _older(situation, option.written):
        advice = f"Remove {option.text}"
    elif near and not _was(option.written):
        advice, replacement = f"Did you mean {near[0]}?", _with_value(near[0], option)
    else:
        advice = f"Remove {option.text}"
    name = "flag-renamed" if renamed or (row is not None and row.instead) else "flag-unknown"
    yield fired(
        name,
        (situation.evidence(option.word, option.text),),
        {
            **_target(situation),
            "flag": option.written,
            "written": option.written,
            "history": _history(option.written),
            "advice": advice,
            "replacement": replacement,
            "near": list(near),
            "basis": row.basis if row is not None else "names compared",
        },
    )


def _doubt(situation: Situation, written: str) -> str:
    """Return why a missing flag may exist after all; nothing if the release surely lacks it."""
    for version in situation.target.releases:
        if flag_exists(written, version) is None and version not in map(str, known_versions()):
            known = " and ".join(str(item) for item in speakers(version))
            return f"SGLang {version} was not read (only {known}): whether it has {written} is open"
        if expand(written, version):
            return (
                f"{written} exists in SGLang {version}, and {situation.target.shown_release} is "
                "judged here: give --sglang"
            )
    return ""


def _was(flag: str) -> bool:
    return flag_history(flag) is not None


def _older(situation: Situation, flag: str) -> bool:
    """Say whether the flag comes only with later releases than the one at hand."""
    history = flag_history(flag)
    first = history.seen[0].first if history is not None else None
    return first is not None and first > speakers(situation.version)[-1]


def _history(flag: str) -> str:
    history = flag_history(flag)
    if history is None:
        return f"No known release has {flag}."
    return f"{flag} is a flag of SGLang {describe_ranges(history.seen)}."


def _with_value(replacement: str | None, option: Option) -> str:
    """Put the option's values behind a new flag, unless that brings its own."""
    if replacement is None:
        return ""
    if " " in replacement or "=" in replacement or not option.values:
        return replacement
    return " ".join((replacement, *option.values))


def _ambiguous(situation: Situation, option: Option) -> Result:
    return fired(
        "flag-ambiguous",
        (situation.evidence(option.word, option.text),),
        {
            **_target(situation),
            "written": option.written,
            "meanings": ", ".join(option.flags),
            "replacement": _with_value(_meant(situation, option), option),
        },
    )


def _meant(situation: Situation, option: Option) -> str:
    """Return what an ambiguous flag used to be called, else the first that it can begin."""
    renamed = flag_name(option.written, situation.version) if _was(option.written) else None
    return renamed or option.flags[0]


def _shortened(situation: Situation, option: Option) -> Iterator[Result]:
    """Note a shortened flag that a later release no longer understands."""
    if option.flag == option.written:
        return
    later = [item for item in known_versions() if item >= speakers(situation.version)[-1]]
    for release in later:
        meant = expand(option.written, str(release))
        if meant == option.flags or not flag_exists(option.flag, str(release)):
            continue
        trouble = (
            f"in {release} it is ambiguous ({', '.join(meant)})"
            if len(meant) > 1
            else f"in {release} it means {meant[0]}"
        )
        yield fired(
            "flag-shortened",
            (situation.evidence(option.word, option.text),),
            {
                **_target(situation),
                "written": option.written,
                "flag": option.flag,
                "trouble": trouble,
                "replacement": _with_value(option.flag, option),
            },
        )
        return


def _status(situation: Situation, option: Option, facts: FlagFacts) -> Iterator[Result]:
    names = {
        Status.DEPRECATED: "flag-deprecated",
        Status.IGNORED: "flag-ignored",
        Status.REFUSED: "flag-refused",
    }
    if facts.status not in names:
        return
    if any(item != Answer.YES for item in _status_everywhere(situation, facts)):
        yield Undecided(
            check=names[facts.status],
            reason=f"{facts.name} is {facts.status} in some of {situation.target.shown_release}",
        )
        return
    history = flag_history(facts.name)
    row = renaming_of(facts.name)
    replacement = _with_value(facts.replaced_by or (row.new if row else None), option)
    advice = row.instead if row is not None and row.instead else ""
    if replacement:
        advice = f"Write {replacement}"
    elif advice:
        advice = f"Use {advice}"
    yield fired(
        names[facts.status],
        (situation.evidence(option.word, option.text),),
        {
            **_target(situation),
            "flag": facts.name,
            "advice": advice or f"Remove {option.text}",
            "replacement": replacement,
            "deprecated": describe_ranges(history.deprecated) if history else "",
            "ignored": describe_ranges(history.ignored) if history else "",
            "refused": describe_ranges(history.refused) if history else "",
            "gone": _gone(facts.name),
        },
    )


def _status_everywhere(situation: Situation, facts: FlagFacts) -> Iterator[Answer]:
    history = flag_history(facts.name)
    ranges = getattr(history, facts.status.value, ())
    for version in situation.target.releases:
        yield Answer.YES if any(item.contains(version) == "in" for item in ranges) else Answer.NO


def _gone(flag: str) -> str:
    history = flag_history(flag)
    last = history.seen[-1].last if history is not None else None
    if last is None or last == known_versions()[-1]:
        return ""
    later = next(item for item in known_versions() if item > last)
    return f"SGLang {later} no longer has it."


def _value(situation: Situation, option: Option, facts: FlagFacts) -> Iterator[Result]:
    place = (situation.evidence(option.word, option.text),)
    if facts.name == _CONFIG and option.joined:
        replacement = f"{_CONFIG} {option.values[0]}"
        yield fired(
            "config-file-unread",
            place,
            {**_target(situation), "option": option.text, "replacement": replacement},
        )
    if not option.values and facts.takes in _EXPECTED:
        values = {"flag": facts.name, "expected": _EXPECTED[facts.takes]}
        yield fired("flag-value-missing", place, {**_target(situation), **values})
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
        listed = ", ".join(facts.choices or ())
        near = _near_value(value, facts.choices or ())
        replacement = f"{option.flag} {near}" if near else ""
        yield _refused_value(situation, option, value, f"one of its values ({listed})", replacement)
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


def _near_value(value: str, choices: tuple[str, ...]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(value, choices, n=1, cutoff=0.6)), "")


def _refused_value(
    situation: Situation, option: Option, value: str, expected: str, replacement: str
) -> Result:
    return fired(
        "flag-value-invalid",
        (situation.evidence(option.word, option.text),),
        {
            **_refusal(situation, option, value),
            "expected": expected,
            "replacement": replacement,
            "advice": f"Write {replacement}" if replacement else "Give another value",
        },
    )


def _refusal(situation: Situation, option: Option, value: str) -> dict[str, object]:
    return {
        **_target(situation),
        "option": option.text,
        "flag": option.flag,
        "value": value,
        "consequence": f"The parser of SGLang {situation.target.shown_release} refuses the value and the start ends.",
        "source": f"argparse checks a value before anything is loaded. Source: the parser of SGLang {situation.target.shown_release}.",
    }


def _repeated(situation: Situation) -> Iterator[Result]:
    """Note flags that stand several times with different values."""
    counts = Counter(option.flag for option in situation.launch.options if option.facts is not None)
    for flag, count in counts.items():
        options = [option for option in situation.launch.options if option.flag == flag]
        if count == 1 or flag in _APPENDING or len({option.values for option in options}) == 1:
            continue
        yield fired(
            "flag-repeated",
            tuple(situation.evidence(option.word, option.text) for option in options),
            {
                **_target(situation),
                "flag": flag,
                "count": count,
                "option": options[-1].text,
                "lost": ", ".join(dict.fromkeys(option.text for option in options[:-1])),
            },
        )


def _stray(situation: Situation) -> Iterator[Result]:
    known = [word for word in situation.launch.stray if word.resolved and "{{" not in word.text]
    if not known:
        return
    words = " ".join(word.text for word in known)
    places = tuple(situation.evidence(word, word.text) for word in known)
    yield fired(
        "words-unclaimed",
        places,
        {**_target(situation), "words": words, **_before(situation, known[0].text)},
    )


def _before(situation: Situation, word: str) -> dict[str, object]:
    """Name the option that stands in front of a stray word and takes no more."""
    texts = [item.text for item in situation.command.words]
    place = texts.index(word) if word in texts else 0
    previous = texts[place - 1].partition("=")[0] if place else ""
    for option in situation.launch.options:
        if option.written == previous and option.facts is not None:
            takes = "no value" if option.facts.takes is Takes.NOTHING else "one value"
            return {"before": option.flag, "takes": takes}
    return {"before": "", "takes": ""}


def _cut_off(situation: Situation) -> Iterator[Result]:
    words = situation.command.cut_off
    if words:
        yield fired(
            "command-cut-off",
            (situation.evidence(words[0], " ".join(word.text for word in words)),),
            {**_target(situation), "words": words[0].text},
        )


def _serve(situation: Situation) -> Iterator[Result]:
    """Judge the command `sglang serve` itself: it came with 0.5.6 and learned to find the model."""
    start = situation.command.start
    if start.serve is None:
        return
    written = {option.written for option in situation.launch.options}
    cases = (
        ("0.4.6.post5 – 0.5.3", True, _NO_SERVE),
        ("0.5.6 – 0.5.14", start.positional, _NO_POSITIONAL),
        ("0.5.6 – 0.5.10", "--model-path" not in written, _ONLY_MODEL_PATH),
    )
    for releases, applies, words in cases:
        if not applies or situation.target.within(releases) is Answer.NO:
            continue
        if situation.target.within(releases) is Answer.UNKNOWN:
            reason = f"`sglang serve` {words['trouble']} in SGLang {releases}: give --sglang"
            yield Undecided(check="serve-refused", reason=reason)
            continue
        place = (situation.evidence(start.serve, "sglang serve"),)
        yield fired("serve-refused", place, {**_target(situation), **words})
        return


def _target(situation: Situation) -> dict[str, object]:
    releases = situation.target.releases
    compared = (
        "the known releases" if len(releases) > 1 else ", ".join(map(str, speakers(releases[0])))
    )
    return {
        "release": situation.target.shown_release,
        "gpu": situation.target.shown_gpu,
        "compared": compared,
    }
