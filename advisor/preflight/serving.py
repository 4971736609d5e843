"""The command itself: `sglang serve`, and whether a model is named at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from advisor.facts.launch import ServerStart
from advisor.findings import Severity
from advisor.preflight.catalogue import Result, Undecided, fired
from advisor.preflight.situation import Situation
from advisor.rules.conditions import Answer

DIFFUSION = "diffusion"
_TYPES = frozenset({"auto", "llm", DIFFUSION})
_NO_SERVE = {
    "trouble": "does not exist",
    "history": "The command came with 0.5.6.",
    "advice": "Start the module",
    "replacement": "python3 -m sglang.launch_server --model-path MODEL",
}
_NO_TYPE = {
    "trouble": "does not know --model-type",
    "history": "The flag came with 0.5.10; before, the server's parser gets it and ends the start.",
    "advice": "Remove --model-type",
    "replacement": "sglang serve --model-path MODEL",
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
_NO_MODEL = {
    "trouble": "does not find the model",
    "history": "It looks for --model-path among its own words, before a file behind --config is read, and ends with `--model-path is required`.",
    "advice": "Name the model in the command too, or start the module",
    "replacement": "python3 -m sglang.launch_server --config FILE",
}
_WRONG_TYPE = {
    "trouble": "does not know this --model-type",
    "history": "It takes auto, llm and diffusion; from 0.5.18 an installed plugin may add others.",
    "advice": "Leave --model-type out",
    "replacement": "sglang serve --model-path MODEL",
}
_ANY_SERVE = "0.5.6 – 0.5.23"
_PLUGIN_TYPES = "0.5.18 – 0.5.23"

Words = Mapping[str, str]


def judge_serving(situation: Situation) -> Iterator[Result]:
    """Judge how the server is started: the command of the release, and its model."""
    start = situation.command.start
    if start.serve is not None:
        for releases, words in _troubles(start):
            answer = situation.target.within(releases)
            if answer is Answer.YES:
                yield _refused(situation, words)
                return
            if answer is Answer.UNKNOWN:
                reason = f"`sglang serve` {words['trouble']} in SGLang {releases}: give --sglang"
                yield Undecided(check="serve-refused", reason=reason)
    yield from _model(situation)


def _troubles(start: ServerStart) -> Iterator[tuple[str, Words]]:
    """Yield what `sglang serve` stumbles over, and in which releases."""
    yield "0.4.6.post5 – 0.5.3", _NO_SERVE
    if start.model_type is not None:
        yield "0.5.6 – 0.5.9", _NO_TYPE
        if start.model_type.resolved and start.model_type.text not in _TYPES:
            yield "0.5.10 – 0.5.23", _WRONG_TYPE
    if start.positional:
        yield "0.5.6 – 0.5.14", _NO_POSITIONAL
    written = {word.text.partition("=")[0] for word in start.arguments}
    unknown = any(not word.resolved for word in start.arguments)
    if "--model-path" not in written and "--model" in written:
        yield "0.5.6 – 0.5.10", _ONLY_MODEL_PATH
    elif not start.names_model and not unknown:
        yield _ANY_SERVE, _NO_MODEL


def _refused(situation: Situation, words: Words) -> Result:
    serve = situation.command.start.serve
    place = (situation.evidence(serve, "sglang serve"),) if serve else (situation.whole(),)
    mild = words is _WRONG_TYPE and situation.target.within(_PLUGIN_TYPES) is Answer.YES
    return fired(
        "serve-refused",
        place,
        {**situation.wording(), **words},
        severity=Severity.NOTE if mild else None,
    )


def _model(situation: Situation) -> Iterator[Result]:
    """Miss the model where the whole command is known and every word of it is."""
    start = situation.command.start
    words = situation.command.words
    if not start.complete or start.serve is not None or situation.given("model_path"):
        return
    if any(not word.resolved or word.text.partition("=")[0] == "--config" for word in words):
        return
    yield fired("model-missing", (situation.whole(),), situation.wording())
