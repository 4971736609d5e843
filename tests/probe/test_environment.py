from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import InputError
from advisor.knowledge.environment import (
    MAX_BYTES,
    Environment,
    parse_environment,
    render_environment,
)
from advisor.knowledge.records import field_types

EXAMPLE = {
    "schema_version": 1,
    "packages": [
        {"name": "triton", "version": "3.6.0", "imported_version": "3.6.0+git1", "extra": 1},
        {"name": "torch", "version": "2.9.1", "path": None},
        {"name": "sglang", "error": "not installed"},
    ],
    "gpus": {"devices": [{"index": 0, "name": "NVIDIA H200", "sm": "9.0"}]},
    "torch": {"error": "ImportError: no libcudart"},
    "variables": [{"name": "SGLANG_MOE_CONFIG_DIR", "value": "/overlay"}],
    "limits": {"error": "OSError: no"},
    "of_a_later_version": {"a": [1]},
}


def parse(document: object) -> Environment:
    return parse_environment(json.dumps(document), "env.json")


def test_what_is_absent_is_none_and_what_is_unknown_is_ignored() -> None:
    environment = parse(EXAMPLE)
    assert environment.package_version("triton") == "3.6.0+git1"
    assert environment.package_version("torch") == "2.9.1"
    assert environment.package_version("sglang") is None
    assert environment.package_version("flashinfer") is None
    assert environment.variable("SGLANG_MOE_CONFIG_DIR") == "/overlay"
    assert environment.variable("NCCL_DEBUG") is None
    assert environment.system is None
    assert environment.gpus is not None
    assert environment.gpus.devices[0].memory_bytes is None


def test_part_that_could_not_be_read_keeps_its_reason() -> None:
    environment = parse(EXAMPLE)
    assert environment.torch is None
    assert environment.error("torch") == "ImportError: no libcudart"
    assert environment.limits == ()
    assert environment.error("limits") == "OSError: no"
    assert environment.error("gpus") is None


def test_rendering_is_read_back_the_same() -> None:
    environment = parse(EXAMPLE)
    assert parse(render_environment(environment)) == environment


def test_control_characters_do_not_pass() -> None:
    document = {"schema_version": 1, "python": {"version": "3\x1b[31m.1\r\n\ud800"}}
    environment = parse(document)
    assert environment.python is not None
    assert environment.python.version is not None
    assert environment.python.version.isprintable()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"schema_version": NaN}', "not JSON"),
        ("[]", "not an environment"),
        ('{"findings": []}', "not an environment"),
        ('{"schema_version": 2}', "schema_version is 2, expected 1"),
        (
            '{"schema_version": 1, "gpus": {"devices": [{"index": "0"}]}}',
            r"gpus.devices\[0\].index",
        ),
        ('{"schema_version": 1, "gpus": {"devices": [{"index": true}]}}', "must be a whole number"),
        ('{"schema_version": 1, "packages": [{}]}', r"packages\[0\].name must be a text"),
        ('{"schema_version": 1, "packages": {"name": "torch"}}', "packages must be a list"),
        (
            '{"schema_version": 1, "limits": [{"name": "as", "soft": 1%s}]}' % ("0" * 30),
            "soft must",
        ),
        (" " * (MAX_BYTES + 1), "longer than"),
    ],
)
def test_misfits_are_refused_in_one_line_that_names_the_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_environment(text, "env.json")
    assert str(caught.value).startswith("env.json: ")
    assert "\n" not in str(caught.value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "name", "devices", "index", "files"]), inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(sorted(field_types(Environment))), values, max_size=6))
def test_any_document_is_read_or_refused(parts: dict[str, object]) -> None:
    try:
        environment = parse({"schema_version": 1, **parts})
    except InputError:
        return
    assert parse(render_environment(environment)) == environment


@given(st.text() | values.map(json.dumps))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_environment(text, "env.json")
