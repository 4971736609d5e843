"""Which exception ended a run, and what lay at its root."""

from __future__ import annotations

from dataclasses import dataclass, field

import regex

from advisor.facts.hits import Hit
from advisor.facts.model import Failure
from advisor.sources.records import Record, shown

_EXCEPTION = regex.compile(
    r"^(?P<name>(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|OutOfResources|Timeout|Expired)"
    r"|Exception|(?:[a-z_]\w*\.)+[A-Z]\w*)(?::(?: (?P<message>.*))?)?$"
)
_FRAME = regex.compile(r'^\s*File "(?P<path>[^"]+)", line \d+, in (?P<function>\S+)')
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_MOST_TRACEBACKS = 50
_FATAL_HEADS = ("hit an exception", "Initialization failed", "Failed to")
_REQUEST_FRAME = regex.compile(
    r"^(?:uvicorn/protocols/|starlette/(?:responses|middleware)|fastapi/routing)"
)
_ENDED_BY_HAND = ("KeyboardInterrupt", "SystemExit", "CancelledError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback:
    """One traceback: its exceptions, innermost first, and the modules of its frames.

    `raised_in` is the module of the frame that raised the innermost exception.
    """

    record: Record
    exceptions: tuple[tuple[str, str], ...]
    modules: tuple[str, ...]
    raised_in: str | None = None

    @property
    def fatal(self) -> bool:
        """Whether it ends a process: printed bare, or by a scheduler that stops.

        What an HTTP handler raises ends one request, not the server.
        """
        head = self.record.message
        if any(words in head for words in _FATAL_HEADS):
            return not self.by_hand
        return head.startswith("Traceback") and not self.by_hand and not self._of_a_request

    @property
    def by_hand(self) -> bool:
        """Whether somebody ended the process, such as with Ctrl-C."""
        return any(name.endswith(_ENDED_BY_HAND) for name, _ in self.exceptions[:1])

    @property
    def _of_a_request(self) -> bool:
        return any(_REQUEST_FRAME.match(module) for module in self.modules)

    @property
    def concerns_sglang(self) -> bool:
        """Whether a frame of it lies in SGLang."""
        return any(module.startswith(("sglang", "sgl_kernel")) for module in self.modules)


@dataclass(slots=True)
class FailureCollector:
    """Keeps the first tracebacks of a run and how its processes ended."""

    tracebacks: list[Traceback] = field(default_factory=list)
    _child_failed: bool = False
    _terminated: bool = False

    def take(self, hit: Hit) -> None:
        """Note the lines that tell how processes ended."""
        if hit.key == "child-failed":
            self._child_failed = True
        elif hit.key == "terminated":
            self._terminated = True

    def take_traceback(self, record: Record) -> Traceback:
        """Note one whole traceback and return what was read of it."""
        traceback = read_traceback(record)
        if len(self.tracebacks) < _MOST_TRACEBACKS:
            self.tracebacks.append(traceback)
        return traceback

    @property
    def ended(self) -> bool:
        """Whether the processes of the run were seen to end."""
        return self._child_failed or self._terminated or any(t.fatal for t in self.tracebacks)

    def result(self, *, phase: str | None) -> Failure:
        """Return the first fatal traceback that names an exception, or the first of all."""
        named = [item for item in self.tracebacks if item.exceptions and not item.by_hand]
        chosen = next((item for item in named if item.fatal), named[0] if named else None)
        if chosen is None:
            return Failure(child_failed=self._child_failed, terminated=self._terminated)
        exception, message = chosen.exceptions[0]
        outer, outer_message = chosen.exceptions[-1]
        return Failure(
            exception=exception,
            message=shown(message),
            outer_exception=outer,
            outer_message=shown(outer_message),
            modules=chosen.modules,
            raised_in=chosen.raised_in,
            phase=phase,
            fatal=chosen.fatal or self._child_failed,
            child_failed=self._child_failed,
            terminated=self._terminated,
            evidence=chosen.record.evidence(),
        )


def read_traceback(record: Record) -> Traceback:
    """Find the exceptions and frames of a traceback; a chain gives several exceptions."""
    exceptions: list[tuple[str, str]] = []
    last: tuple[str, str] | None = None
    frames: list[str] = []
    raised_in: str | None = None
    for line in record.body:
        if any(line.startswith(words) for words in _CHAINED):
            exceptions.extend([last] if last else [])
            last = None
        elif frame := _FRAME.match(line):
            frames.append(_module(frame["path"]))
        elif not line[:1].isspace() and (match := _EXCEPTION.match(line)):
            last = (match["name"], match["message"] or "")
            raised_in = raised_in or (frames[-1] if frames else None)
    exceptions.extend([last] if last else [])
    return Traceback(
        record=record,
        exceptions=tuple(exceptions),
        modules=tuple(dict.fromkeys(frames)),
        raised_in=raised_in,
    )


def _module(path: str) -> str:
    """Cut a path down to the part that names the package's module."""
    for root in ("site-packages/", "dist-packages/", "/python/"):
        _, found, rest = path.rpartition(root)
        if found:
            return rest.removesuffix(".py")
    return path.rsplit("/", 1)[-1].removesuffix(".py")
