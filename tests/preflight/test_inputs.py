"""Every kind of file that may hold a launch command, with the lines of its words."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import AdvisorError, InputError
from advisor.facts.launch import read_options
from advisor.preflight.inputs.command import ServerCommand, of_command_line
from advisor.preflight.inputs.config import with_config_file
from advisor.preflight.inputs.files import read_file, read_text

FIXTURES = Path(__file__).parent.parent / "fixtures" / "preflight"
ALPHABET = st.characters(codec="utf-8")


def places(command: ServerCommand) -> dict[str, int]:
    return {word.text: word.line for word in command.words}


def test_a_script_with_variables_arrays_and_continuations() -> None:
    (command,) = read_file(FIXTURES / "launch.sh")
    assert places(command) == {
        "--model-path": 9,
        "Qwen/Qwen3-30B-A3B": 9,
        "--tp": 5,
        "4": 5,
        "--mem-fraction-static": 5,
        "0.88": 5,
        "--enable-metrics": 6,
        "--attention-backend": 11,
        "fa3": 11,
        "--cuda-graph-max-bs": 12,
        "64": 12,
        "--nccl-init-addr": 13,
        "$(hostname):5000": 13,
    }
    launch = read_options(command.words, "0.5.12")
    assert launch.fields()["tp_size"] == 4
    assert launch.unresolved_fields() == {"dist_init_addr"}


def test_a_comment_between_continued_lines_cuts_the_command() -> None:
    (command,) = read_file(FIXTURES / "cut-off.sh")
    assert [word.text for word in command.cut_off] == ["--mem-fraction-static", "0.9"]
    assert command.cut_off[0].line == 5


def test_a_dockerfile_joins_entry_point_and_command() -> None:
    (command,) = read_file(FIXTURES / "Dockerfile")
    lines = places(command)
    assert lines["--model-path"] == 7
    assert lines["--tp-size"] == 8
    assert lines["--enable-flashinfer-allreduce-fusion"] == 10
    assert command.image is not None
    assert command.image.text == "lmsysorg/sglang:v0.5.12-cu130"


@pytest.mark.parametrize(
    "text",
    [
        "FROM x\nCMD python -m sglang.launch_server --model-path M --tp 2\n",
        'FROM x\nCMD ["python", "-m", "sglang.launch_server", "--model-path", "M", "--tp", "2"]\n',
        'FROM x\nCMD ["sh", "-c", "exec sglang serve M --tp 2"]\n',
        "FROM x\nENTRYPOINT sglang serve --model-path M \\\n  --tp 2\n",
        "FROM x\nRUN sglang serve --model-path M --tp 2\n",
    ],
)
def test_forms_of_a_dockerfile(text: str) -> None:
    (command,) = read_text(text, "Dockerfile")
    assert read_options(command.words, None).fields() == {"model_path": "M", "tp_size": 2}


def test_a_compose_file_with_two_servers() -> None:
    llm, embed = read_file(FIXTURES / "compose.yaml")
    assert (llm.name, embed.name) == ("service llm", "service embed")
    assert read_options(llm.words, "0.5.10").fields()["tp_size"] == 8
    assert places(llm)["--tp"] == 10
    assert llm.gpu_count == 4
    assert places(embed)["--is-embedding"] == 25


def test_a_deployment() -> None:
    (command,) = read_file(FIXTURES / "deployment.yaml")
    assert command.name == "Deployment/llm container sglang"
    assert places(command)["--tp"] == 20
    assert command.gpu_count == 4
    assert read_options(command.words, "0.5.14").unresolved_fields() == {"api_key"}


def test_a_leader_worker_set_with_shell_scripts() -> None:
    leader, worker = read_file(FIXTURES / "lws.yaml")
    assert places(leader)["--enable-fused-moe-sum-all-reduce"] == 21
    assert read_options(leader.words, "0.5.9").unresolved_fields() == {"nnodes", "dist_init_addr"}
    assert read_options(worker.words, "0.5.9").fields()["node_rank"] == 1


def test_a_configuration_file_of_sglang() -> None:
    (command,) = read_file(FIXTURES / "server.yaml")
    lines = places(command)
    assert lines["--trust-remote-code"] == 5
    assert "--disable-radix-cache" not in lines
    assert lines["--tp_size"] == 2


def test_the_command_line_wins_over_its_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text("model-path: A\ntp-size: 2\ncuda-graph-bs: [1, 2]\n")
    command = of_command_line(["sglang", "serve", "--config", "server.yaml", "--tp-size", "4"])
    assert command is not None
    merged, unread = with_config_file(command, tmp_path)
    assert unread is None
    fields = read_options(merged.words, "0.5.12").fields()
    assert fields == {"model_path": "A", "tp_size": 4, "cuda_graph_bs": (1, 2)}


def test_a_missing_configuration_file_is_told(tmp_path: Path) -> None:
    command = of_command_line(["sglang", "serve", "--config", "gone.yaml"])
    assert command is not None
    assert "gone.yaml is not readable here" in str(with_config_file(command, tmp_path)[1])


@pytest.mark.parametrize(
    "words",
    [
        ["python", "-m", "sglang.launch_server", "--tp", "2"],
        ["sglang", "serve", "--tp", "2"],
        ["/opt/venv/bin/sglang", "serve", "--tp", "2"],
        ["SGLANG_X=1", "python3", "-m", "sglang.launch_server", "--tp", "2"],
        ["docker", "run", "--gpus", "all", "i", "python3", "-m", "sglang.launch_server", "--tp=2"],
        ["bash", "-lc", "sglang serve --tp 2"],
        ["--tp", "2"],
    ],
)
def test_ways_to_start_a_server(words: list[str]) -> None:
    command = of_command_line(words)
    assert command is not None
    assert read_options(command.words, None).fields() == {"tp_size": 2}


@pytest.mark.parametrize("words", [["vllm", "serve", "m"], ["sglang", "generate"], ["python", "x"]])
def test_other_programs_start_no_server(words: list[str]) -> None:
    assert of_command_line(words) is None


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.sh", "echo hello\n", "no SGLang server"),
        ("a.yaml", "kind: Pod\nspec: {containers: [{name: x}]}\n", "no SGLang server"),
        ("a.yaml", "{{ .Values.x }}: [\n", "render it first"),
        ("a.json", "[1, 2]", "no SGLang server"),
        ("Dockerfile", "FROM scratch\n", "no SGLang server"),
    ],
)
def test_files_without_a_server(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_file(tmp_path / name)


@given(
    st.sampled_from(["a.sh", "Dockerfile", "a.yaml", "a.json"]),
    st.lists(
        st.one_of(
            st.text(ALPHABET, max_size=30),
            st.sampled_from(
                [
                    "python -m sglang.launch_server --tp 2",
                    "kind: Pod",
                    "services:",
                    "CMD [",
                    '"${A[@]}"',
                    "A=(",
                    "containers:",
                    "  - args: [--tp, 2]",
                    "\\",
                    "'",
                ]
            ),
        ),
        max_size=12,
    ),
)
def test_no_text_crashes_a_reader(name: str, lines: list[str]) -> None:
    with contextlib.suppress(AdvisorError):
        for command in read_text("\n".join(lines), name):
            read_options(command.words, "0.5.12")
