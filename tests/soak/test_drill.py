"""The long drills: three hundred kills of one gateway, ninety faults of three, at points that differ every time.

Drives `testing/drill`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(1200)
def test_nothing_is_lost_or_repeated_in_a_long_drill(tmp_path: Path) -> None:
    """B40, B46, B62, B63, B70, B73, B74, B90. What it prints has the seed of a failure."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "drill", "--kills", "300", "--json"],
        env=inherited | {"PERDURE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["kills"] == 300
    assert report["at_rest"] <= 300 // 4, "too many kills came when there was nothing to be cut off"


@pytest.mark.timeout(3600)
def test_b160_to_b164_nothing_is_lost_doubled_or_stranded_in_a_long_drill_of_three_gateways(
    tmp_path: Path, postgres_url: str
) -> None:
    """What it prints has the seed of a failure."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    words = ["drill", "--gateways", "3", "--store", postgres_url, "--kills", "90", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "perdure", *words],
        env=inherited | {"PERDURE_HOME": str(tmp_path), "PERDURE_STORE__LEASE": "6s"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert sum(report["faults"].values()) == 90
    assert report["stranded"] == 0
