"""`advisor preflight` as its users call it."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from advisor.cli.main import run

FIXTURES = Path(__file__).parent.parent / "fixtures" / "preflight"
SERVER = ("--", "python", "-m", "sglang.launch_server", "--model-path", "M", "--tp", "4")
FUSION = "--enable-flashinfer-allreduce-fusion"
H200 = ("--gpu", "H200:4", "--sglang", "0.5.12")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)


def preflight(*options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(["preflight", *options])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((*H200, *SERVER), 0),
        (("--gpu", "RTX PRO 6000:4", "--sglang", "0.5.12", *SERVER, FUSION), 1),
        (
            (
                "--gpu",
                "RTX PRO 6000:4",
                "--fail-on",
                "error",
                "--sglang",
                "0.5.12",
                *SERVER,
                FUSION,
            ),
            0,
        ),
        (
            (
                "--gpu",
                "RTX PRO 6000:4",
                "--fail-on",
                "error",
                "--sglang",
                "0.5.14",
                *SERVER,
                FUSION,
            ),
            1,
        ),
        (
            (
                "--gpu",
                "RTX PRO 6000:4",
                "--fail-on",
                "never",
                "--sglang",
                "0.5.14",
                *SERVER,
                FUSION,
            ),
            0,
        ),
        (
            (
                "--gpu",
                "RTX PRO 6000:4",
                "--ignore",
                "allreduce-*",
                "--sglang",
                "0.5.12",
                *SERVER,
                FUSION,
            ),
            0,
        ),
        (("--gpu", "no such", *SERVER), 2),
        (("--sglang", "new", *SERVER), 2),
        (("--ignore", "no-such-rule", *SERVER), 2),
        (("gone.yaml",), 2),
        (("--", "vllm", "serve"), 2),
        ((), 2),
    ],
)
def test_exit_codes(
    options: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preflight(*options, capsys=capsys)[0] == code


def test_an_input_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = preflight("--gpu", "H20O", *SERVER, capsys=capsys)
    assert out == ""
    assert err.count("\n") == 1
    assert "did you mean" in err


def test_a_hundred_seeded_gate_runs_are_byte_identical(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = random.Random(5)  # noqa: S311  (a seeded choice of inputs)
    options = ["--enable-fused-moe-sum-all-reduce", FUSION, "--attention-backend", "fa3"]
    (tmp_path / ".advisor.yaml").write_text("severity: {flag-deprecated: warning}\n")
    seen: dict[tuple[str, str], set[str]] = {}
    for _ in range(100):
        form = seeds.choice(["sarif", "junit", "github", "gitlab", "json"])
        version = seeds.choice(["0.5.9", "0.5.14", "0.5.23"])
        given = ("--gpu", "RTX 5090:4", "--sglang", version, "--format", form)
        code, out, _ = preflight(*given, *SERVER, *options, capsys=capsys)
        assert code == 1
        seen.setdefault((form, version), set()).add(out)
    assert all(len(outputs) == 1 for outputs in seen.values())
    assert len(seen) == 15


def test_uploads_of_two_servers_do_not_collide(capsys: pytest.CaptureFixture[str]) -> None:
    def upload(*options: str) -> dict[str, object]:
        text = preflight("--format", "sarif", *options, capsys=capsys)[1]
        (only,) = json.loads(text)["runs"]
        assert isinstance(only, dict)
        return only

    compose = str(FIXTURES / "compose.yaml")
    first = upload(compose, "--server", "llm")
    second = upload(compose, "--server", "embed")
    third = upload("--", "sglang", "serve", "--model-path", "a/b")
    fourth = upload("--", "sglang", "serve", "--model-path", "a/c")
    ids = [str(item["automationDetails"]) for item in (first, second, third, fourth)]
    assert len(set(ids)) == 4


def test_several_outputs_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ("--output", "sarif:a.sarif", "--output", "junit:a.xml", "--output", "json:a.json")
    manifest = str(FIXTURES / "deployment.yaml")
    code, out, _ = preflight(manifest, "--gpu", "RTX PRO 6000", *outputs, capsys=capsys)
    assert code == 1
    assert "gate: fail-on=warning -> failed" in out
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
    document = ET.fromstring((tmp_path / "a.xml").read_text())  # noqa: S314  (our own output)
    cases = document.iter("testcase")
    outcome = {case.attrib["name"]: {child.tag for child in case} for case in cases}
    assert outcome["gpus-too-few"] == {"failure"}
    assert outcome["memory-estimate"] == {"skipped"}
    assert outcome["flag-unknown"] == set()
    found = json.loads((tmp_path / "a.json").read_text())["findings"]
    place = next(item for item in found if item["rule"] == "gpus-too-few")["evidence"][0]
    assert (place["line"], place["text"]) == (20, "--tp 8")


def test_secrets_stay_out_of_every_output(capsys: pytest.CaptureFixture[str]) -> None:
    phrase = "correct-horse-battery"
    token = "hf_" + "a1" * 12
    command = (*SERVER, "--api-key", phrase, "--model-loader-extra-config", token)
    for form in ("terminal", "json", "sarif", "junit", "github", "gitlab", "markdown", "html"):
        code, out, _ = preflight("--format", form, *command, capsys=capsys)
        assert code == 1
        assert phrase not in out
        assert token not in out
        assert "secret-in-command" in out
    _, out, _ = preflight(str(FIXTURES / "compose.yaml"), "--server", "llm", capsys=capsys)
    assert "hf_0123456789" not in out


def test_the_probe_gives_release_gpu_and_triton(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {
        "schema_version": 1,
        "packages": [
            {"name": "sglang", "version": "0.5.9"},
            {"name": "triton", "version": "3.5.1"},
        ],
        "gpus": {
            "devices": [
                {"index": index, "name": "NVIDIA GeForce RTX 5090", "sm": "12.0"}
                for index in range(2)
            ]
        },
    }
    (tmp_path / "env.json").write_text(json.dumps(document))
    _, out, _ = preflight("--env", "env.json", "--format", "json", *SERVER, capsys=capsys)
    facts = json.loads(out)["facts"]
    assert (facts["sglang_version"], facts["triton_version"]) == ("0.5.9", "3.5.1")
    assert (facts["gpu"]["sm"], facts["gpu"]["count"]) == (120, 2)
    assert "gpus-too-few" in out


def test_the_image_tag_gives_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = preflight(str(FIXTURES / "Dockerfile"), "--format", "json", capsys=capsys)
    facts = json.loads(out)["facts"]
    assert facts["sglang_version"] == "0.5.12"
    assert "lmsysorg/sglang:v0.5.12-cu130" in facts["sglang_version_basis"]


def test_a_baseline_lets_known_findings_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--gpu", "RTX PRO 6000:4", "--sglang", "0.5.12")
    assert preflight(*given, "--write-baseline", "b.json", *SERVER, FUSION, capsys=capsys)[0] == 1
    code, out, _ = preflight(*given, "--baseline", "b.json", *SERVER, FUSION, capsys=capsys)
    assert code == 0
    assert "accepted by b.json" in out
    worse = ("--gpu", "RTX PRO 6000:4", "--sglang", "0.5.14", "--baseline", "b.json")
    assert preflight(*worse, *SERVER, FUSION, capsys=capsys)[0] == 1
    code, _, err = preflight(*given, "--baseline", "gone.json", *SERVER, capsys=capsys)
    assert code == 2
    assert "advisor baseline" in err
