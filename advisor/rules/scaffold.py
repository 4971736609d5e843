"""A new rule file: whole, commented, and valid from its first line on."""

from __future__ import annotations

import regex

_ID = regex.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TEXT = """\
# {id}: replace what stands here; docs/writing-rules.md has all keys, `advisor rules check` the mistakes.
id: {id}                # equals the file's name; names the condition, not the cure
title: "The widget has {{{{ slots }}}} slots"   # captures of the signals, and facts: {{{{ gpu.name }}}}
topic: {topic}
severity: warning       # error: failed or wrong | warning: costs something | note: nothing to do
confidence: certain     # certain: the log says so | likely: inferred | possible
category: configuration # correctness stability startup capacity performance configuration security
since: {since}

signals:                # log lines; leave out for a rule over facts alone
  - name: line
    literal: widget is limited to   # must stand in the line as written
    pattern: 'widget is limited to (?P<slots>\\d+) slots'
    emitted_by: external  # for a line of SGLang: the module below srt/, and `sglang: 0.5.9 – 0.5.23`

# when:                 # optional; the signal must be met too
#   all:
#     - gpu.sm: {{at_least: 90}}
#     - args.tp_size: {{above: 1}}

summary: >-
  The widget works with {{{{ slots }}}} slots.
why: |
  What causes it; what it costs here.
actions:
  - title: Give it more slots
    command: "--widget-slots 64"
    expect: What gets better.
    risk: What it takes.
    verify: The line that then reads otherwise.
    cost: 2             # 0 free and safe … 9 a big change
limits: |
  When to ignore it, and what it cannot see.
references: []          # https addresses

examples:               # they are the rule's tests and its documentation
  - name: a small widget
    log: |
      [2026-03-04 05:06:07 TP0] widget is limited to 8 slots
    expect: fires
    summary: The widget works with 8 slots.
  - name: the nearest healthy line
    log: |
      [2026-03-04 05:06:07 TP0] widget has all its slots
    expect: quiet
"""


def is_id(text: str) -> bool:
    """Whether a text can name a rule."""
    return _ID.fullmatch(text) is not None


def scaffold(rule_id: str, *, topic: str, since: str) -> str:
    """Return the text of a rule file to begin with."""
    return _TEXT.format(id=rule_id, topic=topic, since=since)
