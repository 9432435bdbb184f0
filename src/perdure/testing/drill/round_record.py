"""Records what a drill observes during its rounds: kills, finished calls, final answers and what people saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from perdure.core.address import split_session_key
from perdure.store.audit import StoreAudit
from perdure.testing.drill.journal_checks import find_stale_epochs
from perdure.testing.drill.points import Point
from perdure.testing.drill.scenarios import DrillChat


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

    def begin_round(self, conversations: Sequence[DrillChat], points: Sequence[Point]) -> None:
        self.conversations += conversations
        self._kill_points |= {each.chat: ", then ".join(map(str, points)) for each in conversations}

    async def note_kill(self, store: StoreAudit, runs_by_key: Counter[str]) -> None:
        """Record what was finished when the gateway was killed: none of it may run again."""
        chats = await chats_by_turn(store, self._last_turn)
        for call in await store.calls(self._last_turn):
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
