"""What the `advisor configs` commands print."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

import click

from advisor.configs.checks import Gravity
from advisor.configs.entries import Entry
from advisor.configs.files import FileReport
from advisor.configs.loglines import Seen
from advisor.configs.lookup import Lookup, Outcome, Source
from advisor.configs.names import MoeConfigName
from advisor.configs.nearest import Candidate, Wanted
from advisor.configs.overlay import VARIABLE, Overlay
from advisor.configs.pool import triton_version
from advisor.configs.problem import Target
from advisor.configs.repair import Repair
from advisor.configs.trees import ListedConfig
from advisor.configs.verify import Basis, EntryCheck, Verdict, Verifier

_COLOURS = {Verdict.FITS: "green", Verdict.TOO_LARGE: "red", Verdict.REFUSED: "red"}
_MEANINGS = {
    Source.EXACT: "exact: the file of the running Triton",
    Source.FALLBACK: "fallback: the file of Triton {triton}",
    Source.REUSED_UP: "reuse-up: no file of its own, the up table serves",
    Source.DEFAULT: "default: SGLang's built-in tiles",
    Source.CRASH: "crash: the server stops",
}
_MOUNT = "/moe-configs"


def _dump(document: object) -> str:
    return json.dumps(document, indent=2, sort_keys=False)


def list_text(configs: Sequence[ListedConfig], *, each: bool) -> str:
    """Return the files, counted by Triton folder and device, or one by one."""
    if not configs:
        return "no such file"
    if each:
        return "\n".join(f"triton {one.triton:8} {one.name.file_name}" for one in configs)
    counts = Counter((one.triton, one.name.device) for one in configs)
    lines = []
    for triton, group in groupby(sorted(counts.items()), key=lambda item: item[0][0]):
        lines.append(f"triton {triton}")
        lines += (f"  {count:4}  {device or '(no device)'}" for (_, device), count in group)
    return "\n".join([*lines, f"{len(configs)} files"])


def list_json(configs: Sequence[ListedConfig]) -> str:
    """Return the files as JSON."""
    return _dump([{"triton": one.triton, "path": one.path, **asdict(one.name)} for one in configs])


def seen_text(seen: Sequence[Seen]) -> str:
    """Return what a log says about config files."""
    return "\n".join(
        f"line {one.line}: {one.name.file_name}: {one.source}"
        + (f", reads {one.path}" if one.path else "")
        + (f" ({one.count} times)" if one.count > 1 else "")
        for one in seen
    )


def lookup_text(results: Sequence[tuple[MoeConfigName, Lookup]], notes: Sequence[str]) -> str:
    """Return what the server does for each shape, and the lines it prints."""
    lines: list[str] = []
    for name, result in results:
        lines.append(name.file_name)
        lines += _outcome_lines("up", result.up)
        if result.down is None:
            lines.append("  down  the up file serves both GEMMs in this release")
        else:
            lines += _outcome_lines("down", result.down)
        for one in result.conflicts[:3]:
            lines.append(
                f"  from {one.tokens} tokens on BLOCK_SIZE_M is {one.up} for up, {one.down} for down"
            )
        lines.append("  the server will print:")
        lines += (f"    {line.level}: {line.text}" for line in result.lines)
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])


def _outcome_lines(label: str, outcome: Outcome) -> Iterator[str]:
    text = _MEANINGS[outcome.source].format(triton=outcome.triton)
    yield f"  {label:5} {text}"
    if outcome.path:
        yield f"        {outcome.path}"
    if outcome.reason:
        yield f"        {outcome.reason}"


def lookup_json(results: Sequence[tuple[MoeConfigName, Lookup]], notes: Sequence[str]) -> str:
    """Return lookups as JSON."""
    return _dump(
        {
            "lookups": [
                {
                    "name": name.file_name,
                    "up": _outcome_json(result.up),
                    "down": _outcome_json(result.down) if result.down else None,
                    "lines": [asdict(line) for line in result.lines],
                    "block_conflicts": [asdict(one) for one in result.conflicts],
                }
                for name, result in results
            ],
            "notes": list(notes),
        }
    )


def _outcome_json(outcome: Outcome) -> dict[str, object]:
    return {
        "source": outcome.source,
        "wanted": outcome.wanted,
        "path": outcome.path,
        "triton": outcome.triton,
        "reason": outcome.reason,
        "batch_sizes": [key for key, _ in outcome.table.entries] if outcome.table else None,
    }


def reports_text(reports: Sequence[FileReport], verifier: Verifier) -> str:
    """Return a table of entries for one file, a table of files for several."""
    lines = [_heading(verifier)]
    if len(reports) == 1:
        lines += _entry_table(reports[0])
        lines += _problem_lines(reports[0])
        lines += _device_note(reports[0], verifier.target)
    else:
        for report in reports:
            lines += _file_lines(report)
    return "\n".join([*lines, _summary(reports, verifier)])


def _heading(verifier: Verifier) -> str:
    target = verifier.target
    kernel = (
        "the bundled kernel" if verifier.package is None else f"the kernel of {verifier.package}"
    )
    compiled = f"{kernel}, compiled with Triton {triton_version()}"
    how = compiled if verifier.basis is Basis.COMPILED else "estimated by formula"
    return f"{target.name} (SM{target.sm}, {target.shared_memory_bytes} bytes a block), {how}"


def _entry_table(report: FileReport) -> Iterator[str]:
    yield report.file.name.file_name
    yield "   batch  gemm  tile M x N x K   stages  warps   shared  regs  local  verdict"
    yield from (_entry_line(check) for check in report.checks)


def _entry_line(check: EntryCheck) -> str:
    entry = check.entry
    tile = f"{entry.block_m} x {entry.block_n} x {entry.block_k}"
    registers = "-" if check.registers is None else str(check.registers)
    local = "-" if check.spill_bytes is None else str(check.spill_bytes)
    verdict = str(check.verdict)
    if check.verdict is Verdict.TOO_LARGE:
        verdict += f": {check.detail}, {check.shared_bytes / check.limit_bytes:.0%} of the limit"
    elif check.detail:
        verdict += f": {check.detail}"
    return (
        f"  {check.tokens:6}  {check.gemm:4}  {tile:15}  {entry.stages:6}  {entry.warps:5}  "
        f"{check.shared_bytes:7}  {registers:>4}  {local:>5}  "
        + click.style(verdict, fg=_COLOURS[check.verdict])
    )


def _file_lines(report: FileReport) -> Iterator[str]:
    bad = report.unfit_tokens
    verdict = "fits"
    if bad:
        verdict = f"{len(bad)} of {len(report.file.table.entries)} do not fit: " + ", ".join(
            map(str, bad)
        )
    yield f"  {report.file.path.name}: " + click.style(verdict, fg="red" if bad else "green")
    yield from _problem_lines(report, errors_only=True)


def _problem_lines(report: FileReport, *, errors_only: bool = False) -> Iterator[str]:
    """Yield each problem once, with the batch sizes that have it."""
    places: dict[tuple[Gravity, str], list[str]] = {}
    for problem in report.problems:
        if problem.gravity is Gravity.ERROR or not errors_only:
            found = places.setdefault((problem.gravity, problem.text), [])
            found += [str(problem.tokens)] if problem.tokens is not None else []
    for (gravity, text), tokens in places.items():
        colour = "red" if gravity is Gravity.ERROR else "yellow"
        place = f"batch size {', '.join(tokens)}: " if tokens else ""
        yield click.style(str(gravity), fg=colour) + f": {place}{text}"


def _device_note(report: FileReport, target: Target) -> Iterator[str]:
    if target.device is not None and target.device != report.file.name.device:
        yield (
            f"note: on this GPU SGLang looks for device_name={target.device}; "
            "`advisor configs install --gpu` renames the file"
        )


def _summary(reports: Sequence[FileReport], verifier: Verifier) -> str:
    entries = sum(len(report.file.table.entries) for report in reports)
    bad = sum(len(report.unfit_tokens) for report in reports)
    files = sum(bool(report.unfit) for report in reports)
    refused = sum(not report.clean and not report.unfit for report in reports)
    text = f"{bad} of {entries} entries in {files} of {len(reports)} files do not fit"
    if not bad:
        text = f"all {entries} entries of {len(reports)} files fit"
    if refused:
        text += f"; {refused} other files have errors"
    if verifier.basis is Basis.ESTIMATED:
        text += " (estimated; pip install 'sglang-advisor[verify]' compiles them)"
    return text


def reports_json(reports: Sequence[FileReport], verifier: Verifier) -> str:
    """Return reports as JSON."""
    return _dump(
        {
            "target": asdict(verifier.target),
            "basis": verifier.basis,
            "kernel": str(verifier.package) if verifier.package else "bundled",
            "files": [
                {
                    "path": str(report.file.path),
                    "name": report.file.name.file_name,
                    "clean": report.clean,
                    "unfit_batch_sizes": list(report.unfit_tokens),
                    "entries": [_check_json(check) for check in report.checks],
                    "problems": [asdict(problem) for problem in report.problems],
                }
                for report in reports
            ],
        }
    )


def _check_json(check: EntryCheck) -> dict[str, object]:
    return {
        "batch_size": check.tokens,
        "gemm": check.gemm,
        "entry": check.entry.as_json(),
        "verdict": check.verdict,
        "shared_bytes": check.shared_bytes,
        "limit_bytes": check.limit_bytes,
        "registers": check.registers,
        "spill_bytes": check.spill_bytes,
        "basis": check.basis,
        "detail": check.detail,
    }


def changes_text(repair: Repair, target: Target) -> str:
    """Return what a repair changed."""
    if not repair.changes:
        return f"every entry fits {target.name}: nothing changed"
    lines = [
        f"batch size {one.tokens}: {one.text} ({one.reason}; now {one.after.shared_bytes} bytes)"
        for one in repair.changes
    ]
    return "\n".join([*lines, f"{len(repair.changes)} entries changed to fit {target.name}"])


def changes_json(repair: Repair, target: Target) -> str:
    """Return a repair as JSON, the mended file included."""
    return _dump(
        {
            "target": asdict(target),
            "changes": [
                {
                    "batch_size": one.tokens,
                    "reason": one.reason,
                    "old": _entry_json(one.old),
                    "new": _entry_json(one.new),
                    "shared_bytes": one.after.shared_bytes,
                    "basis": one.after.basis,
                }
                for one in repair.changes
            ],
            "config": json.loads(repair.text),
        }
    )


def _entry_json(entry: Entry) -> dict[str, object]:
    return entry.as_json()


def nearest_text(wanted: Wanted, found: Sequence[Candidate], root: str, target: Target) -> str:
    """Return ranked candidates and what to do with the first."""
    if not found:
        return f"no file of the same types is near {wanted.name.file_name}; tune it: advisor tune"
    lines = [f"for {wanted.name.file_name}, Triton {wanted.triton}, below {root}/configs:"]
    for rank, one in enumerate(found, start=1):
        fits = "fits" if not one.unfit else f"{len(one.unfit)} batch sizes do not fit {target.name}"
        reasons = "; ".join(one.reasons) or "the very file"
        lines.append(f"{rank}. {one.config.path}")
        lines.append(f"   distance {one.distance:.2f} ({reasons}): {fits}")
    best = found[0]
    path = f"{root}/configs/{best.config.path}"
    if best.unfit:
        lines.append(f"first: advisor configs repair '{path}' --gpu '{target.name}' -o mended.json")
        path = "mended.json"
    lines.append(
        f"next: advisor configs install '{path}' --as '{wanted.name.file_name}' "
        f"--triton {wanted.triton} --sglang {_package_folder(root)} --into DIR"
    )
    return "\n".join(lines)


def _package_folder(root: str) -> str:
    """Return the `sglang/` folder that a configs folder lies in, as a word of a command."""
    before, found, _ = root.rpartition("/sglang/srt/")
    return shlex.quote(f"{before}/sglang") if found else "DIR"


def nearest_json(wanted: Wanted, found: Sequence[Candidate], root: str) -> str:
    """Return ranked candidates as JSON."""
    return _dump(
        {
            "wanted": wanted.name.file_name,
            "triton": wanted.triton,
            "root": root,
            "candidates": [
                {
                    "path": one.config.path,
                    "distance": one.distance,
                    "differs": list(one.reasons),
                    "unfit_batch_sizes": list(one.unfit),
                }
                for one in found
            ],
        }
    )


def _confirming(proofs: Sequence[Lookup]) -> list[str]:
    return [
        line.text
        for proof in proofs
        for line in proof.lines
        if line.text.startswith("Using MoE kernel config from")
    ]


def _export(overlay: Overlay) -> str:
    return f"export {VARIABLE}={shlex.quote(str(overlay.folder))}"


def install_text(overlay: Overlay, proofs: Sequence[Lookup], claim: str | None) -> str:
    """Return what was installed, how to switch it on, and how the log will confirm it."""
    bundled = len(overlay.files) - len(overlay.added)
    lines = [
        f"installed {len(overlay.added)} files, with {bundled} bundled ones, in {overlay.folder}"
    ]
    lines += (f"  {file.path}  from {file.origin}" for file in overlay.added)
    lines += ["", _export(overlay), ""]
    lines.append("proved by replaying the lookup; the server's log will confirm it with")
    lines += (f"  {text}" for text in _confirming(proofs))
    if claim:
        lines += ["", *_kubernetes(claim)]
    return "\n".join(lines)


def _kubernetes(claim: str) -> Iterator[str]:
    yield f"# copy the overlay into the volume of {claim}, then in the pod's template:"
    yield "spec:"
    yield "  containers:"
    yield "  - name: sglang"
    yield "    env:"
    yield f"    - {{name: {VARIABLE}, value: {_MOUNT}}}"
    yield "    volumeMounts:"
    yield f"    - {{name: moe-configs, mountPath: {_MOUNT}, readOnly: true}}"
    yield "  volumes:"
    yield f"  - {{name: moe-configs, persistentVolumeClaim: {{claimName: {claim}}}}}"


def install_json(overlay: Overlay, proofs: Sequence[Lookup], claim: str | None) -> str:
    """Return an installation as JSON."""
    return _dump(
        {
            "folder": str(overlay.folder),
            "triton": overlay.triton,
            "sglang": overlay.sglang,
            "export": _export(overlay),
            "added": [asdict(file) for file in overlay.added],
            "bundled_files": len(overlay.files) - len(overlay.added),
            "confirming_lines": _confirming(proofs),
            "kubernetes": "\n".join(_kubernetes(claim)) if claim else None,
        }
    )
