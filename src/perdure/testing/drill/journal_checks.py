"""Checks of the journal by a drill: recovery notes after interruptions, and growing epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perdure.core import texts
from perdure.core.entries import Entry, ModelAsked, RecoveryNoted, TurnClaimed, TurnInterrupted
from perdure.store.audit import TurnEpochs

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
