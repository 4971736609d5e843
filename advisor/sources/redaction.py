"""Take secrets out of text before anything else sees it.

SGLang prints its arguments in clear (api_key, admin_api_key, ssl_keyfile_password), launch
commands and environment dumps carry tokens, and URLs carry passwords.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import regex

HIDDEN = "[redacted]"
_SHORTEST_TOKEN = 12

_NAMES = (
    r"(?:[\w-]*(?:api[_-]?key|access[_-]?token|auth[_-]?token|hf[_-]?token|hub[_-]?token|secret(?:[_-]?(?:access[_-]?)?key)?"
    r"|password|passwd|private[_-]?key|credential[s]?)"
    r"|HUGGING_FACE_HUB_TOKEN|token)"
)
_ASSIGNED = regex.compile(
    rf"(?:(?P<name>(?<![\w-])-{{0,2}}{_NAMES})(?P<middle>['\"]?\s*[=:]\s*)"
    rf"|(?P<name>(?<![\w-])--{_NAMES})(?P<middle>\s+(?!-)))"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[^\s,;&)}\]'\"]+)",
    regex.IGNORECASE,
)
_SHAPED = regex.compile(
    r"(?P<kind>hf_)[A-Za-z0-9]{16,}"
    r"|(?P<kind>sk-)[A-Za-z0-9_-]{16,}"
    r"|(?P<kind>gh[pousr]_)[A-Za-z0-9]{20,}"
    r"|(?P<kind>AKIA)[A-Z0-9]{12,}"
    r"|(?P<kind>Bearer )[A-Za-z0-9._~+/-]{8,}=*"
)
_URL = regex.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]{1,256}@")
_NO_SECRET = frozenset({"none", "true", "false", "null", "''", '""', HIDDEN.lower()})
_HINTS = (
    "key",
    "token",
    "secret",
    "passw",
    "credential",
    "hf_",
    "sk-",
    "gh",
    "akia",
    "bearer",
    "@",
)


@dataclass(slots=True)
class Redactor:
    """Replaces secrets and remembers under which names it met them, for a finding of its own."""

    enabled: bool = True
    names: dict[str, int] = field(default_factory=dict)

    def clean(self, text: str, line: int = 0) -> str:
        """Return the text without secrets; a switched-off redactor only takes note of them."""
        folded = text.casefold()
        if not any(hint in folded for hint in _HINTS):
            return text
        try:
            cleaned = _ASSIGNED.sub(lambda match: self._assigned(match, line), text, timeout=2.0)
            cleaned = _SHAPED.sub(lambda match: self._shaped(match, line), cleaned, timeout=2.0)
            cleaned = _URL.sub(lambda match: self._url(match, line), cleaned, timeout=2.0)
        except TimeoutError:
            cleaned = HIDDEN
        return cleaned if self.enabled else text

    def _assigned(self, match: regex.Match[str], line: int) -> str:
        if match["value"].casefold() in _NO_SECRET or _is_harmless(match["name"], match["value"]):
            return match[0]
        self._note(match["name"].strip("-").casefold().replace("-", "_"), line)
        quote = match["value"][0] if match["value"][0] in "'\"" else ""
        return f"{match['name']}{match['middle']}{quote}{HIDDEN}{quote}"

    def _shaped(self, match: regex.Match[str], line: int) -> str:
        self._note("token", line)
        return f"{match['kind']}{HIDDEN}"

    def _url(self, match: regex.Match[str], line: int) -> str:
        self._note("url_password", line)
        return f"{match['scheme']}{HIDDEN}@"

    def _note(self, name: str, line: int) -> None:
        self.names.setdefault(name, line)


def _is_harmless(name: str, value: str) -> bool:
    """Whether a bare `token` names a count or a short word (`#new-token: 7`), not a secret."""
    if name.casefold().strip("-") not in {"token", "new-token", "cached-token", "pending-token"}:
        return False
    return len(value.strip("'\"")) < _SHORTEST_TOKEN
