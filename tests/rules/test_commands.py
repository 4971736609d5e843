"""What an action gives to paste is a command, arguments or variables, and no prose."""

from __future__ import annotations

import pytest

from advisor.rules.commands import command_problem


@pytest.mark.parametrize(
    "command",
    [
        "",
        "--mem-fraction-static 0.85",
        "--cuda-graph-backend-prefill=disabled",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,SHM",
        "SGLANG_ENABLE_SPEC_V2=1 --speculative-eagle-topk 1",
        "grep -nE 'the first (or) the last' 'my log.txt'",
        'python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())"',
        "docker run --shm-size 32g IMAGE",
        "nvidia-smi -L\nenv | grep CUDA_VISIBLE_DEVICES",
        '--json-model-override-args \'{"rope_scaling": {"factor": 4.0, "rope_type": "yarn"}}\'',
    ],
)
def test_what_can_be_pasted_is_accepted(command: str) -> None:
    assert command_problem(command) is None


@pytest.mark.parametrize(
    "command",
    [
        "remove --enable-mscclpp",
        "--attention-backend triton or flashinfer",
        "--max-running-requests lower",
        "--dist-init-addr <host>:<port>",
        "docker run --ipc=host …",
        "pip install -U sglang   (or the newest image)",
        "--tp-size, --nnodes",
        "--port 1 / --nccl-port 2",
        "the launch command",
        "grep 'unclosed server.log",
        "nvidia-smi\nthen look at the other GPUs",
    ],
)
def test_prose_is_refused_with_its_line(command: str) -> None:
    problem = command_problem(command)
    assert problem is not None
    assert repr(command.splitlines()[-1]) in problem
