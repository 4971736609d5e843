"""What the tuner launches computes right numbers: in Triton's interpreter, where torch is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra [tune]")

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("interpreted_launches.py")
LARGEST_ERROR_RATIO = 0.001


def test_every_launch_agrees_with_float64(tmp_path: Path) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * (4 * 6 + 3)
    assert all(float(line.split()[0]) < LARGEST_ERROR_RATIO for line in lines), done.stdout
