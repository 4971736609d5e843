"""Texts are read from the syntax of a release, whatever way they are put together."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from advisor.audit.emissions import Level, templates_of
from advisor.audit.source import read_release, read_source
from advisor.audit.texts import Text, readings
from advisor.errors import InputError

RELEASE = Path(__file__).parent.parent / "fixtures" / "audit"


def shown(code: str) -> list[tuple[str, str]]:
    return [(item.level.value, item.text.shown()) for item in templates_of("m", ast.parse(code))]


def texts(expression: str) -> list[str]:
    node = ast.parse(expression, mode="eval").body
    return [text.shown() for text in readings(node, {"NAME": [ast.Constant("named")]})]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'plain'", ["plain"]),
        ("'joined ' 'of two'", ["joined of two"]),
        ("f'a {x} b {y:.2f} c'", ["a {} b {} c"]),
        ("f'a {NAME} b'", ["a named b"]),
        ("'a %s b %5.2f%% c' % (x, y)", ["a {} b {}% c"]),
        ("'a {} b {name!r:>3} {{c}}'.format(x)", ["a {} b {} {c}"]),
        ("'a ' + x + ' b'", ["a {} b"]),
        ("'a' if x else 'b'", ["a", "b"]),
        ("f\"{'one' if x else 'two'} end\"", ["one end", "two end"]),
        ("', '.join(['a', x, 'b'])", ["a, {}, b"]),
        ("textwrap.dedent('a').strip()", ["a"]),
        ("unknown(x)", ["{}"]),
        ("NAME", ["named"]),
    ],
)
def test_expressions_give_their_texts(expression: str, expected: list[str]) -> None:
    assert texts(expression) == expected


def test_holes_keep_their_format() -> None:
    node = ast.parse("f'a {x:.2f} {y}'", mode="eval").body
    assert readings(node, {}) == (Text(pieces=("a ", " ", ""), holes=(".2f", "")),)


def test_readings_are_bounded() -> None:
    many = " + ".join(["('a' if x else 'b')"] * 20)
    assert len(texts(many)) <= 8
    deep = "(" * 40 + "'a'" + " + 'b')" * 40
    assert texts(deep)


def test_every_way_of_giving_text_out_is_seen_with_its_level() -> None:
    code = """
LIMIT = "The limit is low"
class A:
    def f(self):
        self.logger.warning_once(LIMIT)
        log_info_on_rank0(logger, f"Using {x} of them")
        print_warning_once("Beware of it")
        logger.exception("It went wrong")
        print("Just printed", x)
        self._log(f"Told by {x} a method")
        parser.error("Bad flag used")
        try:
            raise SomeError(message="It ended here")
        except E:
            assert x, "It cannot be"
        finally:
            with tqdm(desc="Loading it"):
                return logger.critical("The end of it")
        math.log("not a text")
        logger.warning(3)
"""
    assert shown(code) == [
        ("warning", "The limit is low"),
        ("info", "Using {} of them"),
        ("warning", "Beware of it"),
        ("error", "It went wrong"),
        ("print", "Just printed"),
        ("info", "Told by {} a method"),
        ("error", "Bad flag used"),
        ("raise", "It ended here"),
        ("raise", "It cannot be"),
        ("progress", "Loading it: {}"),
        ("error", "The end of it"),
    ]


def test_percent_signs_are_holes_only_where_there_are_arguments() -> None:
    assert shown("logger.info('100%d sure', x)") == [("info", "100{} sure")]
    assert shown("logger.info('100%d sure')") == [("info", "100%d sure")]


def test_a_text_that_grows_is_read_whole_first() -> None:
    code = "def f():\n  m = 'one two'\n  m += ' three'\n  logger.info(m)\n"
    assert shown(code) == [("info", "one two three"), ("info", "one two")]


def test_names_mean_what_their_function_sets() -> None:
    code = """
text = "of the module"
def f():
    text = "of the function"
    logger.info(text)
def g():
    logger.info(text)
"""
    assert shown(code) == [("info", "of the function"), ("info", "of the module")]


def test_a_release_is_read_and_what_cannot_be_parsed_is_told() -> None:
    source = read_source(RELEASE)
    assert source.version == "0.5.9"
    assert source.unread == ("srt/layers/broken.py",)
    found = {(item.module, item.level, item.text.shown()) for item in source.templates}
    assert ("server_args", Level.WARNING, "Gadget mode is disabled on SM{} with {}.") in found
    assert ("managers/scheduler", Level.ERROR, "Sprocket batch, #running: {}, #full: {}") in found
    assert ("managers/scheduler", Level.PROGRESS, "Loading cogs: {}") in found
    exceptions = {item.exception for item in source.templates if item.level is Level.RAISE}
    assert exceptions == {"ValueError", "AssertionError"}


def test_many_files_are_read_by_several_processes_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sglang" / "srt"
    folder.mkdir(parents=True)
    (tmp_path / "sglang" / "version.py").write_text('__version__ = "0.5.9"\n', encoding="utf-8")
    for number in range(12):
        text = f"logger.info('file number {number}')\n"
        (folder / f"m{number:02}.py").write_text(text, encoding="utf-8")
    alone = read_source(tmp_path).templates
    monkeypatch.setattr("advisor.audit.source._FEW_FILES", 4)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert read_source(tmp_path).templates == alone
    assert len(alone) == 12


def test_strings_of_a_module_are_found_where_nothing_logs_them() -> None:
    found = [item.text.shown() for item in read_source(RELEASE).strings("managers/scheduler")]
    assert "The queue of cogs is full." in found
    assert read_source(RELEASE).strings("no/such/module") == ()


@pytest.mark.parametrize("named", ["nowhere/at/all", "latest", "--help"])
def test_what_is_neither_path_nor_version_is_told(named: str) -> None:
    with pytest.raises(InputError, match="no such wheel or folder, and no version"):
        read_release(named)
