"""Measures the store, recovery, turns, Telegram, processes and gateways, beside limits and peers: `make bench`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))  # the PostgreSQL server is that of the tests
