"""Delete each part of each rule in turn and list what no example notices.

    python benchmarks/mutate_rules.py [--rules DIR] [ID...]

Exit code 1 where a part survives.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

from advisor.audit.mutation import mutants, survivors
from advisor.rules.load import bundled_rules, read_folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=Path, help="a folder of rules (default: the bundled ones)")
    parser.add_argument("ids", nargs="*", help="only these rules")
    options = parser.parse_args()
    rules = read_folder(options.rules) if options.rules else bundled_rules()
    chosen = [rule for rule in rules if not options.ids or rule.id in options.ids]
    begin = perf_counter()
    tried = sum(1 for rule in chosen for _ in mutants(rule))
    alive = [survivor for rule in chosen for survivor in survivors(rule)]
    for survivor in alive:
        print(f"{survivor.rule}: {survivor.part}")
    seconds = perf_counter() - begin
    print(f"{len(chosen)} rules, {tried} parts, {len(alive)} survive, {seconds:.1f} s")
    return 1 if alive else 0


if __name__ == "__main__":
    raise SystemExit(main())
