from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.configs.entries import Entry
from advisor.configs.files import read_config, verify_files
from advisor.configs.names import ExpertDtype, MoeConfigName
from advisor.configs.nearest import Wanted, nearest_configs
from advisor.configs.problem import MoeProblem, problem_of_name, target_of_gpu, target_of_sm
from advisor.configs.repair import neighbours, repair_file
from advisor.configs.trees import DiskFiles, listed_configs
from advisor.configs.verify import Verifier
from advisor.errors import ConfigError

FIXTURES = Path(__file__).parent.parent / "fixtures" / "configs"
B200 = FIXTURES / "E=128,N=1344,device_name=NVIDIA_B200.json"
LIMIT = 101376
PLAIN = MoeProblem(experts=8, width=512, hidden=4096, top_k=2)
SCALED = replace(PLAIN, dtype=ExpertDtype.FP8_W8A8, block_shape=(128, 128))
LARGE = Entry(block_m=64, block_n=128, block_k=128, group_m=1, num_warps=4, num_stages=4)


@pytest.fixture
def verifier() -> Verifier:
    return Verifier(target=target_of_gpu("RTX PRO 6000"), estimate=True)


def write(folder: Path, name: str, document: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def test_the_bundled_file_of_a_b200_is_mended(verifier: Verifier, tmp_path: Path) -> None:
    config = read_config(B200)
    before = verify_files([config], verifier)[0]
    assert before.unfit_tokens == (512, 1024, 1536, 2048, 3072, 4096)
    repair = repair_file(config, verifier)
    assert [change.tokens for change in repair.changes] == list(before.unfit_tokens)
    assert {change.text for change in repair.changes} == {
        "num_stages 4 to 3",
        "num_stages 3 to 2",
    }
    mended = tmp_path / B200.name
    mended.write_text(repair.text)
    assert verify_files([read_config(mended)], verifier)[0].clean


def test_entries_that_fit_stay_as_they_are(verifier: Verifier) -> None:
    old = json.loads(B200.read_text())
    repair = repair_file(read_config(B200), verifier)
    new = json.loads(repair.text)
    assert list(new) == list(old)
    changed = {str(change.tokens) for change in repair.changes}
    assert {key: new[key] for key in new if key not in changed} == {
        key: old[key] for key in old if key not in changed
    }


def test_a_file_that_fits_is_not_changed() -> None:
    repair = repair_file(read_config(B200), Verifier(target=target_of_gpu("B200"), estimate=True))
    assert repair.changes == ()
    assert json.loads(repair.text) == json.loads(B200.read_text())


def test_fewer_stages_come_before_smaller_tiles() -> None:
    found = list(neighbours(LARGE, PLAIN, keep_m=False))
    assert found[:2] == [replace(LARGE, num_stages=3), replace(LARGE, num_stages=2)]
    assert found[2] == replace(LARGE, block_k=64)


@given(
    st.sampled_from([16, 32, 64, 128, 256]),
    st.sampled_from([32, 64, 128, 256]),
    st.sampled_from([32, 64, 128, 256]),
    st.integers(1, 6),
    st.booleans(),
)
def test_neighbours_are_sound(m: int, n: int, k: int, stages: int, keep_m: bool) -> None:
    entry = Entry(block_m=m, block_n=n, block_k=k, group_m=8, num_warps=8, num_stages=stages)
    found = list(neighbours(entry, SCALED, keep_m=keep_m))
    assert entry not in found
    assert len(set(found)) == len(found)
    for one in found:
        assert 128 % one.block_k == 0
        assert one.stages <= stages
        assert one.block_m <= m
        assert one.block_n <= n
        assert one.block_k <= k
        assert (one.group_m, one.num_warps) == (8, 8)
        assert not keep_m or one.block_m == m


def test_block_m_is_kept_where_a_down_file_agrees(verifier: Verifier, tmp_path: Path) -> None:
    huge = {"BLOCK_SIZE_M": 256, "BLOCK_SIZE_N": 16, "BLOCK_SIZE_K": 256, "GROUP_SIZE_M": 1}
    name = MoeConfigName(experts=8, width=512, device="NVIDIA_B200")
    path = write(tmp_path, name.file_name, {"1": huge | {"num_stages": 2}})
    write(tmp_path, name.for_down(down=True).file_name, {"1": huge | {"num_stages": 2}})
    repair = repair_file(read_config(path), verifier)
    assert repair.changes[0].new.block_m == 256


def test_scales_of_the_wrong_width_are_mended(verifier: Verifier, tmp_path: Path) -> None:
    name = MoeConfigName(
        experts=8, width=512, device="X", dtype=ExpertDtype.FP8_W8A8, block_shape=(128, 128)
    )
    small = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 256, "GROUP_SIZE_M": 1}
    repair = repair_file(read_config(write(tmp_path, name.file_name, {"1": small})), verifier)
    assert repair.changes[0].new.block_k == 128
    assert "quantisation block" in repair.changes[0].reason


def test_files_with_other_mistakes_are_not_mended(verifier: Verifier, tmp_path: Path) -> None:
    path = write(tmp_path, "E=8,N=512,device_name=X.json", {"triton_version": "3", "1": {}})
    with pytest.raises(ConfigError, match="mend this first"):
        repair_file(read_config(path), verifier)


def test_an_entry_beyond_help_is_told(tmp_path: Path) -> None:
    hopeless = {"BLOCK_SIZE_M": 65536, "BLOCK_SIZE_N": 16, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 1}
    path = write(tmp_path, "E=8,N=512,device_name=X.json", {"1": hopeless})
    with pytest.raises(ConfigError, match="tune it anew"):
        repair_file(read_config(path), Verifier(target=target_of_sm(120), estimate=True))


def test_up_and_down_files_of_one_folder_are_compared(verifier: Verifier, tmp_path: Path) -> None:
    small = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    name = MoeConfigName(experts=8, width=512, device="X")
    up = write(tmp_path, name.file_name, {"1": small})
    down = write(tmp_path, name.for_down(down=True).file_name, {"1": small | {"BLOCK_SIZE_M": 64}})
    for path in (up, down):
        (report,) = verify_files([read_config(path)], verifier)
        assert not report.clean
        assert "BLOCK_SIZE_M is 16 for up and 64 for down" in report.problems[-1].text


def test_the_nearest_files_are_ranked_and_verified(verifier: Verifier, tmp_path: Path) -> None:
    small = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    big = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1}
    server = "NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition"
    maxq = "NVIDIA_RTX_PRO_6000_Blackwell_Max-Q_Workstation_Edition"
    places = {
        f"triton_3_5_1/E=128,N=384,device_name={server}.json": small,
        f"triton_3_6_0/E=128,N=384,device_name={maxq}.json": small,
        "triton_3_6_0/E=128,N=384,device_name=NVIDIA_H200.json": big,
        f"triton_3_6_0/E=128,N=192,device_name={server}.json": small,
        f"triton_3_6_0/E=128,N=384,device_name={server},dtype=fp8_w8a8.json": small,
        "triton_3_6_0/E=128,N=384,device_name=AMD_Instinct_MI300X.json": small,
    }
    for place, entry in places.items():
        path = tmp_path / "configs" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"1": entry}))
    files = DiskFiles(folder=tmp_path)
    name = MoeConfigName(experts=128, width=384, device=server)
    wanted = Wanted(name=name, triton="3.6.0", problem=problem_of_name(name))
    found = nearest_configs(wanted, listed_configs(files), files, verifier)
    assert [one.config.path for one in found] == [
        *list(places)[:2],
        list(places)[3],
        list(places)[2],
    ]
    assert [one.unfit for one in found] == [(), (), (), (1,)]
    assert found[0].reasons == ("Triton 3.5.1",)
    assert found[0].distance < found[1].distance
