from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.configs.agreement import BlockConflict, block_conflicts
from advisor.configs.checks import Gravity, pair_problems, table_problems
from advisor.configs.entries import ConfigTable, Entry, parse_table, read_table
from advisor.configs.loaders import loader_of_version
from advisor.configs.names import MoeConfigName
from advisor.errors import InputError

GOOD = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
NAME = MoeConfigName(experts=8, width=512, device="NVIDIA_H200")


def table(**blocks: int) -> ConfigTable:
    """Make a table of `t<batch size>=BLOCK_SIZE_M`."""
    document = {key[1:]: GOOD | {"BLOCK_SIZE_M": m} for key, m in blocks.items()}
    return parse_table(json.dumps(document), "test")


def texts(name: MoeConfigName, document: object, version: str | None = None) -> list[str]:
    loader = loader_of_version(version) if version else None
    found = table_problems(name, parse_table(json.dumps(document), "test"), loader)
    return [f"{one.gravity}: {one.text}" for one in found]


def test_a_bundled_file_is_read_and_written_back() -> None:
    path = (
        Path(__file__).parent.parent / "fixtures/configs/E=128,N=1344,device_name=NVIDIA_B200.json"
    )
    read = read_table(path)
    assert read.problems == ()
    assert [tokens for tokens, _ in read.entries][:3] == [1, 2, 4]
    assert json.loads(read.to_text()) == json.loads(path.read_text())


def test_missing_warps_and_stages_are_tritons() -> None:
    entry = parse_table(json.dumps({"1": GOOD}), "test").entries[0][1]
    assert (entry.num_warps, entry.warps, entry.num_stages, entry.stages) == (None, 4, None, 3)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"BLOCK_SIZE_M": None}, "BLOCK_SIZE_M must be a whole number"),
        ({"BLOCK_SIZE_N": 0}, "BLOCK_SIZE_N must lie between 1 and 65536, not 0"),
        ({"BLOCK_SIZE_N": -64}, "not -64"),
        ({"BLOCK_SIZE_K": 10**30}, "a huge number"),
        ({"BLOCK_SIZE_K": 96}, "power of two"),
        ({"BLOCK_SIZE_K": "64"}, "whole number"),
        ({"BLOCK_SIZE_K": True}, "whole number"),
        ({"num_stages": 2.5}, "num_stages must be a whole number"),
        ({"USE_TMA": 1}, "USE_TMA must be true or false"),
    ],
)
def test_bad_values_are_named_with_their_batch_size(
    fields: dict[str, object], problem: str
) -> None:
    read = parse_table(json.dumps({"7": GOOD | fields}), "test")
    assert read.entries == ()
    (text,) = read.problems
    assert text.startswith("batch size 7: ")
    assert problem in text


def test_missing_keys_are_all_named() -> None:
    read = parse_table('{"4": {"BLOCK_SIZE_M": 16}}', "test")
    assert [text.split(": ")[1] for text in read.problems] == [
        "BLOCK_SIZE_N is missing",
        "BLOCK_SIZE_K is missing",
        "GROUP_SIZE_M is missing",
    ]


def test_the_version_key_of_vllm_is_recognised() -> None:
    read = parse_table(json.dumps({"triton_version": "3.5.0", "1": GOOD}), "test")
    assert "vLLM" in read.problems[0]
    assert len(read.entries) == 1


@pytest.mark.parametrize("key", ["0", "-1", "1.5", "", "\u0661", "9" * 40])
def test_keys_that_are_no_batch_sizes(key: str) -> None:
    assert "is not a batch size" in parse_table(json.dumps({key: GOOD}), "test").problems[0]


def test_launch_options_of_triton_are_no_mistake() -> None:
    document = {str(2**power): GOOD | {"num_ctas": 1} for power in range(13)}
    assert texts(NAME, document) == []
    entry = parse_table(json.dumps(document), "test").entries[0][1]
    assert entry.options == (("num_ctas", 1),)
    assert entry.as_json() == document["1"]


def test_no_key_drives_the_terminal() -> None:
    document = {"\x1b[2J": GOOD, "1": GOOD | {"\x1b]0;x": 1}}
    read = parse_table(json.dumps(document), "test")
    assert "\x1b" not in "".join([*read.problems, *texts(NAME, document)])


def test_a_repeated_batch_size_is_told() -> None:
    text = f'{{"1": {json.dumps(GOOD)}, "1": {json.dumps(GOOD | {"BLOCK_SIZE_M": 64})}}}'
    read = parse_table(text, "test")
    assert "occurs twice" in read.problems[0]
    assert read.entries[0][1].block_m == 64


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"1": ]', "[" * 100_000, "1" * 5000])
def test_what_is_no_json_object_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_table(text, "a.json")
    assert "a.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=4))
def test_no_document_crashes_the_reader(value: object) -> None:
    read = parse_table(json.dumps({"1": value, "2": {"BLOCK_SIZE_M": value}}), "test")
    assert read.entries == ()
    assert read.problems


@given(st.lists(st.integers(1, 5000), min_size=1, unique=True), st.integers(1, 70000))
def test_the_nearest_key_is_the_servers(keys: list[int], tokens: int) -> None:
    read = parse_table(json.dumps({str(key): GOOD for key in keys}), "test")
    assert read.nearest(tokens)[0] == min(keys, key=lambda key: abs(key - tokens))


def test_conflicts_are_found_between_keys_too() -> None:
    found = block_conflicts(table(t1=16, t100=64), table(t1=16, t64=64))
    assert found == (BlockConflict(tokens=33, up=16, down=64),)


def test_equal_block_sizes_are_no_conflict() -> None:
    assert block_conflicts(table(t1=16, t64=64), table(t1=16, t64=64)) == ()


@given(
    st.dictionaries(st.integers(1, 300), st.sampled_from([16, 32, 64]), min_size=1, max_size=5),
    st.dictionaries(st.integers(1, 300), st.sampled_from([16, 32, 64]), min_size=1, max_size=5),
)
def test_conflicts_are_complete(up: dict[int, int], down: dict[int, int]) -> None:
    tables = [table(**{f"t{key}": m for key, m in one.items()}) for one in (up, down)]
    differs = [
        tokens
        for tokens in range(1, 320)
        if tables[0].nearest(tokens)[1].block_m != tables[1].nearest(tokens)[1].block_m
    ]
    found = block_conflicts(*tables)
    assert bool(found) == bool(differs)
    assert [one.tokens for one in found][:1] == differs[:1]


def test_pair_problems_depend_on_the_release() -> None:
    up, down = table(t1=16), table(t1=64)
    assert "AssertionError" in pair_problems(up, down)[0].text
    old, new = loader_of_version("0.5.12"), loader_of_version("0.5.14")
    assert pair_problems(up, down, old)[0].gravity is Gravity.ERROR
    assert pair_problems(up, down, new)[0].gravity is Gravity.WARNING


def test_an_empty_object_is_an_error() -> None:
    assert texts(NAME, {})[0].startswith("error: no entry")


def test_keys_of_amd_files_are_errors() -> None:
    assert texts(NAME, {"1": GOOD | {"waves_per_eu": 0}})[0] == (
        'error: "waves_per_eu" is no parameter of the kernel on NVIDIA GPUs: the launch raises'
    )


@pytest.mark.parametrize(
    ("version", "gravity"), [(None, "warning"), ("0.5.16", "error"), ("0.5.18", None)]
)
def test_tma_in_an_up_file(version: str | None, gravity: str | None) -> None:
    found = [
        text for text in texts(NAME, {"1": GOOD | {"USE_TMA": False}}, version) if "TMA" in text
    ]
    assert [text.split(":")[0] for text in found] == ([gravity] if gravity else [])
    down = NAME.for_down(down=True)
    assert not [text for text in texts(down, {"1": GOOD | {"USE_TMA": True}}) if "TMA" in text]


def test_block_k_must_divide_the_quantisation_block() -> None:
    name = MoeConfigName(experts=8, width=512, device="X", block_shape=(128, 128))
    assert "results are wrong" in texts(name, {"1": GOOD | {"BLOCK_SIZE_K": 256}})[0]
    assert not [text for text in texts(name, {"1": GOOD}) if text.startswith("error")]


def test_sparse_keys_are_warned_of() -> None:
    found = texts(NAME, {"64": GOOD, "512": GOOD})
    assert [text.split(":")[0] for text in found] == ["warning"] * 3
    dense = {str(2**power): GOOD for power in range(13)}
    assert texts(NAME, dense) == []


def test_too_many_warps_are_an_error() -> None:
    assert "1024 threads" in texts(NAME, {"1": GOOD | {"num_warps": 64}})[0]


def test_extras_are_kept_when_written() -> None:
    entry = parse_table(json.dumps({"1": GOOD | {"waves_per_eu": 0}}), "test").entries[0][1]
    assert isinstance(entry, Entry)
    assert entry.as_json()["waves_per_eu"] == 0
