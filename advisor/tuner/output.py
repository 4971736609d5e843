"""The files of a finished run, as text by relative path; whoever asked for them writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.configs.entries import ConfigTable
from advisor.configs.loaders import DownRule, Loader
from advisor.configs.problem import Gemm, MoeProblem
from advisor.tuner.decide import Choice
from advisor.tuner.plot import plot_svg
from advisor.tuner.problem import config_name
from advisor.tuner.report import Conditions, report_html, report_json, report_markdown
from advisor.tuner.run import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A result with what it belongs to.

    Attributes:
        device: Torch's name of the GPU.
        triton: Version of Triton, which names the folder.
        loader: How the server's release finds its files.
    """

    problem: MoeProblem
    device: str
    triton: str
    result: Result
    conditions: Conditions
    loader: Loader


def config_paths(tuned: Tuned) -> Mapping[Gemm, str]:
    """Return where each config file goes, below the folder of `SGLANG_MOE_CONFIG_DIR`."""
    folder = f"configs/triton_{tuned.triton.replace('.', '_')}"
    return {
        gemm: f"{folder}/{config_name(tuned.problem, tuned.device, gemm, tuned.loader).file_name}"
        for gemm in files_of(tuned.loader)
    }


def files_of(loader: Loader) -> tuple[Gemm, ...]:
    """Return the GEMMs that have a file of their own; before 0.5.6 one serves both."""
    return (Gemm.UP,) if loader.down is DownRule.NONE else tuple(Gemm)


def config_text(choices: Sequence[Choice], gemm: Gemm) -> str:
    """Return a config file: one complete entry per batch size, ascending."""
    entries = tuple(
        (choice.tokens, (choice.pair.up if gemm is Gemm.UP else choice.pair.down).entry())
        for choice in sorted(choices, key=lambda choice: choice.tokens)
    )
    return ConfigTable(entries=entries).to_text()


def documents(tuned: Tuned) -> Mapping[str, str]:
    """Return every file of a run: configs, then the report as Markdown, HTML, SVG and JSON."""
    choices = tuned.result.choices
    configs = {path: config_text(choices, gemm) for gemm, path in config_paths(tuned).items()}
    plot = plot_svg(choices)
    reports = {
        "tune-report.md": report_markdown(tuned.result, tuned.conditions),
        "tune-report.html": report_html(tuned.result, tuned.conditions, plot),
        "tune-report.svg": plot,
        "tune-report.json": json.dumps(report_json(tuned.result, tuned.conditions), indent=2)
        + "\n",
    }
    return {**configs, **reports}
