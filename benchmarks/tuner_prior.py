"""Count the winners in SGLang's bundled MoE configs: the tuner's prior.

    python benchmarks/tuner_prior.py WHEEL... > advisor/data/tuner_prior.yaml

The same file in several wheels counts once; the same shape under another Triton version counts
again, for it was tuned again. `--without E,N` leaves shapes out (for honest simulations).
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from collections import Counter
from pathlib import Path

from advisor.configs.entries import Entry, parse_table
from advisor.configs.names import ExpertDtype, MoeConfigName, parse_name
from advisor.errors import InputError
from advisor.knowledge.gpus import find_gpu
from advisor.tuner.space import tile_of

HEADER = """\
# How often each tile wins in the MoE config files that SGLang ships, by kind of weights,
# compute capability, GEMM and batch size. Made by benchmarks/tuner_prior.py; do not edit.
"""
Key = tuple[str, int, str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--without", action="append", default=[], metavar="E,N")
    options = parser.parse_args()
    without = {tuple(int(part) for part in text.split(",")) for text in options.without}
    files = read_files(options.wheels)
    counts, used = count_winners(files, without)
    sys.stdout.write(to_yaml(counts, used, [wheel.name for wheel in options.wheels], without))


def read_files(wheels: list[Path]) -> dict[tuple[str, str], str]:
    """Return the text of each MoE file by Triton folder and name; the newest wheel wins.

    A file that 0.4.6 keeps without a Triton folder and later releases with one counts once.
    """
    files: dict[tuple[str, str], str] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                path = Path(member)
                if path.suffix == ".json" and path.name.startswith("E=") and "moe" in member:
                    files[path.parent.name, path.name] = archive.read(member).decode()
    distinct = {(name, text): folder for (folder, name), text in sorted(files.items())}
    return {(folder, name): text for (name, text), folder in distinct.items()}


def count_winners(
    files: dict[tuple[str, str], str], without: set[tuple[int, ...]]
) -> tuple[dict[Key, Counter[str]], int]:
    counts: dict[Key, Counter[str]] = {}
    used = 0
    for (folder, file_name), text in sorted(files.items()):
        try:
            name = parse_name(file_name)
            table = parse_table(text, f"{folder}/{file_name}")
        except InputError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        gpu = find_gpu(name.device)
        if not isinstance(name, MoeConfigName) or gpu is None or gpu.sm < 80:  # noqa: PLR2004
            continue
        family = family_of(name)
        if family is None or (name.experts, name.width) in without:
            continue
        used += 1
        role = "down" if name.down else "up"
        for tokens, entry in table.entries:
            if is_complete(entry):
                key = (family, gpu.sm, role, tokens)
                counts.setdefault(key, Counter())[tile_of(entry).key] += 1
    return counts, used


def is_complete(entry: Entry) -> bool:
    return entry.num_warps is not None and entry.num_stages is not None


def family_of(name: MoeConfigName) -> str | None:
    if name.dtype is None:
        return "16bit"
    if name.dtype in (ExpertDtype.FP8_W8A8, ExpertDtype.INT8_W8A8):
        return "8bit_block" if name.block_shape else "8bit"
    return None


def to_yaml(
    counts: dict[Key, Counter[str]], used: int, wheels: list[str], without: set[tuple[int, ...]]
) -> str:
    releases = ", ".join(re.sub(r"sglang-([^-]+)-.*", r"\1", name) for name in wheels)
    lines = [HEADER.rstrip(), f'source: "{used} files of SGLang {releases}"']
    lines.append(f"without: {sorted(list(shape) for shape in without)}")
    lines.append("winners:")
    last: tuple[str, int, str] | None = None
    for family, sm, role, tokens in sorted(counts):
        if last is None or last[0] != family:
            lines.append(f"  {family}:")
        if last is None or last[:2] != (family, sm):
            lines.append(f"    {sm}:")
        if last != (family, sm, role):
            lines.append(f"      {role}:")
        last = (family, sm, role)
        winners = counts[family, sm, role, tokens]
        cells = ", ".join(f"{tile}: {winners[tile]}" for tile in sorted(winners))
        lines.append(f"        {tokens}: {{{cells}}}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
