"""The command line as the release's own parser sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from advisor.facts.launch import Option
from advisor.knowledge.flag_kinds import Status, Takes
from advisor.knowledge.flags import (
    FlagFacts,
    expand,
    flag_exists,
    flag_history,
    flag_name,
    near_misses,
    renaming_of,
)
from advisor.knowledge.ranges import describe_ranges
from advisor.knowledge.releases import known_versions, speakers
from advisor.preflight.catalogue import Result, Undecided, fired
from advisor.preflight.flag_values import judge_value
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Answer

_APPENDING = frozenset({"--lora-paths", "--forward-hooks"})


def judge_flags(situation: Situation) -> Iterator[Result]:
    """Judge each option by what the parser of the release would do with it."""
    for option in situation.launch.options:
        yield from _option(situation, option)
    yield from _repeated(situation)
    yield from _stray(situation)
    yield from _cut_off(situation)


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
        yield from judge_value(situation, option, option.facts)


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
            **situation.wording(),
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
            **situation.wording(),
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
                **situation.wording(),
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
            **situation.wording(),
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
                **situation.wording(),
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
        {**situation.wording(), "words": words, **_before(situation, known[0].text)},
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
            {**situation.wording(), "words": words[0].text},
        )
