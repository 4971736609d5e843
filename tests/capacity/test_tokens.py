from __future__ import annotations

import pytest

from advisor.capacity import KvShape, kv_cell_bytes, state_bytes_of_pool


@pytest.mark.parametrize(
    ("shape", "cell"),
    [
        # Qwen3-30B-A3B: 750511 tokens took 34.36 GiB twice.
        (KvShape(layers=48, kv_heads=4, head_dim=128), 98304),
        # Llama-3.1-8B.
        (KvShape(layers=32, kv_heads=8, head_dim=128), 131072),
        # Qwen3.5 with 2 full-attention layers of 8: 10408160 tokens took 19.85 GiB twice.
        (KvShape(layers=2, kv_heads=2, head_dim=256), 4096),
        # Fewer heads than ranks: one each.
        (KvShape(layers=12, kv_heads=2, head_dim=256, attention_tp=4), 12288),
        (KvShape(layers=61, latent_dim=576), 70272),
        (KvShape(layers=61, latent_dim=576, index_head_dim=128), 70272 + 61 * 132),
        (KvShape(layers=1, kv_heads=1, head_dim=128, element_bytes=1, four_bit=True), 128 + 16),
        (KvShape(layers=48, kv_heads=4, head_dim=128, draft_layers=1), int(98304 * 49 / 48)),
        (
            KvShape(layers=12, kv_heads=8, head_dim=64, window_layers=12, window_ratio=0.5),
            12 * 2048 + 6 * 2048,
        ),
    ],
)
def test_bytes_of_a_token(shape: KvShape, cell: int) -> None:
    assert kv_cell_bytes(shape) == cell


def test_bytes_of_a_state_from_the_pool_line() -> None:
    """6 linear layers of 64 value and 16 key heads of 128: 25608192 bytes; the pool has N + 1."""
    state = state_bytes_of_pool(conv_gib=0.62, recurrent_gib=35.11, slots=1497)
    assert state == pytest.approx(25_608_192, rel=3e-4)
