"""The chats in the home of an earlier version: what people write, and what they must see after an upgrade."""

from __future__ import annotations

from msgspec import Struct

WORK = "once work 600s"  # the gateway is killed in this step


class Scene(Struct, frozen=True):
    """One chat. Replies are named by words in them, never by whole sentences of Perdure, which may change."""

    chat: str
    writes: tuple[str, ...]
    sees: tuple[str, ...] = ()  # replies after the upgrade, in order
    then: tuple[str, ...] = ()  # what the person writes after the upgrade
    platform: str = "web"
    sender: str = "ann"


# Each message waits until the one before is answered or in progress.
BEFORE = (Scene("held", (f"{WORK}\nsay: held went on",), ("held went on",)),)

SCENES = (
    Scene("done", ("say: hello",)),
    Scene("failed", ("fail: no credit",)),
    Scene("stopped", (f"{WORK}\nsay: never", "/stop")),
    Scene("undone", ("say: oops", "/undo")),
    Scene("running", (f"{WORK}\nsay: went on",), ("went on",)),
    Scene("queue", (f"{WORK}\nsay: one", "say: two", "say: three"), ("one", "two", "three")),
    Scene("steer", ("/queue steer", f"{WORK}\nsay: one", "say: two", "say: three"), ("one\ntwo\nthree",)),
    Scene("collect", ("/queue collect", f"{WORK}\nsay: one", "say: two", "say: three"), ("one", "two\nthree")),
    Scene("interrupt", ("/queue interrupt", f"{WORK}\nsay: one", f"{WORK}\nsay: two"), ("two",)),
    Scene("asks", ("ask: Which way? | Left | Right\nsay: thanks",), ("thanks",), ("Right",)),
    Scene("approves", ("danger: echo hello",), ("", "hello"), ("/approve",)),
    Scene("goal", (f"/goal {WORK}\nsay: GOAL REACHED",), ("GOAL REACHED",)),
    Scene("process", ("background: sleep 600\nsay: begun",), ("sleep 600",)),
    Scene("aside", (f"{WORK}\nsay: came back",), ("", "came back"), ("/resume",)),
    Scene("eve", (f"{WORK}\nsay: eve went on",), ("eve went on",), sender="eve"),
    Scene("1", ("say: later",), ("later",), platform="down"),
    Scene("1", ("say: once",), ("once",), platform="stuck"),
    Scene("1", ("say: maybe twice",), ("maybe twice",), platform="lossy"),
)

LAST = Scene("approved", ("danger: echo approved",), ("", "approved"))  # approved just before the kill
ALL = (*BEFORE, *SCENES, LAST)

# The states that the stored database must contain.
STATES = {
    "turns": {"queued", "running", "waiting", "interrupted", "done", "failed", "cancelled"},
    "outbox": {"owed", "sending", "unknown", "sent"},
    "inbox": {"waiting", "taken", "obeyed"},
    "goals": {"active"},
    "processes": {"live"},
    "sessions": {"open", "suspended"},
}
