"""What a drill notes during its rounds and checks in the journal, and the report made of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.entries import Entry, ModelAsked, RecoveryNoted, TurnClaimed, TurnInterrupted
from perdure.store.audit import StoreAudit, TurnEpochs
from perdure.testing.drill.scenarios import DrillChat, ExecutionTraces

INTERRUPTION_PREFIX = "This turn was cut off by "


def find_wrong_notes(entries: Iterable[tuple[str, Entry]]) -> Iterator[tuple[str, str]]:
    """Return the turns whose agent had no note of an interruption, or one too many, each with the reason.

    After an interruption the model is not asked again before exactly one note has told it of the cause.
    """
    due: dict[str, str] = {}  # by turn: the reason of an interruption without a note so far
    for turn, entry in entries:
        match entry:
            case TurnInterrupted(reason=reason):
                due[turn] = reason
            case RecoveryNoted(text=text) if INTERRUPTION_PREFIX in text:
                if turn not in due:
                    yield turn, "the agent was told of an interruption again, or of none"
                elif (cause := texts.recovery.cause(due.pop(turn))) not in text:
                    yield turn, f"the agent was not told that {cause} was the cause"
            case ModelAsked() if turn in due:
                yield turn, f"the model was asked again, and not told of {texts.recovery.cause(due.pop(turn))}"


def find_stale_epochs(found: Iterable[TurnEpochs]) -> dict[str, str]:
    """Return the turns that another run took over without a new epoch, each with the reason."""
    stale = {}
    for each in found:
        claimed = [entry.epoch for entry in each.entries if isinstance(entry, TurnClaimed)]
        last = each.entries[-1] if each.entries else None
        if claimed != sorted(set(claimed)):
            stale[each.turn] = f"the epochs of its claims do not grow: {claimed}"
        elif claimed and isinstance(last, TurnInterrupted) and last.run and each.epoch <= claimed[-1]:
            stale[each.turn] = f"it was taken over and has epoch {each.epoch}, as before"
    return stale


class RoundRecord:
    """The observations of all rounds so far, to be compared with the state at the end of the drill."""

    def __init__(self) -> None:
        self.conversations: list[DrillChat] = []
        # By call: its chat, and how often the call had run when it was finished.
        self.finished_calls: dict[str, tuple[str, int]] = {}
        # By turn: its chat, and how many final answers the turn had at the kill.
        self.final_answers: dict[str, tuple[str, int]] = {}
        self.seen_at_round_end: dict[str, int] = {}  # by chat: how many messages people had seen by then
        self.stale_epochs: dict[str, str] = {}  # by turn: what was wrong with its epoch after a take-over
        self._kill_points: dict[str, str] = {}  # by chat: where the gateway was killed
        self._last_turn = ""  # the id of the last turn of earlier rounds

    def begin_round(self, conversations: Sequence[DrillChat], points: Sequence[object]) -> None:
        self.conversations += conversations
        self._kill_points |= {each.chat: ", then ".join(map(str, points)) for each in conversations}

    async def note_kill(self, store: StoreAudit, traces: ExecutionTraces) -> None:
        """Record what was finished when the gateway was killed: none of it may run again."""
        calls = await store.calls(self._last_turn)
        # After the calls: another gateway may go on, and what runs between the two looks is not finished here.
        runs_by_key, chats = traces.runs_by_key(), await chats_by_turn(store, self._last_turn)
        for call in calls:
            if call.ended is not None:
                self.finished_calls.setdefault(call.key, (chats[call.turn], runs_by_key[call.key]))
        for turn, count in (await store.final_answers(self._last_turn)).items():
            self.final_answers.setdefault(turn, (chats[turn], count))
        self.stale_epochs |= find_stale_epochs(await store.epochs(self._last_turn))

    async def end_round(self, store: StoreAudit, seen: Mapping[str, int]) -> None:
        """Record how many messages people have seen in each chat of the round; no further message may come."""
        turns = await store.turns(self._last_turn)
        self._last_turn = max([self._last_turn, *(turn.id for turn in turns)])
        self.seen_at_round_end |= seen

    def describe_chat(self, chat: str) -> str:
        """Name a chat, and where the gateway was killed in the chat's round."""
        return f"{chat} (killed {self._kill_points[chat]})" if chat in self._kill_points else chat


async def chats_by_turn(store: StoreAudit, since: str = "") -> dict[str, str]:
    """Return the name of the chat of each turn after the turn `since`."""
    return {turn.id: chat_of_key(turn.key) for turn in await store.turns(since)}


def chat_of_key(key: str) -> str:
    """Return the name of the chat of a session key."""
    return split_session_key(key)[1].chat


# The counts that must be zero, each with its meaning; any other value fails the drill.
FAULTS = {
    "lost": "messages that were never answered",
    "repeated": "finished steps, effects or commands that ran again",
    "duplicates": "answers seen twice, without a mark that says so",
    "phantoms": "turns and messages that nobody asked for",
    "stuck": "turns that never came to an end",
    "notes": "notes on a crash that the agent missed, or had in vain",
    "epochs": "turns that were taken over without a new epoch",
}
# The same, where several gateways share a database.
GROUP_FAULTS = FAULTS | {"stranded": "chats left alone, though a gateway could serve them"}
UNKNOWN = "unknown"


class Waits(Struct, frozen=True):
    """The median and the longest of some durations, in seconds."""

    median: float
    longest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Waits:
        return cls(round(statistics.median(seconds), 3), round(max(seconds), 3)) if seconds else cls(0.0, 0.0)


class Report(Struct, frozen=True, kw_only=True):
    kills: int
    turns: int
    lost: int
    repeated: int
    duplicates: int
    phantoms: int
    stuck: int
    notes: int
    epochs: int
    unknown: int
    at_rest: int  # kills of an idle gateway, also because a point was not reached
    given_up: int  # messages whose turn was given up, as configured, with a notice
    by_hand: int  # how often people had to say /resume, as configured
    seed: int | None  # None for a sweep
    seconds: float  # duration of the drill
    ready: Waits  # from a start after a kill until the gateway is ready
    answered: Waits  # from then until the gateway is idle
    points: list[str]
    findings: dict[str, list[str]]  # by the name of a count: its findings in words
    home: str | None = None  # the directory of a failed drill
    gateways: int = 1
    faults: dict[str, int] = {}  # what was done to several gateways and their database, by its kind
    stranded: int = 0
    stayed: int = 0  # turns that went on elsewhere, and whose agent was told that files or commands stayed behind
    silence: float = 0.0  # the longest time, in seconds, that somebody waited and heard nothing
    silence_at: str = ""  # in which chat, and what had been done then
    left_out: list[str] = []  # what could not be done, and why

    @property
    def failed(self) -> bool:
        return any(getattr(self, name) for name in GROUP_FAULTS)
