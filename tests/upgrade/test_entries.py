"""B65: every kind of journal entry is read back whole, with the fields that databases have.

Drives `core/entries`.

`entries.jsonl` has one entry of each kind with no field at its default: a field that was renamed in Python
without its name on disk would silently be lost here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core.entries import ENTRY_TYPES, decode_entry, encode_entry

WRITTEN = [
    msgspec.json.decode(line) for line in Path(__file__).with_name("entries.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: str(written["kind"]))
def test_an_entry_is_read_and_written_with_every_field(written: dict[str, Any]) -> None:
    entry = decode_entry(written["kind"], written["version"], msgspec.json.encode(written["body"]))
    assert msgspec.json.decode(encode_entry(entry)) == written["body"]


def test_every_kind_of_entry_is_on_file() -> None:
    assert {written["kind"] for written in WRITTEN} == set(ENTRY_TYPES)
