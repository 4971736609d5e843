from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from advisor.errors import InputError
from advisor.knowledge.constants import UNRESOLVED
from advisor.knowledge.extract import Flag, Interface, extract
from advisor.knowledge.flag_kinds import Status, Takes
from advisor.knowledge.tree import open_tree

FIXTURES = Path(__file__).parent.parent / "fixtures" / "knowledge"
STYLES = ("by_hand", "annotated", "namespaces")


def flags(interface: Interface) -> dict[str, Flag]:
    return {name: flag for flag in interface.flags for name in flag.names}


def packed(style: str, folder: Path) -> Path:
    """Pack a fixture tree as a wheel that states its version in METADATA alone."""
    path = folder / "sglang-0.5.16-py3-none-any.whl"
    source = FIXTURES / style
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(source.rglob("*.py")):
            if file.name != "version.py":
                archive.write(file, file.relative_to(source))
        archive.writestr("sglang-0.5.16.dist-info/METADATA", "Name: sglang\nVersion: 0.5.16\n")
    return path


def test_flags_registered_by_hand() -> None:
    interface = extract(FIXTURES / "by_hand")
    found = flags(interface)
    assert interface.version == "0.5.9"
    assert found["--model"].names == ("--model-path", "--model")
    assert found["--tp-size"].field == "tp_size"
    assert found["--tp-size"].default == 1
    assert found["--backend"].choices == ("triton", "fa3", "auto")
    assert found["--threads"].default == 8
    assert (found["--buckets"].takes, found["--buckets"].type) == (Takes.MANY, "int")
    assert found["--targets"].choices == ("q_proj", "k_proj", "all")
    assert (found["--native"].sets, found["--no-native"].sets) == (True, False)
    assert found["--no-native"].field == "native"
    assert found["--stream"].status is Status.DEPRECATED
    assert found["--old-way"].status is Status.IGNORED
    assert found["--old-way"].field is None
    assert found["--config"].field is None


def test_fields_and_their_defaults() -> None:
    fields = {field.name: field for field in extract(FIXTURES / "by_hand").fields}
    assert fields["model_path"].required
    assert fields["budget"].default == 4096
    assert fields["buckets"].default == []
    assert fields["native"].default is UNRESOLVED
    assert [name for name, field in fields.items() if field.adjusted] == ["backend", "threads"]


def test_annotated_fields_make_flags() -> None:
    interface = extract(FIXTURES / "annotated")
    found = flags(interface)
    assert found["--model"].field == "model_path"
    assert found["--depth"].default == 2
    assert (found["--fast"].takes, found["--fast"].sets) == (Takes.NOTHING, True)
    assert (found["--level"].choices, found["--level"].type) == ((1, 2), "int")
    assert found["--names"].takes is Takes.MANY
    assert (found["--table"].type, found["--table"].takes) == ("json.loads", Takes.ONE)
    assert found["--gemm"].field == "gemm_runner"
    assert found["--gemm"].choices == ("full", "disabled")
    assert found["--mode"].choices == ("none", "all_of_it")
    assert found["--value"].choices == ("none", "everything")
    assert not {"--secret", "--loggers", "--plain"} & set(found)


def test_deprecated_flags_say_what_they_set() -> None:
    found = flags(extract(FIXTURES / "annotated"))
    no_graph = found["--no-graph"]
    assert (no_graph.field, no_graph.sets, no_graph.takes) == ("graph", "disabled", Takes.NOTHING)
    assert (no_graph.status, no_graph.replacement) == (Status.DEPRECATED, "--graph=disabled")
    assert (found["--window-old"].field, found["--window-old"].takes) == ("window", Takes.ONE)
    assert found["--gone"].status is Status.REFUSED


def test_fields_without_flags_are_fields_all_the_same() -> None:
    fields = {field.name: field for field in extract(FIXTURES / "annotated").fields}
    assert {"secret", "loggers", "plain"} <= set(fields)
    assert {name for name, field in fields.items() if field.adjusted} == {
        "depth",
        "window",
        "gemm_runner",
    }


def test_namespace_classes_are_gathered() -> None:
    interface = extract(FIXTURES / "namespaces")
    found = flags(interface)
    fields = {field.name: field for field in interface.fields}
    assert list(fields) == ["model_path", "parser", "urls", "pool", "offset", "legacy"]
    assert found["--parser"].choices == ("auto", "a", "b")
    assert found["--urls"].takes is Takes.MANY
    assert (fields["urls"].default, fields["offset"].default) == ([], -1)
    assert (found["--legacy"].sets, found["--legacy"].status) == (True, Status.DEPRECATED)
    assert fields["pool"].adjusted


@pytest.mark.parametrize("style", STYLES)
def test_a_wheel_reads_as_its_folder(style: str, tmp_path: Path) -> None:
    unpacked, wheel = extract(FIXTURES / style), extract(packed(style, tmp_path))
    assert (wheel.flags, wheel.fields) == (unpacked.flags, unpacked.fields)
    assert wheel.version == "0.5.16"


def test_files_are_listed_alike_in_wheel_and_folder(tmp_path: Path) -> None:
    wheel, folder = open_tree(packed("namespaces", tmp_path)), open_tree(FIXTURES / "namespaces")
    listed = [path for path in folder.python_files() if path != "version.py"]
    assert list(wheel.python_files()) == listed
    below = "srt/arg_groups/fields"
    assert list(wheel.python_files(below)) == list(folder.python_files(below))


def test_a_checkout_and_the_package_itself_open_too(tmp_path: Path) -> None:
    package = FIXTURES / "by_hand" / "sglang"
    (tmp_path / "python").symlink_to(package.parent)
    assert open_tree(package).version() == open_tree(tmp_path).version() == "0.5.9"


def test_what_is_no_sglang_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "noise.whl").write_bytes(b"no archive")
    (tmp_path / "sglang" / "srt").mkdir(parents=True)
    (tmp_path / "broken" / "sglang" / "srt").mkdir(parents=True)
    (tmp_path / "broken" / "sglang" / "version.py").write_text('version = "1"', encoding="utf-8")
    (tmp_path / "broken" / "sglang" / "srt" / "server_args.py").write_text("def", encoding="utf-8")
    for name in ("absent", "noise.whl", ".", "broken"):
        with pytest.raises(InputError) as caught:
            extract(tmp_path / name)
        assert "\n" not in str(caught.value)
