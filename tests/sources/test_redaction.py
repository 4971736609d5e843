"""Secrets are taken out wherever they stand; what only looks like one stays."""

from __future__ import annotations

import pytest

from advisor.sources.redaction import Redactor

SECRETS = [
    "api_key='hunter2hunter2'",
    "'admin_api_key': 'hunter2hunter2'",
    "--api-key hunter2hunter2 --tp 4",
    "--api-key=hunter2hunter2",
    "ssl_keyfile_password='hunter2hunter2'",
    "HF_TOKEN=hf_hunter2hunter2hunter2",
    "export AWS_SECRET_ACCESS_KEY=hunter2hunter2",
    "https://user:hunter2hunter2@example.com/x",
    "Authorization: Bearer hunter2hunter2",
    'token="hunter2hunter2"',
    "OPENAI_API_KEY: sk-hunter2hunter2hunter2",
]
HARMLESS = [
    "Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.02",
    "api_key=None, admin_api_key=None",
    "bos_token: <s>",
    "tokenizer_path='/models/x', max_total_tokens=5",
    "eos_token_id=151645",
    "mailto someone@example.com",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_hidden(text: str) -> None:
    redactor = Redactor()
    assert "hunter2" not in redactor.clean(text)
    assert redactor.names


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    redactor = Redactor()
    assert redactor.clean(text) == text
    assert redactor.names == {}


def test_a_switched_off_redactor_still_knows_that_there_was_a_secret() -> None:
    redactor = Redactor(enabled=False)
    assert "hunter2" in redactor.clean("api_key='hunter2hunter2'")
    assert "api_key" in redactor.names
