"""The chats in the home of an earlier version: what people write, and what they must see after an upgrade."""

from __future__ import annotations

from msgspec import Struct

WORK = "once work 600s"  # the gateway is killed in this step


class ChatScript(Struct, frozen=True):
    """One chat. Replies are named by words in them, never by whole sentences of Perdure, which may change."""

    chat: str
    writes: tuple[str, ...]
    sees: tuple[str, ...] = ()  # replies after the upgrade, in order
    then: tuple[str, ...] = ()  # what the person writes after the upgrade
    platform: str = "web"
    sender: str = "ann"


# Each message waits until the one before is answered or in progress.
BEFORE = (ChatScript("held", (f"{WORK}\nsay: held went on",), ("held went on",)),)

SCRIPTS = (
    ChatScript("done", ("say: hello",)),
    ChatScript("failed", ("fail: no credit",)),
    ChatScript("stopped", (f"{WORK}\nsay: never", "/stop")),
    ChatScript("undone", ("say: oops", "/undo")),
    ChatScript("running", (f"{WORK}\nsay: went on",), ("went on",)),
    ChatScript("queue", (f"{WORK}\nsay: one", "say: two", "say: three"), ("one", "two", "three")),
    ChatScript("steer", ("/queue steer", f"{WORK}\nsay: one", "say: two", "say: three"), ("one\ntwo\nthree",)),
    ChatScript(
        "collect", ("/queue collect", f"{WORK}\nsay: one", "say: two", "say: three"), ("one", "two\nthree")
    ),
    ChatScript("interrupt", ("/queue interrupt", f"{WORK}\nsay: one", f"{WORK}\nsay: two"), ("two",)),
    ChatScript("asks", ("ask: Which way? | Left | Right\nsay: thanks",), ("thanks",), ("Right",)),
    ChatScript("approves", ("danger: echo hello",), ("", "hello"), ("/approve",)),
    ChatScript("goal", (f"/goal {WORK}\nsay: GOAL REACHED",), ("GOAL REACHED",)),
    ChatScript("process", ("background: sleep 600\nsay: begun",), ("sleep 600",)),
    ChatScript("aside", (f"{WORK}\nsay: came back",), ("", "came back"), ("/resume",)),
    ChatScript("eve", (f"{WORK}\nsay: eve went on",), ("eve went on",), sender="eve"),
    ChatScript("1", ("say: later",), ("later",), platform="down"),
    ChatScript("1", ("say: once",), ("once",), platform="stuck"),
    ChatScript("1", ("say: maybe twice",), ("maybe twice",), platform="lossy"),
)

LAST = ChatScript("approved", ("danger: echo approved",), ("", "approved"))  # approved just before the kill
ALL = (*BEFORE, *SCRIPTS, LAST)

# The states that the stored database must contain.
STATES = {
    "turns": {"queued", "running", "waiting", "interrupted", "done", "failed", "cancelled"},
    "outbox": {"owed", "sending", "unknown", "sent"},
    "inbox": {"waiting", "taken", "obeyed"},
    "goals": {"active"},
    "processes": {"live"},
    "sessions": {"open", "suspended"},
}
