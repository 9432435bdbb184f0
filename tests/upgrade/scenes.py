"""The chats of a database that an upgrade finds: how each comes about, and what it must see afterwards."""

from __future__ import annotations

from msgspec import Struct

WORK = "once work 600s"  # nobody sees its end: the gateway is killed in it


class Scene(Struct, frozen=True):
    """One chat. What it sees is told by words that are in it; never by sentences of ours, for they may change."""

    chat: str
    writes: tuple[str, ...]
    sees: tuple[str, ...] = ()  # after the upgrade, all of it in order
    then: tuple[str, ...] = ()  # what the person writes after the upgrade
    platform: str = "web"
    sender: str = "ann"


# What a person writes waits for the one before: until that is answered, or is being worked at.
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

LAST = Scene("approved", ("danger: echo approved",), ("", "approved"))  # approved in the last moment
ALL = (*BEFORE, *SCENES, LAST)

# What the database must have in it when it is put away.
STATES = {
    "turns": {"queued", "running", "waiting", "interrupted", "done", "failed", "cancelled"},
    "outbox": {"owed", "sending", "unknown", "sent"},
    "inbox": {"waiting", "taken", "obeyed"},
    "goals": {"active"},
    "processes": {"live"},
    "sessions": {"open", "suspended"},
}
