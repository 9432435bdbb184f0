"""The decision about an interrupted turn: one case for every line of it, in the order of the lines.

Drives `core/recovery/decision`.
"""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.journal import (
    Entry,
    ModelAsked,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    TurnBegan,
    TurnView,
)
from perdure.core.recovery.decision import (
    AUTO_RESUME_REASONS,
    HELD_BACK_RULES,
    InterruptionReason,
    RecoveryChoice,
    RecoveryContext,
    RecoveryDecision,
    RecoveryPolicy,
    RecoveryRule,
    Tail,
    decide,
)
from perdure.core.states import SessionState
from support.journals import (
    answer_with_calls,
    answer_with_text,
    began,
    claimed,
    ended,
    interruption,
    requeue_and_claim,
    started,
    turn_view_of,
)

HOUR = 3_600_000
NOW = 100 * HOUR
ALIVE = NOW - 1_000

FRESH = RecoveryContext(last_sign_of_life=ALIVE)
AUTO = RecoveryPolicy()
MESSAGE = (began(), claimed())
QUESTION = QuestionAsked("q1", "Which?")


def around(**known: object) -> RecoveryContext:
    """Surroundings in which a turn goes on, but for what is named."""
    return msgspec.structs.replace(FRESH, **known)


def policy(**wished: object) -> RecoveryPolicy:
    return msgspec.structs.replace(AUTO, **wished)


def attempts(count: int, *facts: Entry) -> TurnView:
    """A turn that was cut off so many times, each attempt after these facts of its own."""
    entries: list[Entry] = [*MESSAGE]
    for number in range(2, count + 2):
        entries += [*facts, interruption(), *requeue_and_claim(number)]
    return turn_view_of(*entries[:-2])


def decided(
    *facts: Entry, where: RecoveryContext = FRESH, wish: RecoveryPolicy = AUTO, reason: str = "restart_interrupted"
) -> RecoveryDecision:
    """The decision about a turn that was cut off after these facts."""
    return decide(turn_view_of(*facts, interruption(reason)), where, wish, NOW)


# ── the tail ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("facts", "choice"),
    [
        pytest.param([began(), claimed(), answer_with_text()], RecoveryChoice.DELIVER, id="the final answer"),
        pytest.param([TurnBegan(()), claimed()], RecoveryChoice.CLEAR, id="nothing but ours"),
        pytest.param(
            [TurnBegan(()), claimed(), RecoveryNoted("[note]"), ModelAsked(1, "m")],
            RecoveryChoice.CLEAR,
            id="only our notes",
        ),
        pytest.param([began(), claimed()], RecoveryChoice.RESUME, id="an unanswered message"),
        pytest.param([began(), claimed(), answer_with_calls("a")], RecoveryChoice.RESUME, id="a call not begun"),
        pytest.param(
            [began(), claimed(), answer_with_calls("a"), started("a")],
            RecoveryChoice.RESUME,
            id="a call without result",
        ),
        pytest.param(
            [began(), claimed(), answer_with_calls("a"), ended("a")],
            RecoveryChoice.RESUME,
            id="a result without answer",
        ),
        pytest.param(
            [began(), claimed(), answer_with_text(finish="length")], RecoveryChoice.RESUME, id="a response cut off"
        ),
    ],
)
def test_tail_decides_when_nothing_speaks_against_going_on(facts: list[Entry], choice: RecoveryChoice) -> None:
    """B44: one case for every tail."""
    assert decided(*facts).choice is choice


def test_question_waits_for_the_person_when_it_is_open() -> None:
    """B44: a question to the user waits for the user."""
    view = turn_view_of(*MESSAGE, QUESTION)
    assert decide(view, FRESH, AUTO, NOW).choice is RecoveryChoice.WAIT_FOR_USER


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(around(session=SessionState.SUSPENDED), id="suspended"),
        pytest.param(around(authorised=False), id="unauthorised"),
        pytest.param(around(last_sign_of_life=0), id="stale"),
        pytest.param(around(connected=False), id="not connected"),
        pytest.param(around(has_address=False, paused=True), id="without address, while paused"),
    ],
)
def test_final_answer_is_delivered_whatever_else_is_true(where: RecoveryContext) -> None:
    """B44: a final answer already journalled is never run again, and its delivery is owed."""
    assert (
        decided(began(), claimed(), answer_with_text(), where=where, wish=policy(policy="off")).rule
        is RecoveryRule.FINAL_ANSWER
    )


def test_old_question_is_not_stale() -> None:
    """B67: a question waits for a person, never for a clock."""
    assert (
        decide(turn_view_of(*MESSAGE, QUESTION), around(last_sign_of_life=0), AUTO, NOW).rule
        is RecoveryRule.QUESTION
    )


# ── every condition of an automatic resume ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("where", "choice", "rule", "why"),
    [
        pytest.param(
            around(session=SessionState.SUSPENDED),
            RecoveryChoice.SKIP,
            RecoveryRule.NOT_OPEN,
            "is suspended",
            id="suspended",
        ),
        pytest.param(
            around(session=SessionState.CLOSED),
            RecoveryChoice.SKIP,
            RecoveryRule.NOT_OPEN,
            "is closed",
            id="closed",
        ),
        pytest.param(
            around(has_address=False), RecoveryChoice.SKIP, RecoveryRule.NO_ADDRESS, "no address", id="no address"
        ),
        pytest.param(
            around(authorised=False),
            RecoveryChoice.SKIP,
            RecoveryRule.UNAUTHORISED,
            "no longer authorised",
            id="not authorised",
        ),
        pytest.param(
            around(last_sign_of_life=NOW - HOUR - 1),
            RecoveryChoice.SKIP,
            RecoveryRule.STALE,
            "60 min ago",
            id="stale",
        ),
        pytest.param(
            around(last_sign_of_life=None),
            RecoveryChoice.SKIP,
            RecoveryRule.STALE,
            "no sign of life is known",
            id="no sign of life",
        ),
        pytest.param(around(paused=True), RecoveryChoice.SKIP, RecoveryRule.PAUSED, "paused", id="paused"),
        pytest.param(
            around(connected=False),
            RecoveryChoice.WAIT_FOR_PLATFORM,
            RecoveryRule.NOT_CONNECTED,
            "not connected",
            id="not connected",
        ),
    ],
)
def test_turn_does_not_go_on_when_its_surroundings_forbid_it(
    where: RecoveryContext, choice: RecoveryChoice, rule: RecoveryRule, why: str
) -> None:
    """B42: each refusal has its reason, for programs and in words."""
    decision = decided(*MESSAGE, where=where)
    assert (decision.choice, decision.rule) == (choice, rule)
    assert why in decision.why


@pytest.mark.parametrize(
    ("wish", "choice", "rule", "why"),
    [
        pytest.param(policy(policy="off"), RecoveryChoice.SKIP, RecoveryRule.OFF, "switched off here", id="off"),
        pytest.param(policy(policy="ask"), RecoveryChoice.ASK_USER, RecoveryRule.ASK, "ask first", id="ask"),
        pytest.param(
            policy(max_tokens=15), RecoveryChoice.SKIP, RecoveryRule.TOKENS, "reached: 15 of 15 tokens", id="cost"
        ),
        pytest.param(
            policy(max_interruptions=1),
            RecoveryChoice.SUSPEND,
            RecoveryRule.TOO_OFTEN,
            "interrupted once in all",
            id="too often",
        ),
    ],
)
def test_turn_does_not_go_on_by_itself_when_the_policy_forbids_it(
    wish: RecoveryPolicy, choice: RecoveryChoice, rule: RecoveryRule, why: str
) -> None:
    """B42, B55 and B56: the operator's wish, with its reason."""
    decision = decided(*MESSAGE, answer_with_calls("a"), wish=wish)
    assert (decision.choice, decision.rule) == (choice, rule)
    assert why in decision.why


def test_turn_goes_on_when_its_cost_is_below_the_limit() -> None:
    """B56: the limit is reached, not approached."""
    assert decided(*MESSAGE, answer_with_calls("a"), wish=policy(max_tokens=16)).choice is RecoveryChoice.RESUME
    assert decided(*MESSAGE, answer_with_calls("a"), wish=policy(max_tokens=None)).choice is RecoveryChoice.RESUME


@pytest.mark.parametrize("reason", InterruptionReason)
def test_turn_goes_on_by_itself_after_every_known_reason(reason: InterruptionReason) -> None:
    """B42: the auto-resume set."""
    assert decided(*MESSAGE, reason=reason).choice is RecoveryChoice.RESUME


def test_auto_resume_set_is_as_promised() -> None:
    assert sorted(AUTO_RESUME_REASONS) == [
        "lease_lost",
        "restart_interrupted",
        "restart_timeout",
        "shutdown_timeout",
    ]


def test_unknown_reason_is_skipped_and_no_error() -> None:
    """B42: a reason of another version, or of an import."""
    decision = decided(*MESSAGE, reason="act_of_god")
    assert (decision.choice, decision.rule) == (RecoveryChoice.SKIP, RecoveryRule.REASON)
    assert "'act_of_god'" in decision.why


@pytest.mark.parametrize(
    ("where", "wish", "rule"),
    [
        pytest.param(around(last_sign_of_life=0), AUTO, RecoveryRule.STALE, id="stale"),
        pytest.param(around(authorised=False), AUTO, RecoveryRule.UNAUTHORISED, id="unauthorised"),
        pytest.param(FRESH, policy(max_tokens=15), RecoveryRule.TOKENS, id="over its cost limit"),
        pytest.param(FRESH, policy(max_interruptions=1), RecoveryRule.TOO_OFTEN, id="interrupted too often"),
        pytest.param(
            around(paused=True), policy(policy="off"), RecoveryRule.REASON, id="nothing that a message ends"
        ),
    ],
)
def test_unknown_reason_hides_nothing_that_keeps_a_message_from_joining(
    where: RecoveryContext, wish: RecoveryPolicy, rule: RecoveryRule
) -> None:
    """B49: work that is stale, unauthorised or over budget is superseded, whatever cut it off."""
    assert decided(*MESSAGE, answer_with_calls("a"), where=where, wish=wish, reason="act_of_god").rule is rule


def test_turn_that_was_never_interrupted_is_skipped_and_no_error() -> None:
    decision = decide(turn_view_of(*MESSAGE), FRESH, AUTO, NOW)
    assert (decision.choice, decision.rule) == (RecoveryChoice.SKIP, RecoveryRule.REASON)


# ── freshness ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sign", "choice"),
    [
        pytest.param(NOW, RecoveryChoice.RESUME, id="this instant"),
        pytest.param(NOW - HOUR, RecoveryChoice.RESUME, id="exactly as old as allowed"),
        pytest.param(NOW - HOUR - 1, RecoveryChoice.SKIP, id="a millisecond older"),
        pytest.param(NOW + 50 * HOUR, RecoveryChoice.RESUME, id="in the future, when the clock was wrong"),
    ],
)
def test_turn_goes_on_when_its_last_sign_of_life_is_fresh(sign: int, choice: RecoveryChoice) -> None:
    """B43: negative age is zero."""
    assert decided(*MESSAGE, where=around(last_sign_of_life=sign)).choice is choice


def test_age_is_zero_when_the_sign_of_life_is_in_the_future() -> None:
    """B43: and never negative in the evidence."""
    assert decided(*MESSAGE, where=around(last_sign_of_life=NOW + 5)).evidence["age_ms"] == 0


@pytest.mark.parametrize("sign", [0, None], ids=["ancient", "unknown"])
def test_turn_goes_on_at_any_age_when_the_check_is_switched_off(sign: int | None) -> None:
    """B43: 0 switches the check off."""
    wish = policy(freshness_ms=0)
    assert decided(*MESSAGE, where=around(last_sign_of_life=sign), wish=wish).choice is RecoveryChoice.RESUME


@pytest.mark.parametrize("sign", [0, None], ids=["ancient", "unknown"])
def test_turn_is_fresh_when_a_command_of_it_is_still_alive(sign: int | None) -> None:
    """B43: a command still attached and alive is fresh."""
    assert (
        decided(*MESSAGE, where=around(last_sign_of_life=sign, attached_alive=True)).choice
        is RecoveryChoice.RESUME
    )


def test_fresh_mark_does_not_revive_an_old_turn() -> None:
    """B43: marks never count, however new they are; the sign of life alone does."""
    marks = (RecoveryDecided("resume", "why"), *requeue_and_claim(), RecoveryNoted("[note]"))
    facts = (*MESSAGE, interruption(), *marks, interruption(), *requeue_and_claim(3))
    old = around(last_sign_of_life=NOW - 2 * HOUR)
    assert (
        decide(turn_view_of(*facts, interruption(), first=NOW // 1_000), old, AUTO, NOW).choice
        is RecoveryChoice.SKIP
    )


# ── budgets ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("count", "choice"),
    [
        (1, RecoveryChoice.RESUME),
        (2, RecoveryChoice.RESUME),
        (3, RecoveryChoice.SUSPEND),
        (4, RecoveryChoice.SUSPEND),
    ],
)
def test_session_is_suspended_after_three_interruptions_without_progress(
    count: int, choice: RecoveryChoice
) -> None:
    """B52: three in a row."""
    decision = decide(attempts(count), FRESH, AUTO, NOW)
    assert decision.choice is choice
    assert decision.evidence["without_progress"] == count


def test_interruptions_are_counted_by_any_mix_of_reasons() -> None:
    """B52: crash and drain deadline count alike."""
    view = turn_view_of(
        *MESSAGE,
        interruption("restart_timeout"),
        *requeue_and_claim(),
        interruption("lease_lost"),
        *requeue_and_claim(3),
        interruption(),
    )
    decision = decide(view, FRESH, AUTO, NOW)
    assert (decision.choice, decision.rule) == (RecoveryChoice.SUSPEND, RecoveryRule.NO_PROGRESS)


def test_turn_goes_on_when_every_attempt_finished_a_step() -> None:
    """B52: progress forgives, up to ten in all."""
    assert decide(attempts(9, answer_with_text(finish="length")), FRESH, AUTO, NOW).choice is RecoveryChoice.RESUME
    decision = decide(attempts(10, answer_with_text(finish="length")), FRESH, AUTO, NOW)
    assert (decision.choice, decision.rule) == (RecoveryChoice.SUSPEND, RecoveryRule.TOO_OFTEN)


def test_command_still_alive_is_progress() -> None:
    """B52: but it does not lift the limit of ten in all."""
    alive = around(attached_alive=True)
    assert decide(attempts(5), alive, AUTO, NOW).choice is RecoveryChoice.RESUME
    assert decide(attempts(10), alive, AUTO, NOW).choice is RecoveryChoice.SUSPEND


@pytest.mark.parametrize(
    "where",
    [around(authorised=False), around(last_sign_of_life=0), around(session=SessionState.SUSPENDED)],
    ids=["unauthorised", "stale", "suspended already"],
)
def test_session_is_not_suspended_when_its_turn_would_be_skipped_anyway(where: RecoveryContext) -> None:
    assert decide(attempts(5), where, AUTO, NOW).choice is RecoveryChoice.SKIP


# ── the decision as a record ────────────────────────────────────────────────────────────────────────────────


def test_decision_tells_its_evidence() -> None:
    """B42: shown by `perdure why`."""
    decision = decided(*MESSAGE, answer_with_calls("a"), started("a"), reason="restart_timeout")
    assert decision.why == "it ends with a tool call without result and may go on"
    assert decision.evidence == {
        "tail": Tail.OPEN_CALL,
        "reason": "restart_timeout",
        "age_ms": 1_000,
        "interruptions": 1,
        "without_progress": 1,
        "tokens": 15,
    }


def test_empty_turn_and_resumed_turn_name_their_rules() -> None:
    assert decided(TurnBegan(()), claimed()).rule is RecoveryRule.NOTHING_DONE
    assert decided(*MESSAGE).rule is RecoveryRule.RESUME


def test_evidence_reads_back_as_plain_words_and_numbers() -> None:
    evidence = decided(*MESSAGE).evidence
    assert msgspec.json.decode(msgspec.json.encode(evidence)) == evidence


def test_message_joins_what_may_still_go_on_and_supersedes_what_may_not() -> None:
    """B49: stale, over budget, unauthorised: superseded. Off, ask, a pause, an unknown reason: joined."""
    assert set(HELD_BACK_RULES) == {
        RecoveryRule.STALE,
        RecoveryRule.TOKENS,
        RecoveryRule.UNAUTHORISED,
        RecoveryRule.NO_ADDRESS,
    }


def test_deciding_changes_nothing() -> None:
    view = attempts(2)
    before = msgspec.json.encode(view)
    assert decide(view, FRESH, AUTO, NOW) == decide(view, FRESH, AUTO, NOW)
    assert msgspec.json.encode(view) == before
