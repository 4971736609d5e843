from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.configs.cubin import kernel_usage
from advisor.configs.entries import Entry
from advisor.configs.launch import Fixed, launch_of
from advisor.configs.names import ExpertDtype
from advisor.configs.problem import Gemm, MoeProblem
from advisor.configs.source import BUNDLED, bundled_source, read_source, server_source
from advisor.errors import InputError

PLAIN = MoeProblem(experts=8, width=768, hidden=2048, top_k=2)
ENTRY = Entry(block_m=16, block_n=64, block_k=128, group_m=1)


def constants(problem: MoeProblem, gemm: Gemm, entry: Entry, sm: int) -> dict[str, object]:
    launch = launch_of(bundled_source(), problem, gemm, entry, sm)
    return {
        name: argument.value for name, argument in launch.arguments if isinstance(argument, Fixed)
    }


def test_the_bundled_kernel_is_lifted_with_what_it_calls() -> None:
    source = bundled_source()
    assert source.kernel == "moe_gemm"
    assert source.functions == ("_tile_of_program", "_store_tile", "moe_gemm")
    assert bundled_source(grouped=True).kernel == "moe_gemm_grouped"


def test_comments_do_not_change_the_digest(tmp_path: Path) -> None:
    copy = tmp_path / "kernel.py"
    copy.write_text(BUNDLED.read_text().replace("@triton.jit\n", "# a comment\n@triton.jit\n"))
    assert read_source(copy).digest == bundled_source().digest
    copy.write_text(BUNDLED.read_text().replace("total += tl.dot(a, b)", "total += tl.dot(b, a)"))
    assert read_source(copy).digest != bundled_source().digest


def test_nothing_of_the_file_is_run(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text("raise SystemExit\n" + BUNDLED.read_text())
    assert read_source(path).kernel == "moe_gemm"


@pytest.mark.parametrize("text", ["", "def fused_moe_kernel(): pass", "(", "\x00"])
def test_files_without_a_kernel_are_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(text)
    with pytest.raises(InputError, match=r"kernel\.py"):
        read_source(path)
    with pytest.raises(InputError, match="no fused-MoE Triton kernel"):
        server_source(tmp_path)


def test_a_parameter_of_a_newer_release_is_told(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(BUNDLED.read_text().replace("    swap_ab: tl.constexpr,\n", "    brand_new,\n"))
    with pytest.raises(InputError, match="'brand_new'"):
        launch_of(read_source(path), PLAIN, Gemm.UP, ENTRY, 90)


def test_up_and_down_differ_as_in_the_server() -> None:
    up = constants(PLAIN, Gemm.UP, ENTRY, 90)
    down = constants(PLAIN, Gemm.DOWN, ENTRY, 90)
    assert (up["top_k"], up["MUL_ROUTED_WEIGHT"]) == (2, False)
    assert (down["top_k"], down["MUL_ROUTED_WEIGHT"]) == (1, True)


@pytest.mark.parametrize(("width", "even"), [(768, True), (704, False)])
def test_the_tail_of_k_is_masked_where_it_must_be(width: int, even: bool) -> None:
    problem = MoeProblem(experts=8, width=width, hidden=2048, top_k=2)
    assert constants(problem, Gemm.DOWN, ENTRY, 90)["even_Ks"] is even


@pytest.mark.parametrize(
    ("dtype", "block_m", "sm", "swapped"),
    [
        (ExpertDtype.FP8_W8A8, 16, 90, True),
        (ExpertDtype.FP8_W8A8, 64, 90, False),
        (ExpertDtype.FP8_W8A8, 16, 100, False),
        (None, 16, 90, False),
    ],
)
def test_where_operands_are_swapped(
    dtype: ExpertDtype | None, block_m: int, sm: int, swapped: bool
) -> None:
    problem = MoeProblem(experts=8, width=768, hidden=2048, top_k=2, dtype=dtype)
    entry = Entry(block_m=block_m, block_n=64, block_k=128, group_m=1)
    assert constants(problem, Gemm.UP, entry, sm)["swap_ab"] is swapped


@given(st.binary(max_size=300))
def test_no_bytes_crash_the_cubin_reader(tail: bytes) -> None:
    assert kernel_usage(tail) is None
    assert kernel_usage(b"\x7fELF\x02\x01" + tail) is None


def test_registers_and_stack_are_read() -> None:
    names = b"\0.nv.info\0.names\0"
    info = struct.pack("<BBHII", 4, 0x2F, 8, 1, 96) + struct.pack("<BBHII", 4, 0x11, 8, 1, 24)
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    table = 64 + len(names) + len(info)
    struct.pack_into("<Q", header, 0x28, table)
    struct.pack_into("<HHH", header, 0x3A, 64, 2, 0)
    sections = struct.pack("<IIQQQQIIQQ", 10, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    place = 64 + len(names)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, place, len(info), 0, 0, 1, 0)
    usage = kernel_usage(bytes(header) + names + info + sections)
    assert usage is not None
    assert (usage.registers, usage.local_bytes) == (96, 24)
