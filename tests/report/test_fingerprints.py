"""A fingerprint stays while the finding stays, and differs where the finding differs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from advisor.findings import Finding, Severity
from advisor.fingerprints import fingerprint, fingerprints, normalised
from advisor.sources.records import Evidence

MakeFinding = Callable[..., Finding]
MakeEvidence = Callable[..., Evidence]

SAME = [
    ("avail mem=12.68 GB, elapsed=3 s", "avail mem=11.2 GB, elapsed=14 s"),
    ("process 4711 took 3.2s at 12it/s", "process 9 took 14s at 3.5it/s"),
    ("2026-03-04 05:06:07 TP3 died", "2026-11-29T23:59:59.123Z TP0 died"),
    ("token usage: 0.97, #queue-req: 4", "token usage: 1.00, #queue-req: 47"),
    ("max_total_num_tokens=750511", "max_total_num_tokens=750400"),
    ("at 0x7f00aa12", "at 0xdeadbeef"),
    (
        "not found at /opt/a/lib/configs/triton_3_6_0/E=8,N=96.json",
        "not found at /usr/lib/python3/configs/triton_3_6_0/E=8,N=96.json",
    ),
    ("server_args=ServerArgs(seed=1, port=3)", "server_args=ServerArgs(seed=2, port=4)"),
]
DIFFERENT = [
    ("E=128,N=768,device_name=NVIDIA_H200.json", "E=256,N=768,device_name=NVIDIA_H200.json"),
    ("E=128,N=768.json", "E=128,N=1024.json"),
    ("configs/triton_3_6_0/x.json", "configs/triton_3_8_0/x.json"),
    ("dtype=fp8_w8a8", "dtype=int8_w8a8"),
    ("--enable-a is deprecated", "--enable-b is deprecated"),
    ("Qwen3-30B-A3B", "Qwen3-235B-A22B"),
]


@pytest.mark.parametrize(("before", "after"), SAME)
def test_what_moves_between_two_starts_is_taken_out(before: str, after: str) -> None:
    assert normalised(before) == normalised(after)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_names_the_matter_stays(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_place_count_ranks_order_and_wording_of_the_rule_do_not_matter(
    make_finding: MakeFinding, make_evidence: MakeEvidence
) -> None:
    one = make_finding(evidence=(make_evidence("first"), make_evidence("second")))
    other = make_finding(
        Severity.ERROR,
        title="other words",
        evidence=(
            make_evidence("second", line=99, source="elsewhere.log"),
            make_evidence("first", count=8, ranks=("TP0", "TP1")),
        ),
    )
    assert fingerprint(one) == fingerprint(other)


def test_rule_and_message_matter(make_finding: MakeFinding, make_evidence: MakeEvidence) -> None:
    made = [
        make_finding(rule="one-rule"),
        make_finding(rule="other-rule"),
        make_finding(rule="one-rule", evidence=(make_evidence("another message"),)),
        make_finding(rule="one-rule", evidence=()),
    ]
    assert len({fingerprint(finding) for finding in made}) == len(made)


def test_equal_findings_get_different_fingerprints_in_a_stable_order(
    make_finding: MakeFinding,
) -> None:
    twins = [make_finding(), make_finding(), make_finding(rule="other-rule")]
    marks = fingerprints(twins)
    assert len(set(marks)) == 3
    assert marks == fingerprints(twins)
    assert marks[0] == fingerprint(twins[0])
