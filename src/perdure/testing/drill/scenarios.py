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
RUNS_FILE = "runs"  # the file to which commands add a line each time they run


SCENARIOS = (
    *("steps", "once", "command", "question", "approval", "process", "seen", "queue", "growing", "failure"),
    "missed",
)


class DrillChat(Struct, frozen=True):
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


def answer_mark(chat: str, number: int = 1) -> str:
    """What an answer says; nothing else does."""
    return f"[answer-{number}-in-{chat}]"


def chats_of_round(round_number: int) -> list[DrillChat]:
    """The conversations of one round, on one platform after the other."""
    made = [_make_chat(name, f"{round_number}-{name}") for name in SCENARIOS]
    names = list(PLATFORMS)
    return [replace(talk, platform=names[(round_number + place) % len(names)]) for place, talk in enumerate(made)]


def _make_chat(name: str, chat: str) -> DrillChat:
    says, marks = f"say: {answer_mark(chat)}", (answer_mark(chat),)
    match name:
        case "steps":
            script = f"step {chat}-a 0.02s\nparallel: {chat}-b, {chat}-c\n{says}"
            return DrillChat(
                chat, (script,), (*marks, answer_mark(chat, 2)), late=(f"say: {answer_mark(chat, 2)}",)
            )
        case "once":
            return DrillChat(chat, (f"once {chat}-a 0.05s\n{says}",), marks, once=(f"{chat}-a",))
        case "command":
            script = f"run: echo {chat} >> {RUNS_FILE}; sleep 0.2; echo ran\n{says}"
            return DrillChat(chat, (script,), marks, commands=(chat,))
        case "question":
            script = f"ask: Which way in {chat}? | Left | Right\nonce {chat}-go 0.02s\n{says}"
            return DrillChat(chat, (script,), marks, once=(f"{chat}-go",))
        case "approval":
            return DrillChat(
                chat, (f"danger: echo {chat} >> {RUNS_FILE}; echo ran\n{says}",), marks, commands=(chat,)
            )
        case "process":
            script = f"background: echo {chat} >> {RUNS_FILE}; sleep 0.2\n{says}"
            return DrillChat(chat, (script,), marks, commands=(chat,), told=(f"echo {chat} >>",))
        case "seen":
            script = f"background: echo {chat} >> {RUNS_FILE}; sleep 0.1\nprocess: wait\n{says}"
            return DrillChat(chat, (script,), marks, commands=(chat,))
        case "queue":
            return DrillChat(
                chat,
                (f"step {chat}-a 0.03s\n{says}", f"say: {answer_mark(chat, 2)}"),
                (*marks, answer_mark(chat, 2)),
            )
        case "growing":
            return DrillChat(chat, (f"stream: Done: {answer_mark(chat)}",), marks)
        case "failure":
            return DrillChat(chat, (f"step {chat}-a 0s\nfail: {answer_mark(chat)}",), marks)
        case _:
            return DrillChat(chat, (), marks, late=(f"once {chat}-a 0s\n{says}",), once=(f"{chat}-a",))
