"""The closed words of the rule language."""

from __future__ import annotations

TOPICS = frozenset(
    """
    moe_config moe_tuning allreduce_fusion custom_allreduce nccl prefill_graph decode_graph
    max_running spec_decode kv_full memory memory_leak smem attention_backend kv_dtype deepgemm
    deepgemm_jit jit_build versions arch_mismatch chat_template multinode watchdog weight_loading
    weights quantization radix_cache dp_attention overlap deprecated_flag shm numa driver startup
    serving security log lora hicache disaggregation expert_parallel moe_backend determinism
    multimodal tokenizer arguments
    """.split()
)

EXPECTATIONS = ("fires", "quiet", "skipped")

RULE_KEYS = (
    "id",
    "title",
    "topic",
    "severity",
    "confidence",
    "category",
    "since",
    "signals",
    "when",
    "summary",
    "why",
    "actions",
    "cases",
    "limits",
    "references",
    "suppresses",
    "fallback",
    "evidence",
    "values",
    "examples",
)
SIGNAL_KEYS = ("name", "literal", "literals", "pattern", "sglang", "emitted_by", "every_rank")
ACTION_KEYS = ("title", "command", "expect", "risk", "verify", "cost", "when")
CASE_KEYS = ("when", "severity", "confidence", "title", "summary", "why", "actions")
EXAMPLE_KEYS = ("name", "expect", "log", "args", "env", "severity", "summary")
REQUIRED_KEYS = ("id", "title", "topic", "severity", "category", "summary", "why", "examples")
EXTERNAL = "external"
EVERY_RELEASE = "all"
