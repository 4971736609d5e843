"""Where `--from` looks: the Hugging Face cache, and the process tree above a GPU's user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.cli.tune_log import server_runs
from advisor.errors import AdvisorError
from advisor.tuner.fromlog import missing_in_runs, sized
from advisor.tuner.holders import holder
from advisor.tuner.hub import cached_config, hub_cache

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/c", "HF_HOME": "/b"}, "/c"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/x"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HF_HOME": "", "HF_HUB_CACHE": ""}, f"{Path.home()}/.cache/huggingface/hub"),
        ({"HF_HOME": "~nobody-of-this-name/x"}, "~nobody-of-this-name/x/hub"),
    ],
)
def test_the_cache_is_where_the_hubs_client_puts_it(variables: dict[str, str], folder: str) -> None:
    assert hub_cache(variables) == Path(folder)


def put(cache: Path, name: str, commits: tuple[str, ...], **references: str) -> Path:
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "refs" / "pr").mkdir(parents=True)
    for commit in commits:
        (folder / "snapshots" / commit).mkdir(parents=True)
        (folder / "snapshots" / commit / "config.json").write_text("{}", encoding="utf-8")
    for branch, text in references.items():
        (folder / "refs" / branch.replace("_", "/")).write_text(text, encoding="ascii")
    return folder / "snapshots"


def test_a_revision_is_a_branch_or_a_commit(tmp_path: Path) -> None:
    there = put(tmp_path, "org/name", (COMMIT, "b0b"), main=f"{COMMIT}\n", pr_1="b0b")
    assert cached_config("org/name", None, tmp_path) == there / COMMIT / "config.json"
    assert cached_config("org/name", "pr/1", tmp_path) == there / "b0b" / "config.json"
    assert cached_config("org/name", "b0b", tmp_path) == there / "b0b" / "config.json"
    assert cached_config("org/name", "other", tmp_path) is None
    assert cached_config("org/else", None, tmp_path) is None


def test_a_lone_snapshot_stands_for_a_lost_reference(tmp_path: Path) -> None:
    one = put(tmp_path, "org/one", ("b0b",))
    put(tmp_path, "org/two", ("b0b", "cafe"))
    assert cached_config("org/one", None, tmp_path) == one / "b0b" / "config.json"
    assert cached_config("org/two", None, tmp_path) is None


def test_a_reference_cannot_lead_out_of_the_cache(tmp_path: Path) -> None:
    put(tmp_path, "org/name", ("b0b",), main="../../../etc")
    assert cached_config("org/name", None, tmp_path) is None
    assert cached_config("org/name", "../snapshots/b0b", tmp_path) is None
    assert cached_config("../name", None, tmp_path) is None


@given(name=st.text(max_size=40), revision=st.none() | st.text(max_size=40))
def test_no_name_of_a_log_breaks_the_search(name: str, revision: str | None) -> None:
    assert cached_config(name, revision, Path("/nowhere")) is None


def process(proc: Path, pid: int, parent: int, *words: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"\x00".join(word.encode() for word in words) + b"\x00")
    (folder / "stat").write_text(f"{pid} (a (b) c) S {parent} 1 1", encoding="ascii")


@pytest.mark.parametrize(
    "words",
    [
        ("python3", "-m", "sglang.launch_server", "--model-path", "x"),
        ("/opt/env/bin/python3", "/opt/env/bin/sglang", "serve", "x"),
    ],
)
def test_a_schedulers_server_is_who_must_stop(tmp_path: Path, words: tuple[str, ...]) -> None:
    process(tmp_path, 1, 0, "/sbin/init")
    process(tmp_path, 5, 1, "bash", "-c", "python3 -m sglang.launch_server --model-path x")
    process(tmp_path, 10, 5, *words)
    process(tmp_path, 11, 10, "sglang::scheduler_TP0")
    assert holder("11 sglang::scheduler_TP0", tmp_path) == "the SGLang server, process 10"


def test_another_process_is_named_as_it_is(tmp_path: Path) -> None:
    process(tmp_path, 7, 7, "python", "train.py", "--data", "/data/sglang")
    assert holder("7 python", tmp_path) == "process 7 python"
    assert holder("8 [Not Found]", tmp_path) == "process 8 [Not Found]"
    assert holder("?", tmp_path) == "process ?"


WORDS = st.sampled_from(
    [
        "server_args=ServerArgs(model_path='a/b', tp_size=",
        "speculative_draft_model_path='c', ",
        "Using MoE kernel config from ",
        "Config file not found at ",
        "/x/configs/triton_3_6_0/",
        "E=8,N=16,device_name=NVIDIA_H200",
        ",dtype=fp8_w8a8,block_shape=[128, 128]",
        "_down.json",
        ".json",
        ", you can create them with ",
        "Using default MoE kernel config. Performance might be sub-optimal! ",
        "\n[2026-11-29 13:28:57] ",
        "0",
        "'",
    ]
)


@given(text=st.lists(WORDS | st.text(max_size=8), max_size=30).map("".join))
def test_no_log_breaks_the_reading(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    log = tmp_path_factory.mktemp("log") / "server.log"
    log.write_text(text, encoding="utf-8", errors="replace")
    try:
        for missing in missing_in_runs(server_runs(str(log)), "log"):
            assert not missing.name.down
            sized(missing, (), ())
    except AdvisorError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_a_models_own_quantisation_does_not_matter(tmp_path: Path) -> None:
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "hidden_size": 2048,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "quantization_config": {"quant_method": "not known to anybody"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    log = Path(__file__).parent.parent / "fixtures" / "logs" / "qwen3moe-default.log"
    (missing,) = missing_in_runs(server_runs(str(log)), "log")
    found = sized(missing, (tmp_path,))
    assert (found.problem.hidden, found.problem.top_k) == (2048, 8)
    assert found.config == tmp_path / "config.json"
