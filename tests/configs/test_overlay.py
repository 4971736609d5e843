from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.configs.loaders import loader_of_version
from advisor.configs.loglines import seen_in_lines
from advisor.configs.lookup import Source
from advisor.configs.names import MoeConfigName
from advisor.configs.overlay import (
    MANIFEST,
    NewConfig,
    Plan,
    changed_files,
    install_overlay,
    prove,
    read_overlay,
    uninstall_overlay,
)
from advisor.errors import ConfigError, InputError

ENTRY = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
TEXT = json.dumps({"1": ENTRY})
OURS = MoeConfigName(experts=128, width=768, device="NVIDIA_H200")
OTHER = "E=8,N=64,device_name=NVIDIA_H200.json"


@pytest.fixture
def bundled(tmp_path: Path) -> Path:
    """Make a loader's folder with one bundled file in each of two Triton folders."""
    for folder in ("triton_3_2_0", "triton_3_6_0"):
        place = tmp_path / "install" / "configs" / folder
        place.mkdir(parents=True)
        (place / OTHER).write_text(TEXT)
    return tmp_path / "install"


@pytest.fixture
def plan(tmp_path: Path, bundled: Path) -> Plan:
    return Plan(
        folder=tmp_path / "overlay",
        loader=loader_of_version("0.5.12"),
        triton="3.6.0",
        new=(NewConfig(name=OURS, text=TEXT, origin="/home/me/tuned.json"),),
        bundled=bundled,
        sglang="0.5.12",
    )


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*.json"))
        if path.name != MANIFEST
    }


def test_an_overlay_holds_the_bundled_files_and_ours(plan: Plan, bundled: Path) -> None:
    before = contents(bundled)
    overlay = install_overlay(plan)
    assert contents(plan.folder) == before | {f"configs/triton_3_6_0/{OURS.file_name}": TEXT}
    assert contents(bundled) == before
    assert read_overlay(plan.folder) == overlay
    assert [file.origin for file in overlay.added] == ["/home/me/tuned.json"]
    assert changed_files(overlay) == ()


def test_the_proof_is_the_line_that_the_log_will_print(plan: Plan) -> None:
    overlay = install_overlay(plan)
    (proof,) = prove(overlay, plan.loader)
    assert proof.up.source is Source.EXACT
    (seen, *_) = seen_in_lines(line.text for line in proof.lines)
    assert (seen.source, seen.name, seen.root) == (Source.EXACT, OURS, str(overlay.folder))


def test_up_and_down_files_are_proved_together(plan: Plan) -> None:
    down = NewConfig(name=OURS.for_down(down=True), text=TEXT, origin="x")
    proofs = prove(install_overlay(replace(plan, new=(*plan.new, down))), plan.loader)
    assert len(proofs) == 1
    assert proofs[0].down is not None
    assert proofs[0].down.source is Source.EXACT


def test_a_down_file_proves_nothing_where_none_is_read(plan: Plan) -> None:
    down = NewConfig(name=OURS.for_down(down=True), text=TEXT, origin="x")
    old = replace(plan, loader=loader_of_version("0.5.3"), new=(*plan.new, down))
    with pytest.raises(ConfigError, match="reads no down file"):
        prove(install_overlay(old), old.loader)


def test_a_file_that_crashes_the_loader_proves_nothing(plan: Plan) -> None:
    broken = replace(plan, new=(NewConfig(name=OURS, text='{"triton_version": "3"}', origin="x"),))
    with pytest.raises(ConfigError, match="would not read"):
        prove(install_overlay(broken), plan.loader)


def test_a_bundled_down_file_that_disagrees_stops_the_installation(
    plan: Plan, bundled: Path
) -> None:
    """Up is found for one Triton and down for another: an assertion up to 0.5.12."""
    down = bundled / "configs/triton_3_2_0" / OURS.for_down(down=True).file_name
    down.write_text(json.dumps({"1": ENTRY | {"BLOCK_SIZE_M": 64}}))
    with pytest.raises(ConfigError, match="the server would stop: AssertionError at 1 tokens"):
        install_overlay(plan)
    assert not plan.folder.exists()
    install_overlay(replace(plan, loader=loader_of_version("0.5.14")))


def test_links_point_at_the_install(plan: Plan, bundled: Path) -> None:
    install_overlay(replace(plan, link=True))
    link = plan.folder / "configs/triton_3_2_0" / OTHER
    assert link.resolve() == (bundled / "configs/triton_3_2_0" / OTHER).resolve()
    uninstall_overlay(plan.folder)
    assert (bundled / "configs/triton_3_2_0" / OTHER).is_file()


def test_ours_replaces_a_linked_bundled_file_without_touching_it(plan: Plan, bundled: Path) -> None:
    name = MoeConfigName(experts=8, width=64, device="NVIDIA_H200")
    changed = json.dumps({"2": ENTRY})
    new = (NewConfig(name=name, text=changed, origin="x"),)
    install_overlay(replace(plan, link=True, new=new))
    assert (plan.folder / "configs/triton_3_6_0" / OTHER).read_text() == changed
    assert (bundled / "configs/triton_3_6_0" / OTHER).read_text() == TEXT


def test_installing_again_keeps_what_was_added_before(plan: Plan) -> None:
    install_overlay(plan)
    second = MoeConfigName(experts=64, width=32, device="NVIDIA_H200")
    again = replace(plan, new=(NewConfig(name=second, text=TEXT, origin="y"),))
    overlay = install_overlay(again)
    assert {file.origin for file in overlay.added} == {"/home/me/tuned.json", "y"}
    assert len(prove(overlay, plan.loader)) == 2


def test_nothing_but_the_overlay_is_left_beside_it(plan: Plan) -> None:
    install_overlay(plan)
    install_overlay(plan)
    assert sorted(path.name for path in plan.folder.parent.iterdir()) == ["install", "overlay"]


def test_uninstall_removes_exactly_its_files(plan: Plan) -> None:
    install_overlay(plan)
    foreign = plan.folder / "configs" / "notes.txt"
    foreign.write_text("mine")
    assert len(uninstall_overlay(plan.folder)) == 3
    assert [path.name for path in plan.folder.rglob("*") if path.is_file()] == ["notes.txt"]


def test_uninstall_takes_an_untouched_overlay_away_wholly(plan: Plan) -> None:
    install_overlay(plan)
    uninstall_overlay(plan.folder)
    assert not plan.folder.exists()


def test_changed_files_are_not_removed_unasked(plan: Plan) -> None:
    overlay = install_overlay(plan)
    edited = plan.folder / overlay.added[0].path
    edited.write_text("{}")
    with pytest.raises(ConfigError, match="changed since"):
        uninstall_overlay(plan.folder)
    assert edited.exists()
    uninstall_overlay(plan.folder, force=True)
    assert not plan.folder.exists()


def test_a_folder_of_somebody_else_is_left_alone(plan: Plan) -> None:
    plan.folder.mkdir()
    (plan.folder / "precious.txt").write_text("x")
    with pytest.raises(ConfigError, match="no overlay of Advisor"):
        install_overlay(plan)
    with pytest.raises(InputError, match="no overlay of Advisor"):
        uninstall_overlay(plan.folder)


def test_flat_releases_read_no_overlay(plan: Plan) -> None:
    with pytest.raises(ConfigError, match="reads no SGLANG_MOE_CONFIG_DIR"):
        install_overlay(replace(plan, loader=loader_of_version("0.4.6.post5")))


@pytest.mark.parametrize("path", ["/etc/passwd", "configs/../../x", "../x", ""])
def test_a_manifest_cannot_reach_outside(plan: Plan, path: str) -> None:
    install_overlay(plan)
    manifest = plan.folder / MANIFEST
    document = json.loads(manifest.read_text())
    document["files"][0]["path"] = path
    manifest.write_text(json.dumps(document))
    with pytest.raises(InputError, match="damaged"):
        uninstall_overlay(plan.folder)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"files": 3}', '{"files": [{"a": 1}]}'])
def test_damaged_manifests_are_told(plan: Plan, text: str) -> None:
    install_overlay(plan)
    (plan.folder / MANIFEST).write_text(text)
    with pytest.raises(InputError, match="damaged"):
        read_overlay(plan.folder)
