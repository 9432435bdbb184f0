"""Checks what the long tests need of the machine, and fails with a reason without it."""

from __future__ import annotations

import os
import shutil

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    if os.geteuid() != 0 or shutil.which("strace") is None:
        pytest.exit("make soak needs root (it mounts a small disk) and strace: apt-get install strace", 1)
