"""Explains recovery in sentences: what was found, which rule applied and what happens next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from perdure.core import texts
from perdure.core.journal import RecoveryDecided, TurnCancelled, TurnFailed, TurnInterrupted, TurnView, fold
from perdure.core.recovery.decision import ALONE_EVIDENCE, HELD_BACK_RULES, RecoveryChoice, Tail, tail_of
from perdure.core.states import FINAL_STATES, CancelReason, RecoveryState, SessionState, TurnState

NEXT_RESUMES = "it goes on from where it was."
NEXT_SUPERSEDED = "it stays as it is: /resume goes on with it, /drop gives it up, a new message leaves it behind."
NEXT_STAYS = "it stays as it is: /resume or a new message goes on with it, /drop gives it up."

NEXT_STEPS: dict[str, str] = {
    RecoveryChoice.RESUME: NEXT_RESUMES,
    RecoveryChoice.WAIT_FOR_USER: "it waits for the answer to its question.",
    RecoveryChoice.ASK_USER: "it waits for a person: /resume or a new message goes on with it, /drop gives it up.",
    RecoveryChoice.WAIT_FOR_PLATFORM: "it goes on once its platform is connected.",
}

# What each choice means, where nothing is known of what came since.
CHOICE_MEANINGS: dict[str, str] = {
    RecoveryChoice.RESUME: NEXT_RESUMES,
    RecoveryChoice.DELIVER: "its answer is delivered; nothing is run again.",
    RecoveryChoice.CLEAR: "the mark is cleared; nothing is run.",
    RecoveryChoice.WAIT_FOR_USER: "its question stays open until a person answers.",
    RecoveryChoice.ASK_USER: "a person is asked first: /resume or /drop.",
    RecoveryChoice.WAIT_FOR_PLATFORM: "it goes on once its platform is connected.",
    RecoveryChoice.SKIP: "it stays as it is until a person says more.",
    RecoveryChoice.SUSPEND: (
        "the session is suspended; the next message begins a fresh one, /resume brings it back."
    ),
}

CANCELLATIONS: dict[str, str] = {
    CancelReason.STOPPED: "it was stopped for good.",
    CancelReason.DROPPED: "it was given up.",
    CancelReason.RESET: "a fresh conversation was begun in its place.",
    CancelReason.CLEARED: "the mark was cleared, and nothing was run.",
    CancelReason.SUSPENDED: (
        "the session was suspended; the next message begins a fresh one, /resume brings it back."
    ),
    CancelReason.SUPERSEDED: "a new message took its place.",
    CancelReason.REPLACED: "a new message interrupted it for good, as messages do here (`/queue interrupt`).",
}

TURN_STATES = {
    TurnState.QUEUED: "is about to run",
    TurnState.RUNNING: "is running",
    TurnState.WAITING: "waits for an answer from a person",
    TurnState.INTERRUPTED: "was interrupted",
    TurnState.DONE: "is done",
    TurnState.FAILED: "failed",
    TurnState.CANCELLED: "was ended",
}


class SessionSnapshot(Struct, frozen=True):
    """The state of a session that an explanation needs."""

    state: SessionState
    recovery: RecoveryState
    turns: Sequence[TurnView]
    turns_ahead: int | None = None  # turns that get a slot before its last turn; None: it waits for no slot
    unconfirmed_replies: int = 0  # replies that the platform has not confirmed
    waiting_messages: int = 0  # messages that wait for their turn


def explain_snapshot(snapshot: SessionSnapshot, now: int) -> list[str]:
    """Explain the state of a session, one sentence per line."""
    lines = [] if snapshot.state is SessionState.OPEN else [f"The session is {snapshot.state}."]
    if not snapshot.turns:
        return [*lines, texts.chat_commands.NOTHING_HAPPENED]
    lines += _last_turn_sentences(snapshot.turns[-1], now, snapshot.turns_ahead)
    lines.append(_mark_sentence(snapshot))
    if snapshot.unconfirmed_replies:
        lines.append(f"{_count(snapshot.unconfirmed_replies)} owed to the chat and not confirmed yet.")
    if snapshot.waiting_messages:
        lines.append(
            f"{_count(snapshot.waiting_messages)} waiting for "
            f"{'its' if snapshot.waiting_messages == 1 else 'their'} turn."
        )
    return lines


def _mark_sentence(snapshot: SessionSnapshot) -> str:
    if not snapshot.recovery.resume_pending:
        return "Nothing is marked to be resumed."
    if snapshot.state is not SessionState.OPEN:
        return f"Its mark ({snapshot.recovery.resume_reason}) stays, but nothing goes on by itself."
    return f"The session is marked to be resumed ({snapshot.recovery.resume_reason})."


def _last_turn_sentences(view: TurnView, now: int, ahead: int | None) -> list[str]:
    lines = [f"The last turn {TURN_STATES[view.state]} (attempt {view.attempt}).", *_verdict_sentences(view)]
    if view.last_interruption is None:
        return [*lines, "It was never interrupted.", *_outcome_sentences(view)]
    lines.append(_interruption_sentence(view, now))
    if view.last_decision is not None:
        lines.append(f"Rule: {view.last_decision.rule or view.last_decision.decision}: {view.last_decision.why}.")
    return [
        *lines,
        *(_outcome_sentences(view) if view.state in FINAL_STATES else [f"Next: {_next_step(view, ahead)}"]),
    ]


def _verdict_sentences(view: TurnView) -> list[str]:
    """Who approved or denied which calls of the turn."""
    return [
        texts.questions.decided(answer.text if answer.chosen else "", view.calls[call].request.tool, answer)
        for call, answer in view.verdicts.items()
        if call in view.calls
    ]


def _interruption_sentence(view: TurnView, now: int) -> str:
    last = view.interruptions[-1]
    count, when = len(view.interruptions), f"{texts.phrases.duration(now - last.at)} ago"
    often = f"once, {when}," if count == 1 else f"{count} times, the last time {when},"
    cause = f"{texts.recovery.cause(last.reason)} ({last.reason})"
    return f"Found: interrupted {often} by {cause}; it ended with {_tail_when_interrupted(view)}."


def _tail_when_interrupted(view: TurnView) -> Tail:
    """The tail of the turn at its last interruption, whatever has come since."""
    last = max(n for n, record in enumerate(view.records) if isinstance(record.entry, TurnInterrupted))
    return tail_of(fold(view.records[:last]))


def explain_decision(decided: RecoveryDecided, reason: str) -> list[str]:
    """Explain one decision: what was found, which rule applied, and what that means. One sentence per line."""
    found = decided.evidence
    tail = f"; it ended with {found['tail']}" if found.get("tail") else ""
    lines = [f"Found: {texts.recovery.cause(reason)} ({reason}){tail}.", *_evidence(found)]
    lines.append(
        f"Rule: {texts.recovery.RULES.get(decided.rule, decided.rule or decided.decision)}: {decided.why}."
    )
    return [*lines, f"Choice: {CHOICE_MEANINGS.get(decided.decision, decided.decision)}"]


def _evidence(evidence: dict[str, Any]) -> list[str]:
    """The evidence of a decision, as far as it says more than that the turn was interrupted."""
    age, often, stuck, tokens = (
        evidence.get(name) for name in ("age_ms", "interruptions", "without_progress", "tokens")
    )
    facts = [f"the last sign of life was {texts.phrases.duration(age)} before"] if isinstance(age, int) else []
    if isinstance(often, int) and often:
        row = f", the last {stuck} in a row without progress" if isinstance(stuck, int) and stuck > 1 else ""
        facts.append(f"it was interrupted {texts.phrases.times(often)} in all{row}")
    if tokens:
        facts.append(f"it had used {tokens} tokens")
    return [f"Evidence: {'; '.join(facts)}."] if facts else []


def _next_step(view: TurnView, ahead: int | None) -> str:
    if ahead is not None:
        alone = view.last_decision is not None and bool(view.last_decision.evidence.get(ALONE_EVIDENCE))
        return texts.recovery.waits_for_slot(ahead, alone=alone)
    match view.state, view.last_decision:
        case TurnState.INTERRUPTED, None:
            return "a decision is made once its platform is connected."
        case TurnState.INTERRUPTED, RecoveryDecided(decision=decision, rule=rule):
            return NEXT_STEPS.get(decision, NEXT_SUPERSEDED if rule in HELD_BACK_RULES else NEXT_STAYS)
        case TurnState.WAITING, _:
            return NEXT_STEPS[RecoveryChoice.WAIT_FOR_USER]
        case _:
            return NEXT_RESUMES


def _outcome_sentences(view: TurnView) -> list[str]:
    """How the turn ended, where its state does not say it."""
    undone = ["It was taken back since: the model does not see it any more."] if view.undone else []
    return [*_ending_sentences(view), *undone]


def _ending_sentences(view: TurnView) -> list[str]:
    match view.ended:
        case TurnFailed(error=error):
            return [f"Then: it failed: {error}"]
        case TurnCancelled(why=why):
            return [f"Then: {CANCELLATIONS.get(why, f'it was ended ({why}).')}"]
        case _ if view.last_decision is None:
            return []
        case _ if view.last_decision.decision == RecoveryChoice.DELIVER:
            return ["Then: its answer was delivered; nothing was run again."]
        case _:
            return ["Then: it went on from where it was, and finished."]


def _count(messages: int) -> str:
    return "1 message is" if messages == 1 else f"{messages} messages are"
