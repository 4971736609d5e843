"""`advisor configs` as a user meets it: output, exit codes, one clear line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli.configs import configs_group
from advisor.cli.main import run

FIXTURES = Path(__file__).parent.parent / "fixtures" / "configs"
B200 = FIXTURES / "E=128,N=1344,device_name=NVIDIA_B200.json"
GOOD = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
NAME = "E=8,N=512,device_name=NVIDIA_H200.json"
ESTIMATE = ("--gpu", "RTX PRO 6000", "--estimate")


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run(["configs", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def install(tmp_path: Path) -> Path:
    """Make the parts of an SGLang 0.5.12 install that the commands look at."""
    package = tmp_path / "site-packages" / "sglang"
    folder = package / "srt/layers/moe/moe_runner/triton_utils"
    for triton in ("triton_3_2_0", "triton_3_6_0"):
        (folder / "configs" / triton).mkdir(parents=True)
    (folder / "fused_moe_triton_config.py").write_text("")
    (folder / "configs/triton_3_2_0" / NAME).write_text(json.dumps({"1": GOOD}))
    metadata = tmp_path / "site-packages/sglang-0.5.12.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.12\n")
    return package


def test_verify_names_the_bad_batch_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "verify", B200, *ESTIMATE)
    assert code == 1
    assert out.count("too large: shared memory") == 6
    assert "6 of 18 entries in 1 of 1 files do not fit (estimated" in out


def test_verify_takes_the_gpu_from_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "verify", B200, "--estimate")
    assert code == 0
    assert out.startswith("B200 (SM100, 232448 bytes a block)")


def test_verify_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "verify", B200, *ESTIMATE, "--format", "json")
    document = json.loads(out)
    assert code == 1
    assert document["basis"] == "estimated"
    assert document["files"][0]["unfit_batch_sizes"] == [512, 1024, 1536, 2048, 3072, 4096]
    assert document["files"][0]["entries"][0]["entry"]["BLOCK_SIZE_M"] == 16


def test_several_files_make_a_table_of_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / NAME
    other.write_text(json.dumps({"1": GOOD}))
    code, out, _ = call(capsys, "verify", B200, other, *ESTIMATE)
    assert code == 1
    assert f"{NAME}: fits" in out
    assert "6 of 18 do not fit: 512, 1024, 1536, 2048, 3072, 4096" in out


def test_errors_show_in_the_table_of_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    amd = tmp_path / NAME
    amd.write_text(json.dumps({key: GOOD | {"waves_per_eu": 0} for key in ("1", "2", "64")}))
    code, out, _ = call(capsys, "verify", B200, amd, "--gpu", "B200", "--estimate")
    assert code == 1
    assert 'error: batch size 1, 2, 64: "waves_per_eu" is no parameter' in out
    assert "; 1 other files have errors" in out


def test_the_bundled_files_of_an_install(capsys: pytest.CaptureFixture[str], install: Path) -> None:
    code, out, _ = call(capsys, "verify", "--bundled", "--sglang", install, *ESTIMATE)
    assert code == 0
    assert "all 1 entries of 1 files fit" in out


def test_repair_writes_a_file_that_fits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(
        capsys, "repair", B200, "--gpu", "RTX PRO 6000", "--estimate", "-o", tmp_path
    )
    assert code == 0
    assert "batch size 512: num_stages 4 to 3 (147456 of 101376 bytes" in out
    code, _, _ = call(capsys, "verify", tmp_path / B200.name, *ESTIMATE)
    assert code == 0


def test_repair_prints_the_file_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "repair", B200, "--sm", "120", "--estimate")
    assert code == 0
    assert json.loads(out)["512"]["num_stages"] == 3
    assert "6 entries changed to fit SM120" in err


def test_list_counts_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "list", "--sglang-version", "0.5.23")
    assert code == 0
    assert out.endswith("390 files\n")
    code, out, _ = call(capsys, "list", "--sglang-version", "0.5.9", "--device", "max-q")
    assert len(out.splitlines()) == 4
    code, out, _ = call(capsys, "list", "--sglang-version", "0.5.9", "--device", "RTX 5090")
    assert code == 1


def test_lookup_of_explicit_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ("--experts", 128, "--width", 768, "--gpu", "H200 SXM", "--triton", "3.6.0")
    code, out, _ = call(capsys, "lookup", *numbers, "--sglang-version", "0.5.12")
    assert code == 0
    assert "up    fallback: the file of Triton 3.2.0" in out
    assert "WARNING: Using MoE kernel config with down_moe=False." in out


def test_lookup_tells_when_nothing_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ("--experts", 128, "--width", 769, "--device", "NVIDIA H200", "--triton", "3.6.0")
    code, out, _ = call(
        capsys, "lookup", *numbers, "--sglang-version", "0.5.12", "--format", "json"
    )
    assert code == 1
    assert json.loads(out)["lookups"][0]["up"]["source"] == "default"


@pytest.mark.parametrize(
    ("version", "doubts"),
    [("0.5.9", 0), ("0.5.12.post1", 1), ("0.5.7", 1), ("0.5.13", 2), ("0.9", 2)],
)
def test_what_was_not_read_is_told(
    version: str, doubts: int, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = ("--experts", 8, "--width", 8, "--device", "X", "--triton", "3.6.0")
    _, out, _ = call(capsys, "lookup", *numbers, "--sglang-version", version)
    assert out.count("note: ") == doubts


def test_lookup_in_an_overlay_replaces_the_bundled_folder(
    capsys: pytest.CaptureFixture[str], install: Path, tmp_path: Path
) -> None:
    numbers = ("--experts", 8, "--width", 512, "--gpu", "H200 SXM", "--triton", "3.6.0")
    code, out, _ = call(capsys, "lookup", *numbers, "--sglang", install)
    assert code == 0
    assert "fallback" in out
    empty = ("--config-dir", tmp_path / "nothing")
    code, out, _ = call(capsys, "lookup", *numbers, "--sglang", install, *empty)
    assert code == 1
    assert "FileNotFoundError" in out


def test_an_empty_config_dir_is_the_servers_working_folder(
    capsys: pytest.CaptureFixture[str],
    install: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs" / "triton_3_6_0").mkdir(parents=True)
    numbers = ("--experts", 8, "--width", 512, "--gpu", "H200 SXM", "--triton", "3.6.0")
    _, out, _ = call(capsys, "lookup", *numbers, "--sglang", install, "--config-dir", "")
    assert f"Config file not found at configs/triton_3_6_0/{NAME}, you can" in out


def test_lookup_of_a_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "hidden_size": 2048,
    }
    (tmp_path / "config.json").write_text(json.dumps(model))
    options = ("--model", tmp_path, "--tp", 2, "--gpu", "H200 SXM", "--triton", "3.6.0")
    code, out, _ = call(capsys, "lookup", *options, "--sglang-version", "0.5.12")
    assert out.startswith("E=128,N=384,device_name=NVIDIA_H200.json")
    assert code == 0


def test_lookup_of_a_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "Using default MoE kernel config. Performance might be sub-optimal! Config file not found "
        "at /x/configs/triton_3_6_0/E=128,N=768,device_name=NVIDIA_H200.json, you can create them\n"
    )
    code, out, _ = call(capsys, "lookup", "--from", log)
    assert code == 1
    assert "line 1: E=128,N=768,device_name=NVIDIA_H200.json: default" in out
    code, out, _ = call(capsys, "lookup", "--from", log, "--sglang-version", "0.5.12")
    assert code == 0
    assert "fallback" in out


def test_nearest_ranks_files_of_the_install(
    capsys: pytest.CaptureFixture[str], install: Path
) -> None:
    numbers = ("--experts", 8, "--width", 1024, "--gpu", "H200 NVL", "--triton", "3.6.0")
    code, out, _ = call(capsys, "nearest", *numbers, "--sglang", install, "--estimate")
    assert code == 0
    assert f"1. triton_3_2_0/{NAME}" in out
    assert "--as 'E=8,N=1024,device_name=NVIDIA_H200_NVL.json' --triton 3.6.0" in out


def test_install_proves_and_uninstall_cleans(
    capsys: pytest.CaptureFixture[str], install: Path, tmp_path: Path
) -> None:
    ours = tmp_path / "E=8,N=1024,device_name=NVIDIA_B200.json"
    ours.write_text(json.dumps({"1": GOOD}))
    overlay = tmp_path / "overlay"
    options = ("--into", overlay, "--triton", "3.6.0", "--sglang", install, "--estimate")
    code, out, _ = call(
        capsys, "install", ours, *options, "--gpu", "H200 NVL", "--kubernetes", "moe"
    )
    path = overlay / "configs/triton_3_6_0/E=8,N=1024,device_name=NVIDIA_H200_NVL.json"
    assert code == 0
    assert path.is_file()
    assert f"export SGLANG_MOE_CONFIG_DIR={overlay}" in out
    assert f"Using MoE kernel config from {path}." in out
    assert "claimName: moe" in out
    code, out, _ = call(capsys, "uninstall", overlay)
    assert code == 0
    assert not overlay.exists()


def test_a_neighbours_file_is_installed_under_the_wanted_name(
    capsys: pytest.CaptureFixture[str], install: Path, tmp_path: Path
) -> None:
    mended = tmp_path / "mended.json"
    mended.write_text(json.dumps({"1": GOOD}))
    wanted = "E=8,N=1024,device_name=NVIDIA_H200.json"
    options = ("--into", tmp_path / "overlay", "--triton", "3.6.0", "--sglang", install)
    code, out, _ = call(capsys, "install", mended, "--as", wanted, *options, "--estimate")
    assert code == 0
    assert f"Using MoE kernel config from {tmp_path}/overlay/configs/triton_3_6_0/{wanted}." in out
    code, _, err = call(capsys, "install", mended, mended, "--as", wanted, *options)
    assert code == 2
    assert "--as names one file" in err


def test_install_refuses_what_does_not_fit(
    capsys: pytest.CaptureFixture[str], install: Path, tmp_path: Path
) -> None:
    target = ("--gpu", "RTX PRO 6000 Blackwell Server", "--estimate")
    options = ("--into", tmp_path / "overlay", "--triton", "3.6.0", "--sglang", install)
    code, _, err = call(capsys, "install", B200, *options, *target)
    assert code == 1
    assert "nothing installed" in err
    assert not (tmp_path / "overlay").exists()


BAD_FILES = {
    "broken JSON": (NAME, '{"1": {'),
    "an array": (NAME, "[1, 2]"),
    "binary": (NAME, "\x00\xff"),
    "foreign name": ("tuned.json", "{}"),
    "zero experts": ("E=0,N=512,device_name=NVIDIA_H200.json", "{}"),
    "negative width": ("E=8,N=-512,device_name=NVIDIA_H200.json", "{}"),
    "huge width": (f"E=8,N={10**40},device_name=NVIDIA_H200.json", "{}"),
}


@pytest.mark.parametrize("fault", BAD_FILES)
@pytest.mark.parametrize("command", ["verify", "repair"])
def test_bad_files_end_with_one_line_and_2(
    command: str, fault: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name, text = BAD_FILES[fault]
    path = tmp_path / name
    path.write_bytes(text.encode("latin-1"))
    code, out, err = call(capsys, command, path, "--gpu", "H200 SXM", "--estimate")
    assert (code, out) == (2, "")
    assert err.startswith("advisor: ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("verify", "."), "is a folder"),
        (("verify", "absent.json"), "No such file"),
        (("verify",), "which files?"),
        (("verify", "--bundled"), "--bundled needs --sglang"),
        (("verify", B200, "--gpu", "RTX PRO 9000"), "unknown GPU"),
        (("verify", B200, "--sm", "119"), "unknown compute capability"),
        (("verify", B200, "--sm", "90", "--gpu", "H200"), "exclude each other"),
        (("verify", B200, "--sglang", "."), "holds no SGLang install"),
        (("lookup", "--experts", "8"), "which Triton?"),
        (("lookup", "--triton", "3.6.0"), "which shape?"),
        (("lookup", "--triton", "3.6.0", "--experts", "8", "--width", "8"), "which GPU?"),
        (
            ("lookup", "--triton", "3", "--experts", "8", "--width", "8", "--gpu", "RTX PRO 6000"),
            "several models",
        ),
        (
            ("lookup", "--triton", "3", "--experts", "8", "--width", "8", "--device", "X"),
            "which SGLang?",
        ),
        (("list",), "which SGLang?"),
        (("list", "--sglang-version", "new"), "not an SGLang version"),
        (("list", "--sglang-version", "0.1"), "too old"),
        (("uninstall", "absent"), "no overlay of Advisor"),
        (("install", B200, "--into", "x", "--triton", "3.6.0"), "whose bundled files?"),
    ],
)
def test_bad_options_end_with_one_line_and_2(
    arguments: tuple[object, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("lookup", "--experts", "0"),
        ("lookup", "--width", "-3"),
        ("lookup", "--tp", str(10**30)),
        ("lookup", "--block-shape", "128"),
        ("lookup", "--block-shape", "0,128"),
        ("lookup", "--dtype", "fp4"),
        ("verify", "x.json", "--jobs", "0"),
    ],
)
def test_sizes_that_are_none_are_usage_errors(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(capsys, *arguments)
    assert (code, out) == (2, "")


@pytest.mark.parametrize("name", sorted(configs_group.commands))
def test_every_command_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, name, "--help")
    assert code == 0
    assert f"Example: advisor configs {name}" in " ".join(out.split())
