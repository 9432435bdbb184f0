"""What people and the agent talk about in a drill: conversations that leave a trace of whatever is done."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from perdure.platforms.api import Capabilities

# A platform of each kind: what it can tell decides what becomes of a send that was cut off.
PLATFORMS = {
    "keyed": Capabilities(idempotent_send=True, keeps_missed=True, buttons=True, edit=True, edit_every=0.1),
    "readable": Capabilities(read_back=True, keeps_missed=True, buttons=True),
    "plain": Capabilities(keeps_missed=True),
}
RUNS = "runs"  # the file to which commands add a line each time they run


SCENES = (
    *("steps", "once", "command", "question", "approval", "process", "seen", "queue", "growing", "failure"),
    "missed",
)


class Talk(Struct, frozen=True):
    """A conversation in a chat of its own."""

    chat: str
    texts: tuple[str, ...]  # what a person writes, at once
    marks: tuple[str, ...]  # what they must see once each, in the order of the texts
    late: tuple[str, ...] = ()  # what they write while the gateway is down
    once: tuple[str, ...] = ()  # names of steps that must not be repeated
    commands: tuple[str, ...] = ()  # names that commands leave in `RUNS`
    told: tuple[str, ...] = ()  # what else they must be told once each: ends of processes
    platform: str = "keyed"

    @property
    def turns(self) -> int:
        """The most turns that there may be."""
        return len(self.texts) + len(self.late) + len(self.told)


def mark(chat: str, number: int = 1) -> str:
    """What an answer says; nothing else does."""
    return f"[answer-{number}-in-{chat}]"


def talks(round_number: int) -> list[Talk]:
    """The conversations of one round, on one platform after the other."""
    made = [_made(name, f"{round_number}-{name}") for name in SCENES]
    names = list(PLATFORMS)
    return [replace(talk, platform=names[(round_number + place) % len(names)]) for place, talk in enumerate(made)]


def _made(name: str, chat: str) -> Talk:
    says, marks = f"say: {mark(chat)}", (mark(chat),)
    match name:
        case "steps":
            script = f"step {chat}-a 0.02s\nparallel: {chat}-b, {chat}-c\n{says}"
            return Talk(chat, (script,), (*marks, mark(chat, 2)), late=(f"say: {mark(chat, 2)}",))
        case "once":
            return Talk(chat, (f"once {chat}-a 0.05s\n{says}",), marks, once=(f"{chat}-a",))
        case "command":
            script = f"run: echo {chat} >> {RUNS}; sleep 0.2; echo ran\n{says}"
            return Talk(chat, (script,), marks, commands=(chat,))
        case "question":
            script = f"ask: Which way in {chat}? | Left | Right\nonce {chat}-go 0.02s\n{says}"
            return Talk(chat, (script,), marks, once=(f"{chat}-go",))
        case "approval":
            return Talk(chat, (f"danger: echo {chat} >> {RUNS}; echo ran\n{says}",), marks, commands=(chat,))
        case "process":
            script = f"background: echo {chat} >> {RUNS}; sleep 0.2\n{says}"
            return Talk(chat, (script,), marks, commands=(chat,), told=(f"echo {chat} >>",))
        case "seen":
            script = f"background: echo {chat} >> {RUNS}; sleep 0.1\nprocess: wait\n{says}"
            return Talk(chat, (script,), marks, commands=(chat,))
        case "queue":
            return Talk(chat, (f"step {chat}-a 0.03s\n{says}", f"say: {mark(chat, 2)}"), (*marks, mark(chat, 2)))
        case "growing":
            return Talk(chat, (f"stream: Done: {mark(chat)}",), marks)
        case "failure":
            return Talk(chat, (f"step {chat}-a 0s\nfail: {mark(chat)}",), marks)
        case _:
            return Talk(chat, (), marks, late=(f"once {chat}-a 0s\n{says}",), once=(f"{chat}-a",))
