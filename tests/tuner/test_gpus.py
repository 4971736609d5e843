from __future__ import annotations

import os
from pathlib import Path

import pytest

from advisor.errors import AdvisorError, ConfigError
from advisor.tuner.gpus import local_gpus
from advisor.tuner.request import TuneRequest, busy_gpus, session_of

TWO_GPUS = """\
#!/bin/sh
case "$1" in
  --query-gpu=*)
    echo "0, GPU-aaa, NVIDIA H200, 0, 143771, 580.159.04"
    echo "1, GPU-bbb, NVIDIA H200, 120000, 143771, 580.159.04" ;;
  *) echo "GPU-bbb, 4711, sglang::scheduler_TP0" ;;
esac
"""


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a program that stands for nvidia-smi."""
    program = tmp_path / "nvidia-smi"
    program.write_text(TWO_GPUS, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("advisor.tuner.request.triton_version", lambda: "3.6.0")
    return program


def request(*gpus: str) -> TuneRequest:
    return TuneRequest(shape=(128, 768, 2048, 8), gpus=gpus)


def test_gpus_and_who_holds_them_are_read(smi: Path) -> None:
    free, held = local_gpus()
    assert (free.index, free.name, free.busy) == (0, "NVIDIA H200", False)
    assert held.processes == ("4711 sglang::scheduler_TP0",)
    assert held.busy


def test_idle_gpus_are_taken_first(smi: Path) -> None:
    session = session_of(request())
    assert session.gpus == (0,)
    assert busy_gpus(session) == ()


def test_a_busy_gpu_that_is_asked_for_is_named_with_its_process(smi: Path) -> None:
    (line,) = busy_gpus(session_of(request("1")))
    assert "GPU 1" in line
    assert "4711 sglang::scheduler_TP0" in line


def test_a_gpu_that_shares_the_hosts_memory_is_busy_by_its_processes(smi: Path) -> None:
    shared = '#!/bin/sh\ncase "$1" in\n  --query-gpu=*) echo "0, GPU-a, NVIDIA GB10, [N/A], [N/A], 580" ;;\n'
    smi.write_text(f"{shared}esac\n")
    assert busy_gpus(session_of(request())) == ()
    smi.write_text(f'{shared}  *) echo "GPU-a, 4711, sglang::scheduler_TP0" ;;\nesac\n')
    (line,) = busy_gpus(session_of(request()))
    assert line.startswith("GPU 0 (NVIDIA GB10) is in use, by ")


def test_a_gpu_that_is_not_there_is_refused(smi: Path) -> None:
    with pytest.raises(ConfigError, match="no GPU 7 here; there are 0, 1"):
        session_of(request("7"))


def test_gpus_of_two_kinds_are_refused(smi: Path) -> None:
    smi.write_text(TWO_GPUS.replace("GPU-bbb, NVIDIA H200", "GPU-bbb, NVIDIA B200"))
    with pytest.raises(ConfigError, match="differ"):
        session_of(request("0", "1"))


def test_a_machine_without_gpu_says_what_to_do(smi: Path) -> None:
    smi.write_text("#!/bin/sh\nexit 9\n")
    with pytest.raises(ConfigError, match="--gpu NAME shows the plan with --dry-run"):
        session_of(request())


def test_an_answer_that_is_not_understood_is_an_error(smi: Path) -> None:
    smi.write_text("#!/bin/sh\necho 'x, y, z, w, v, u'\n")
    with pytest.raises(AdvisorError, match="not understood"):
        local_gpus()


def test_a_name_stands_for_a_gpu_elsewhere(smi: Path) -> None:
    away = TuneRequest(shape=(128, 768, 2048, 8), gpus=("H200",), away=True)
    session = session_of(away)
    assert (session.device, session.gpus) == ("NVIDIA H200", ())
    with pytest.raises(ConfigError, match="name the GPU"):
        session_of(TuneRequest(shape=(128, 768, 2048, 8), away=True))
