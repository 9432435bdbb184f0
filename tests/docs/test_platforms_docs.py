"""The page on platforms: its table says what each adapter claims, and leaves no claim out.

Drives `platforms/api`.
"""

from __future__ import annotations

import os

import msgspec
import pytest

from perdure.platforms.api import Capabilities
from perdure.platforms.telegram import TelegramAdapter
from perdure.platforms.web import WebAdapter
from support.markdown import page

PLATFORMS = page("docs/platforms.md")
ADAPTERS = (WebAdapter, TelegramAdapter)


def told(can: Capabilities) -> dict[str, str]:
    """What a person has to know of a platform, question by question."""
    return {
        "What people write while the gateway is down": _missed(can),
        "Can an answer come twice?": _twice(can),
        "An answer that grows": _growing(can),
        "While the agent works": "it is seen to type" if can.typing_every else "nothing is shown at first",
        "A question with choices": "buttons, which work after any restart" if can.buttons else "answered in words",
        "Threads": "each is a conversation of its own, and is answered there" if can.threads else "none",
        "Files from the agent": _files(can),
        "A long answer": f"messages of at most {can.max_length} characters" if can.max_length else "one message",
    }


def _missed(can: Capabilities) -> str:
    return "is kept there, and answered after the start" if can.keeps_missed else "does not reach us"


def _twice(can: Capabilities) -> str:
    if can.idempotent_send:
        return "no: the same answer again changes nothing"
    if can.read_back:
        return "no: we look whether it is there"
    return "if its confirmation is lost: marked as such, or given up with a notice, as `delivery.unknown` says"


def _files(can: Capabilities) -> str:
    if not can.files:
        return "are told of, and stay on the gateway's machine"
    return f"arrive, up to {can.max_file // 1_000_000} MB" if can.max_file else "arrive"


def _growing(can: Capabilities) -> str:
    if can.live:
        return "is shown as it grows"
    if not (can.edit and can.grows):
        return "is shown when it is finished, and may be edited" if can.edit else "is shown when it is finished"
    when = f", once it has grown for {can.show_after:g} s" if can.show_after else ""
    return f"is a message that is edited every {can.edit_every:g} s{when}"


def table() -> str:
    columns = {adapter.name: told(adapter.capabilities) for adapter in ADAPTERS}
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [
        f"| {question} | {' | '.join(column[question] for column in columns.values())} |"
        for question in told(Capabilities())
    ]
    return "\n".join(lines)


def test_table_is_what_the_adapters_claim() -> None:
    """B74: each platform's promise stands in one table; `conformance/test_adapters` proves it."""
    fresh = PLATFORMS.rendered("platforms", table())
    if os.environ.get("PERDURE_WRITE_DOCS"):
        PLATFORMS.path.write_text(fresh)
    assert PLATFORMS.text == fresh, "docs/platforms.md is out of date; CONTRIBUTING.md says how to write it anew"


CLAIMS = {
    "idempotent_send": (True, {}),
    "read_back": (True, {}),
    "keeps_missed": (True, {}),
    "threads": (True, {}),
    "buttons": (True, {}),
    "edit": (True, {}),
    "edit_every": (9.0, {"edit": True}),
    "grows": (False, {"edit": True}),
    "show_after": (2.0, {"edit": True}),
    "typing_every": (4.0, {}),
    "live": (True, {}),
    "files": (True, {}),
    "max_file": (9_000_000, {"files": True}),
    "max_length": (100, {}),
}


@pytest.mark.parametrize("claim", Capabilities.__struct_fields__)
def test_claim_can_be_seen_in_the_table(claim: str) -> None:
    value, beside = CLAIMS[claim]
    before = msgspec.structs.replace(Capabilities(), **beside)
    assert told(msgspec.structs.replace(before, **{claim: value})) != told(before)
