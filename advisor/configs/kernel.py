"""Advisor's own fused-MoE GEMM in Triton: what is compiled when no SGLang is at hand, and tuned.

The tiling is that of SGLang's `fused_moe_kernel`: one program makes one `[BLOCK_SIZE_M,
BLOCK_SIZE_N]` tile of `C[row] = A[row // top_k] @ B[expert].T`, rows grouped by expert beforehand,
every BLOCK_SIZE_M rows of one expert. Parameters carry SGLang's names, so that one description of a
launch fits both. Importing this module imports Triton.
"""

# A kernel is one long function of many parameters in SGLang's spelling; Triton's compiler, not
# Python's, reads it, and refuses ternaries over values of different types.
# ruff: noqa: ARG001, C901, N803, PIE808, PLR0912, PLR0913, PLR0915, PLR0917, SIM108, SIM300
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile_of_program(rows, columns, BLOCK_M, BLOCK_N, BAND):
    """Give a program its tile; BAND neighbouring row tiles share the weights in L2."""
    row_tiles = tl.cdiv(rows, BLOCK_M)
    column_tiles = tl.cdiv(columns, BLOCK_N)
    program = tl.program_id(axis=0)
    per_band = BAND * column_tiles
    first = (program // per_band) * BAND
    height = tl.minimum(row_tiles - first, BAND)
    inside = program % per_band
    return first + inside % height, inside // height


@triton.jit
def _store_tile(
    tile, c_ptr, rows, row_mask, pid_n, N, stride_cm, stride_cn, BLOCK_SIZE_N: tl.constexpr
):
    columns = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    pointers = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(pointers, tile, mask=row_mask[:, None] & (columns[None, :] < N))


@triton.jit
def moe_gemm(
    a_ptr,
    a_desc,
    b_ptr,
    b_desc,
    c_ptr,
    a_scale_ptr,
    b_scale_ptr,
    topk_weights_ptr,
    sorted_token_ids_ptr,
    expert_ids_ptr,
    num_tokens_post_padded_ptr,
    N,
    K,
    EM,
    num_valid_tokens,
    stride_am,
    stride_ak,
    stride_be,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    stride_asm,
    stride_ask,
    stride_bse,
    stride_bsk,
    stride_bsn,
    group_n: tl.constexpr,
    group_k: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
    MUL_ROUTED_WEIGHT: tl.constexpr,
    top_k: tl.constexpr,
    compute_type: tl.constexpr,
    use_fp8_w8a8: tl.constexpr,
    use_int8_w8a8: tl.constexpr,
    use_int8_w8a16: tl.constexpr,
    per_channel_quant: tl.constexpr,
    even_Ks: tl.constexpr,
    c_sorted: tl.constexpr,
    swap_ab: tl.constexpr,
    USE_GDC: tl.constexpr,
    GDC_EARLY: tl.constexpr,
):
    """Multiply expert-sorted rows of A by their experts' weights.

    Shapes: A `[tokens, K]`, or `[EM, K]` sorted when `a_desc` is given; B `[experts, N, K]`;
    C `[tokens, top_k, N]`, or `[EM, N]` in sorted order when `c_sorted`. `sorted_token_ids` holds
    `token * top_k + choice`, padded with `num_valid_tokens`; `expert_ids` one expert per
    BLOCK_SIZE_M rows, negative for none (the tile is zeroed). Scales: block-wise A
    `[tokens, K / group_k]` and B `[experts, N / group_n, K / group_k]`; per channel A `[tokens]`
    and B `[experts, N]`; per tensor A `[1]` and B `[experts]`. BLOCK_SIZE_K must divide group_k.
    With `USE_GDC` it is launched before its predecessor has ended, waits for it, and lets its own
    successor start at once (`GDC_EARLY`) or at its end.
    """
    if USE_GDC:
        tl.extra.cuda.gdc_wait()
        if GDC_EARLY:
            tl.extra.cuda.gdc_launch_dependents()
    block_scaled: tl.constexpr = (use_fp8_w8a8 or use_int8_w8a8) and (group_n > 0 and group_k > 0)
    pid_m, pid_n = _tile_of_program(EM, N, BLOCK_SIZE_M, BLOCK_SIZE_N, GROUP_SIZE_M)
    if pid_m * BLOCK_SIZE_M >= tl.load(num_tokens_post_padded_ptr):
        return
    rows_sorted = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M).to(tl.int64)
    rows = tl.load(sorted_token_ids_ptr + rows_sorted).to(tl.int64)
    row_mask = rows < num_valid_tokens
    expert_i32 = tl.load(expert_ids_ptr + pid_m)
    if expert_i32 < 0:
        if not c_sorted:
            nothing = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=compute_type)
            _store_tile(
                nothing, c_ptr, rows, row_mask, pid_n, N, stride_cm, stride_cn, BLOCK_SIZE_N
            )
        return
    expert = expert_i32.to(tl.int64)

    columns = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N).to(tl.int64)) % N
    steps = tl.arange(0, BLOCK_SIZE_K)
    sources = rows // top_k
    if a_desc is None:
        a_ptrs = a_ptr + (sources[:, None] * stride_am + steps[None, :] * stride_ak)
    if b_desc is None:
        b_ptrs = (
            b_ptr + expert * stride_be + (steps[:, None] * stride_bk + columns[None, :] * stride_bn)
        )

    if block_scaled:
        if a_desc is None:
            a_scale_rows = a_scale_ptr + sources * stride_asm
        else:
            a_scale_rows = a_scale_ptr + rows_sorted * stride_asm
        if BLOCK_SIZE_N > group_n:
            scale_columns = columns // group_n
        else:
            scale_columns = pid_n * BLOCK_SIZE_N // group_n
        b_scale_columns = b_scale_ptr + expert * stride_bse + scale_columns * stride_bsn
    elif use_int8_w8a16 or per_channel_quant:
        b_scale = tl.load(b_scale_ptr + expert * stride_bse + columns[None, :] * stride_bsn)
        if per_channel_quant:
            a_scale = tl.load(a_scale_ptr + sources * stride_asm, mask=row_mask, other=0.0)[:, None]
    elif use_fp8_w8a8 or use_int8_w8a8:
        a_scale = tl.load(a_scale_ptr)
        b_scale = tl.load(b_scale_ptr + expert)

    if swap_ab:
        total = tl.zeros((BLOCK_SIZE_N, BLOCK_SIZE_M), dtype=tl.float32)
    else:
        total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_SIZE_K):
        if a_desc is not None:
            a = a_desc.load([pid_m * BLOCK_SIZE_M, start])
        elif even_Ks:
            a = tl.load(a_ptrs, mask=row_mask[:, None], other=0.0)
        else:
            a = tl.load(a_ptrs, mask=row_mask[:, None] & (steps[None, :] < K - start), other=0.0)
        if b_desc is not None:
            b = b_desc.load([expert_i32, pid_n * BLOCK_SIZE_N, start])
            b = b.reshape(BLOCK_SIZE_N, BLOCK_SIZE_K).T
        elif even_Ks:
            b = tl.load(b_ptrs)
        else:
            b = tl.load(b_ptrs, mask=steps[:, None] < K - start, other=0.0)

        if use_int8_w8a16:
            total = tl.dot(a, b.to(compute_type), acc=total)
        elif block_scaled:
            group = start // group_k
            row_scale = tl.load(a_scale_rows + group * stride_ask, mask=row_mask, other=0.0)
            column_scale = tl.load(b_scale_columns + group * stride_bsk)
            if swap_ab:
                product = tl.dot(tl.trans(b, (1, 0)), tl.trans(a, (1, 0)))
                if BLOCK_SIZE_N > group_n:
                    total += product * column_scale[:, None] * row_scale[None, :]
                else:
                    total += product * (column_scale * row_scale[None, :])
            elif BLOCK_SIZE_N > group_n:
                total += tl.dot(a, b) * row_scale[:, None] * column_scale[None, :]
            else:
                total += tl.dot(a, b) * (row_scale[:, None] * column_scale)
        elif use_fp8_w8a8:
            if swap_ab:
                total = tl.dot(tl.trans(b, (1, 0)), tl.trans(a, (1, 0)), acc=total)
            else:
                total = tl.dot(a, b, acc=total)
        else:
            total += tl.dot(a, b)
        if a_desc is None:
            a_ptrs += BLOCK_SIZE_K * stride_ak
        if b_desc is None:
            b_ptrs += BLOCK_SIZE_K * stride_bk

    if swap_ab:
        total = tl.trans(total, (1, 0))
    if use_int8_w8a16:
        total *= b_scale
    elif (use_fp8_w8a8 or use_int8_w8a8) and not block_scaled:
        total *= a_scale * b_scale
    if MUL_ROUTED_WEIGHT:
        weights = tl.load(topk_weights_ptr + rows, mask=row_mask, other=0)
        total *= weights[:, None]
    if c_sorted:
        targets = rows_sorted
    else:
        targets = rows
    _store_tile(
        total.to(compute_type),
        c_ptr,
        targets,
        row_mask,
        pid_n,
        N,
        stride_cm,
        stride_cn,
        BLOCK_SIZE_N,
    )
    if USE_GDC and not GDC_EARLY:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def moe_gemm_grouped(
    a_ptr,
    b_ptr,
    c_ptr,
    b_scale_ptr,
    b_zp_ptr,
    topk_weights_ptr,
    sorted_token_ids_ptr,
    expert_ids_ptr,
    num_tokens_post_padded_ptr,
    N: tl.constexpr,
    K: tl.constexpr,
    EM,
    num_valid_tokens,
    stride_am,
    stride_ak,
    stride_be,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    stride_bse,
    stride_bsk,
    stride_bsn,
    stride_bze,
    stride_bzk,
    stride_bzn,
    group_size: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
    MUL_ROUTED_WEIGHT: tl.constexpr,
    top_k: tl.constexpr,
    compute_type: tl.constexpr,
    has_zp: tl.constexpr,
    use_int4_w4a16: tl.constexpr,
    use_int8_w8a16: tl.constexpr,
    even_Ks: tl.constexpr,
):
    """Multiply as `moe_gemm` does, with weights of 4 or 8 bits and one scale per `group_size` of K.

    Four-bit weights are packed in pairs along K, low half first: B `[experts, N, K / 2]`, scales
    `[experts, N, K / group_size]`, zero points likewise, packed in pairs along N.
    """
    pid_m, pid_n = _tile_of_program(EM, N, BLOCK_SIZE_M, BLOCK_SIZE_N, GROUP_SIZE_M)
    if pid_m * BLOCK_SIZE_M >= tl.load(num_tokens_post_padded_ptr):
        return
    rows_sorted = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M).to(tl.int64)
    rows = tl.load(sorted_token_ids_ptr + rows_sorted)
    row_mask = rows < num_valid_tokens
    expert = tl.load(expert_ids_ptr + pid_m).to(tl.int64)
    if expert < 0:
        nothing = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=compute_type)
        _store_tile(nothing, c_ptr, rows, row_mask, pid_n, N, stride_cm, stride_cn, BLOCK_SIZE_N)
        return
    columns = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N).to(tl.int64)) % N
    steps = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (rows[:, None] // top_k * stride_am + steps[None, :] * stride_ak)
    if use_int4_w4a16:
        packed = steps[:, None] // 2
        shift = (steps[:, None] % 2) * 4
    else:
        packed = steps[:, None]
    b_ptrs = b_ptr + expert * stride_be + packed * stride_bk + columns[None, :] * stride_bn
    total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        left = K - step * BLOCK_SIZE_K
        if even_Ks:
            scale_mask = None
            scale_other = None
        else:
            scale_mask = steps[:, None] < left
            scale_other = 0.0
        a = tl.load(a_ptrs, mask=row_mask[:, None] & (steps[None, :] < left), other=0.0)
        b = tl.load(b_ptrs)
        if use_int4_w4a16:
            b = (b >> shift) & 0xF
        groups = (steps[:, None] + BLOCK_SIZE_K * step) // group_size
        scales = tl.load(
            b_scale_ptr + expert * stride_bse + columns[None, :] * stride_bsn + groups * stride_bsk,
            mask=scale_mask,
            other=scale_other,
        ).to(tl.float32)
        if has_zp:
            if use_int4_w4a16:
                zero_columns = columns[None, :] // 2
            else:
                zero_columns = columns[None, :]
            zeros = tl.load(
                b_zp_ptr + expert * stride_bze + zero_columns * stride_bzn + groups * stride_bzk,
                mask=scale_mask,
                other=scale_other,
            )
            if use_int4_w4a16:
                zeros = (zeros >> ((columns[None, :] % 2) * 4)) & 0xF
            weights = (b.to(tl.float32) - zeros.to(tl.float32)) * scales
        elif use_int4_w4a16:
            weights = (b.to(tl.float32) - 8) * scales
        else:
            weights = (b.to(tl.float32) - 128) * scales
        total = tl.dot(a, weights.to(compute_type), acc=total)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        if use_int4_w4a16:
            b_ptrs += (BLOCK_SIZE_K // 2) * stride_bk
        else:
            b_ptrs += BLOCK_SIZE_K * stride_bk
    if MUL_ROUTED_WEIGHT:
        routed = tl.load(topk_weights_ptr + rows, mask=row_mask, other=0)
        total *= routed[:, None]
    _store_tile(
        total.to(compute_type),
        c_ptr,
        rows,
        row_mask,
        pid_n,
        N,
        stride_cm,
        stride_cn,
        BLOCK_SIZE_N,
    )
