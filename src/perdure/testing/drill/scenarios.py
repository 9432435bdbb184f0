"""The conversations of a drill, and the traces that their steps and commands leave in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perdure.platforms.api import Capabilities


class ExecutionTraces:
    """Counts runs of steps and commands. The files are polled, so only their new lines are read."""

    def __init__(self, homes: Sequence[Path]) -> None:
        """`homes` are those of all gateways."""
        self._steps = [_GrowingFile(home / "rehearsal.log") for home in homes]
        self._commands = [_GrowingFile(home / "workspace" / RUNS_FILE) for home in homes]

    def started_count(self) -> int:
        """Count the steps and commands that have begun."""
        return len(_lines(self._steps)) + self.commands_started_count()

    def commands_started_count(self) -> int:
        """Count the commands that have begun."""
        return len(_lines(self._commands))

    def runs_by_key(self) -> Counter[str]:
        """Count the runs of each call of a step, by its key."""
        return Counter(line.split()[1] for line in _lines(self._steps))

    def runs_by_name(self) -> Counter[str]:
        """Count the runs of each step and each command, by its name."""
        return Counter(line.split()[0] for line in _lines(self._steps) + _lines(self._commands))


class _GrowingFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._lines: list[str] = []

    def lines(self) -> list[str]:
        if self._path.exists() and self._path.stat().st_size > self._read_bytes:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                whole = file.read().rpartition(b"\n")[0]
            self._read_bytes += len(whole) + 1 if whole else 0
            self._lines += whole.decode().splitlines()
        return self._lines


def _lines(files: Sequence[_GrowingFile]) -> list[str]:
    return [line for file in files for line in file.lines()]


# One platform of each kind: its capabilities decide how an interrupted send is resolved.
PLATFORMS = {
    "keyed": Capabilities(idempotent_send=True, keeps_missed=True, buttons=True, edit=True, edit_every=0.1),
    "readable": Capabilities(read_back=True, keeps_missed=True, buttons=True),
    "plain": Capabilities(keeps_missed=True),
}
RUNS_FILE = "runs"  # the file to which every command appends a line


SCENARIOS = (
    *("steps", "once", "command", "question", "approval", "process", "seen", "queue", "growing", "failure"),
    "missed",
)


class DrillChat(Struct, frozen=True):
    """A conversation in a chat of its own."""

    chat: str
    texts: tuple[str, ...]  # messages that a person writes at once
    marks: tuple[str, ...]  # marks that people must see once each, in the order of the texts
    late: tuple[str, ...] = ()  # messages that a person writes while the gateway is down
    once: tuple[str, ...] = ()  # names of steps that must not be repeated
    commands: tuple[str, ...] = ()  # names that commands write to `RUNS_FILE`
    told: tuple[str, ...] = ()  # phrases of exit reports that people must see once each
    platform: str = "keyed"


def answer_mark(chat: str, number: int = 1) -> str:
    """Return the mark that occurs in one answer only."""
    return f"[answer-{number}-in-{chat}]"


def chats_of_round(round_number: int) -> list[DrillChat]:
    """Return the conversations of one round, spread over the platforms."""
    made = [_make_chat(name, f"{round_number}-{name}") for name in SCENARIOS]
    names = list(PLATFORMS)
    return [
        replace(conversation, platform=names[(round_number + place) % len(names)])
        for place, conversation in enumerate(made)
    ]


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
