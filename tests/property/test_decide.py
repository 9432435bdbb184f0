"""`decide()` over whatever may come: always a decision, always the same, never a resume that is forbidden.

Drives `core/recovery/decision`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.journal import (
    Entry,
    Interruption,
    JournalRecord,
    ModelAnswered,
    ModelAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    TokenUsage,
    ToolCall,
    TurnBegan,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnRequeued,
    TurnView,
    decode_entry,
    encode_entry,
    fold,
)
from perdure.core.recovery.decision import (
    AUTO_RESUME_REASONS,
    InterruptionReason,
    RecoveryChoice,
    RecoveryContext,
    RecoveryDecision,
    RecoveryPolicy,
    RecoveryRule,
    Tail,
    decide,
    tail_of,
)
from perdure.core.states import TURN_MOVES, SessionState
from support.journals import (
    ADA,
    TICK_MS,
    answer_with_text,
    began,
    claimed,
    ended,
    interruption,
    joined,
    requeue_and_claim,
    started,
)

LATE = 10**14  # milliseconds: far beyond any clock

# ── whatever may come ───────────────────────────────────────────────────────────────────────────────────────

reasons = st.sampled_from([*InterruptionReason] * 3 + ["act_of_god", ""])
finishes = st.sampled_from(["stop", "end_turn", "length", "error", "", None])
usages = st.builds(TokenUsage, st.integers(0, 10**6), st.integers(0, 10**6))
QUESTION = QuestionAsked("q1", "Which?")


def calls(draw: st.DrawFn, view: TurnView) -> ModelAnswered:
    """A response with calls whose ids are new in the turn."""
    first = len(view.calls)
    wishes = tuple(ToolCall(f"c{n}", "look", {}) for n in range(first, first + draw(st.integers(1, 3))))
    return ModelAnswered(len(view.responses) + 1, "", wishes, draw(finishes), draw(usages))


def facts(draw: st.DrawFn, view: TurnView) -> list[Callable[[], Entry]]:
    """What may be journalled next, be it a move or not."""
    steps: list[Callable[[], Entry]] = [
        lambda: ModelAsked(1, "m"),
        lambda: RecoveryNoted("[note]"),
        lambda: joined("hurry"),
        lambda: RecoveryDecided(draw(st.sampled_from(RecoveryChoice)), "why"),
        lambda: calls(draw, view),
        lambda: ModelAnswered(1, "so", (), draw(finishes), draw(usages)),
    ]
    for call in view.open_calls[:2]:
        steps += [partial(started, call.request.id), partial(ended, call.request.id)]
    moving: list[Callable[[], Entry]] = [
        lambda: claimed(view.attempt + 1),
        lambda: interruption(draw(reasons)),
        lambda: QUESTION,
        lambda: QuestionAnswered("q1", "this", ADA),
        TurnRequeued,
        lambda: TurnFinished("bye"),
        lambda: TurnFailed("no"),
        lambda: TurnCancelled("stopped"),
    ]
    return steps + moving


@st.composite
def folded(draw: st.DrawFn) -> TurnView:
    """A turn with any journal that the gateway may have written, cut off at any point."""
    view = TurnView()

    def write(entry: Entry) -> None:
        if entry.move is None or entry.move in TURN_MOVES[view.state]:
            seq = len(view.records) + 1
            view.apply(JournalRecord(seq, seq * TICK_MS, entry))

    write(draw(st.sampled_from([began("go")] * 3 + [began("one", "two"), TurnBegan(())])))
    write(claimed())
    for _ in range(draw(st.integers(0, 12))):
        write(draw(st.sampled_from(facts(draw, view)))())
    write(interruption(draw(reasons)))
    return view


interruptions = st.lists(
    st.builds(Interruption, reasons, st.integers(0, LATE), st.integers(1, 10**6), st.booleans()), max_size=12
)


@st.composite
def any_view(draw: st.DrawFn) -> TurnView:
    """A turn of any journal, or one whose interruptions and cost are like those of no journal at all."""
    view = draw(folded())
    if draw(st.booleans()):
        return view
    return msgspec.structs.replace(view, interruptions=draw(interruptions), tokens=draw(st.integers(0, 10**9)))


mostly_true, mostly_false = st.sampled_from([True] * 9 + [False]), st.sampled_from([False] * 9 + [True])
now_and_then = st.integers(0, 10**4)
times = now_and_then | now_and_then | now_and_then | st.integers(0, LATE)
surroundings = st.builds(
    RecoveryContext,
    session=st.sampled_from([SessionState.OPEN] * 9 + [SessionState.SUSPENDED, SessionState.CLOSED]),
    last_sign_of_life=times | times | times | st.none(),
    has_address=mostly_true,
    authorised=mostly_true,
    connected=mostly_true,
    attached_alive=mostly_false,
    paused=mostly_false,
)
policies = st.builds(
    RecoveryPolicy,
    policy=st.sampled_from(["auto"] * 6 + ["ask", "off"]),
    freshness_ms=st.sampled_from([0, 0, 1, 3_600_000, LATE]) | st.integers(0, LATE),
    max_without_progress=st.integers(1, 5),
    max_interruptions=st.integers(1, 12),
    max_tokens=st.none() | st.none() | st.integers(1, 10**7),
)


# ── what holds whatever comes ───────────────────────────────────────────────────────────────────────────────


@settings(max_examples=150)
@given(view=any_view(), around=surroundings, policy=policies, now=times)
def test_every_turn_gets_a_decision_with_a_reason_and_evidence(
    view: TurnView, around: RecoveryContext, policy: RecoveryPolicy, now: int
) -> None:
    """B42: total, and nothing is decided without words."""
    decision = decide(view, around, policy, now)
    assert isinstance(decision, RecoveryDecision)
    assert isinstance(decision.choice, RecoveryChoice)
    assert isinstance(decision.rule, RecoveryRule)
    assert decision.why.strip()
    journalled = RecoveryDecided(decision.choice, decision.why, evidence=decision.evidence, rule=decision.rule)
    assert decode_entry("decided", 1, encode_entry(journalled)) == journalled


@given(view=any_view(), around=surroundings, policy=policies, now=times)
def test_decision_is_the_same_whenever_it_is_made_and_changes_nothing(
    view: TurnView, around: RecoveryContext, policy: RecoveryPolicy, now: int
) -> None:
    before = msgspec.json.encode(view)
    assert decide(view, around, policy, now) == decide(view, around, policy, now)
    assert msgspec.json.encode(view) == before


Case = tuple[TurnView, RecoveryContext, RecoveryPolicy, int]


def is_stale(view: TurnView, around: RecoveryContext, policy: RecoveryPolicy, now: int) -> bool:
    sign = around.last_sign_of_life
    old = sign is None or now - sign > policy.freshness_ms
    return policy.freshness_ms > 0 and old and not around.attached_alive


def is_over_budget(view: TurnView, around: RecoveryContext, policy: RecoveryPolicy, now: int) -> bool:
    spent = policy.max_tokens is not None and view.tokens >= policy.max_tokens
    stuck = view.without_progress >= policy.max_without_progress and not around.attached_alive
    return spent or stuck or len(view.interruptions) >= policy.max_interruptions


RESUMABLE_TAILS = {Tail.MESSAGE, Tail.OPEN_CALL, Tail.RESULT, Tail.TRUNCATED}
FORBIDDING: dict[str, Callable[[TurnView, RecoveryContext, RecoveryPolicy, int], bool]] = {
    "its session is not open": lambda view, around, policy, now: around.session is not SessionState.OPEN,
    "it ends with nothing that waits for the agent": lambda view, around, policy, now: (
        tail_of(view) not in RESUMABLE_TAILS
    ),
    "it has no address": lambda view, around, policy, now: not around.has_address,
    "it was cut off for no reason that we know": lambda view, around, policy, now: (
        view.last_interruption is None or view.last_interruption.reason not in AUTO_RESUME_REASONS
    ),
    "its sender is not authorised": lambda view, around, policy, now: not around.authorised,
    "it is stale": is_stale,
    "it is over a budget": is_over_budget,
    "the policy is another": lambda view, around, policy, now: policy.policy != "auto",
    "resuming is paused": lambda view, around, policy, now: around.paused,
    "its platform is not connected": lambda view, around, policy, now: not around.connected,
}


@settings(max_examples=250)
@given(view=any_view(), around=surroundings, policy=policies, now=times)
def test_turn_goes_on_by_itself_exactly_when_nothing_forbids_it(
    view: TurnView, around: RecoveryContext, policy: RecoveryPolicy, now: int
) -> None:
    """B42: automatic resume needs all of these, and no more."""
    forbidden = [why for why, holds in FORBIDDING.items() if holds(view, around, policy, now)]
    resumes = decide(view, around, policy, now).choice is RecoveryChoice.RESUME
    assert resumes == (not forbidden), forbidden


@given(view=any_view(), around=surroundings, policy=policies, now=times)
def test_answer_that_is_written_is_delivered_and_an_empty_turn_is_cleared(
    view: TurnView, around: RecoveryContext, policy: RecoveryPolicy, now: int
) -> None:
    """B44: whatever the surroundings and the policy are."""
    choice = decide(view, around, policy, now).choice
    assert (choice is RecoveryChoice.DELIVER) == (tail_of(view) is Tail.FINAL)
    assert (choice is RecoveryChoice.CLEAR) == (tail_of(view) is Tail.NOTHING)


# ── a turn that goes on, and what stops it ──────────────────────────────────────────────────────────────────


@st.composite
def going_on(draw: st.DrawFn) -> Case:
    """A turn that goes on by itself."""
    unfinished = [began("go"), claimed(), answer_with_text("Once upon", finish="length")]
    view = fold(
        JournalRecord(n, n * TICK_MS, entry)
        for n, entry in enumerate([*unfinished, interruption(draw(st.sampled_from(InterruptionReason)))], 1)
    )
    age, now = draw(st.integers(-LATE, 3_600_000)), draw(st.integers(LATE, 2 * LATE))
    return view, RecoveryContext(last_sign_of_life=now - age), RecoveryPolicy(), now


Spoil = Callable[[Case], Case]


def around_with(**known: object) -> Spoil:
    return lambda case: (case[0], msgspec.structs.replace(case[1], **known), case[2], case[3])


def policy_with(**wished: object) -> Spoil:
    return lambda case: (case[0], case[1], msgspec.structs.replace(case[2], **wished), case[3])


SPOILS: dict[str, Spoil] = {
    "suspended": around_with(session=SessionState.SUSPENDED),
    "closed": around_with(session=SessionState.CLOSED),
    "no address": around_with(has_address=False),
    "unauthorised": around_with(authorised=False),
    "no sign of life": around_with(last_sign_of_life=None),
    "stale": around_with(last_sign_of_life=0),
    "paused": around_with(paused=True),
    "not connected": around_with(connected=False),
    "off": policy_with(policy="off"),
    "ask": policy_with(policy="ask"),
    "too expensive": policy_with(max_tokens=15),
    "too often": policy_with(max_interruptions=1),
}


@given(case=going_on(), spoils=st.lists(st.sampled_from(sorted(SPOILS)), max_size=3))
def test_turn_goes_on_until_anything_speaks_against_it(case: Case, spoils: list[str]) -> None:
    for spoil in spoils:
        case = SPOILS[spoil](case)
    assert (decide(*case).choice is RecoveryChoice.RESUME) == (not spoils)


@given(case=going_on(), later=st.integers(0, LATE))
def test_stale_turn_stays_stale_as_time_goes_by(case: Case, later: int) -> None:
    view, _, policy, now = case
    old = RecoveryContext(last_sign_of_life=now - policy.freshness_ms - 1)
    assert decide(view, old, policy, now + later).choice is RecoveryChoice.SKIP


@given(view=folded(), starts=st.integers(1, 6))
def test_sign_of_life_stays_where_it_was_when_attempts_add_nothing(view: TurnView, starts: int) -> None:
    """B43: marks, decisions, notes and attempts that added nothing never count."""
    content, run, tail = list(view.content), view.content_run, tail_of(view)
    for attempt in range(starts):
        marks = (
            RecoveryDecided("resume", "why"),
            *requeue_and_claim(attempt + 2, f"r{attempt + 2}"),
            RecoveryNoted("[note]"),
            interruption(),
        )
        for entry in marks:
            if entry.move is None or entry.move in TURN_MOVES[view.state]:
                seq = len(view.records) + 1
                view.apply(JournalRecord(seq, seq * TICK_MS, entry))
    assert (view.content, view.content_run, tail_of(view)) == (content, run, tail)
