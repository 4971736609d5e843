"""The closed words of the rule language."""

from __future__ import annotations

TOPICS = frozenset(
    {
        "allreduce_fusion",
        "arch_mismatch",
        "arguments",
        "attention_backend",
        "chat_template",
        "custom_allreduce",
        "decode_graph",
        "deepgemm",
        "deepgemm_jit",
        "deprecated_flag",
        "determinism",
        "disaggregation",
        "dp_attention",
        "driver",
        "expert_parallel",
        "hicache",
        "jit_build",
        "kv_dtype",
        "kv_full",
        "log",
        "lora",
        "max_running",
        "memory",
        "memory_leak",
        "moe_backend",
        "moe_config",
        "moe_tuning",
        "multimodal",
        "multinode",
        "nccl",
        "numa",
        "overlap",
        "prefill_graph",
        "quantization",
        "radix_cache",
        "security",
        "serving",
        "shm",
        "smem",
        "spec_decode",
        "startup",
        "tokenizer",
        "versions",
        "watchdog",
        "weight_loading",
        "weights",
    }
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
EXAMPLE_KEYS = ("name", "expect", "log", "args", "env", "severity", "summary", "evidence")
REQUIRED_KEYS = ("id", "title", "topic", "severity", "category", "summary", "why", "examples")
EXTERNAL = "external"
EVERY_RELEASE = "all"
