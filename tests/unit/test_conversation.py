"""The journal as the conversation that a model reads.

Drives `core/conversation`.
"""

from __future__ import annotations

import pytest

from perdure.core import texts
from perdure.core.conversation import (
    AssistantMessage,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
    build_conversation,
    turn_views,
    visible_turns,
)
from perdure.core.journal import (
    ConversationCompacted,
    Entry,
    MessagesJoined,
    ModelAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    TurnBegan,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnUndone,
    TurnView,
)
from support.journals import (
    ADA,
    answer_with_calls,
    answer_with_text,
    began,
    cause,
    claimed,
    ended,
    interruption,
    joined,
    journal_records,
    requeue_and_claim,
    started,
    turn_view_of,
)


def heard(*entries: Entry, history: list[TurnView] | None = None) -> list[Message]:
    """What the model reads when the current turn has these entries."""
    return build_conversation(history or [], turn_view_of(*entries)).messages


def words(messages: list[Message]) -> list[str]:
    """The conversation in short: who, and what."""
    return [f"{type(message).__name__.removesuffix('Message').lower()}: {message.text}" for message in messages]


def assert_every_call_is_followed_by_its_results(messages: list[Message]) -> None:
    """What providers demand: right behind the calls of one response stand their results, each exactly once."""
    due: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.call in due, f"a result nobody waits for: {message}"
            due.remove(message.call)
        else:
            assert due == [], f"{message} stands between a call and its result"
        if isinstance(message, AssistantMessage):
            due = [call.id for call in message.calls]
    assert due == []


# ── what is told ────────────────────────────────────────────────────────────────────────────────────────────


def test_conversation_is_what_was_said_and_done() -> None:
    first = turn_view_of(
        began("find it"),
        claimed(),
        answer_with_calls("a"),
        started("a"),
        ended("a"),
        answer_with_text("Found.", step=2),
    )
    messages = heard(began("thanks"), claimed(), ModelAsked(1, "m"), history=[first])
    assert messages == [
        UserMessage("find it"),
        AssistantMessage("", first.responses[0].calls),
        ToolMessage("a", "look", "a: seen", "ok"),
        AssistantMessage("Found."),
        UserMessage("thanks"),
    ]


def test_messages_that_joined_stand_where_they_joined() -> None:
    messages = heard(began("one", "two"), claimed(), answer_with_calls("a"), ended("a"), joined("three"))
    assert words(messages) == ["user: one", "user: two", "assistant: ", "tool: a: seen", "user: three"]


def test_answer_to_a_question_is_the_users() -> None:
    messages = heard(
        began("go"),
        claimed(),
        QuestionAsked("q1", "Which?"),
        QuestionAnswered("q1", "the red one", ADA),
        claimed(2),
    )
    assert words(messages) == ["user: go", "user: the red one"]


def test_response_that_was_cut_off_is_not_told() -> None:
    """B45: it is asked for again, so the model must not take it for its own word."""
    messages = heard(began("go"), claimed(), answer_with_text("Once upon a", finish="length"))
    assert words(messages) == ["user: go"]


def test_our_own_marks_are_not_told() -> None:
    messages = heard(
        began("go"),
        claimed(),
        interruption(),
        RecoveryDecided("resume", "why"),
        *requeue_and_claim(),
        ModelAsked(1, "m"),
    )
    assert words(messages) == ["user: go"]


@pytest.mark.parametrize("end", [TurnFailed("no"), TurnCancelled("stopped"), TurnCancelled("superseded")], ids=str)
def test_earlier_turn_stays_in_the_conversation_when_it_ended_badly(end: Entry) -> None:
    earlier = turn_view_of(
        began("go"), claimed(), answer_with_calls("a"), ended("a", "cancelled", texts.tool_calls.CANCELLED), end
    )
    messages = heard(began("again"), claimed(), history=[earlier])
    assert words(messages) == ["user: go", "assistant: ", f"tool: {texts.tool_calls.CANCELLED}", "user: again"]
    assert_every_call_is_followed_by_its_results(messages)


# ── notes ───────────────────────────────────────────────────────────────────────────────────────────────────


def noted(reason: str) -> RecoveryNoted:
    return RecoveryNoted(texts.recovery.note_resumed(reason))


def test_model_reads_one_note_that_names_the_cause() -> None:
    """B47: and it is not the user's words."""
    messages = heard(
        began("go"), claimed(), interruption("restart_timeout"), *requeue_and_claim(), noted("restart_timeout")
    )
    assert messages == [UserMessage("go"), NoteMessage(texts.recovery.note_resumed("restart_timeout"))]


def test_model_reads_one_note_when_the_turn_was_cut_off_twice() -> None:
    """B47: exactly one note, about the newest interruption."""
    first = (
        began("go"),
        claimed(),
        interruption("restart_timeout"),
        *requeue_and_claim(),
        noted("restart_timeout"),
    )
    messages = heard(*first, interruption("shutdown_timeout"), *requeue_and_claim(3), noted("shutdown_timeout"))
    assert [message for message in messages if isinstance(message, NoteMessage)] == [
        NoteMessage(texts.recovery.note_resumed("shutdown_timeout"))
    ]


def test_note_is_not_repeated_in_later_turns() -> None:
    """B47: said once."""
    earlier = turn_view_of(
        began("go"),
        claimed(),
        interruption(),
        *requeue_and_claim(),
        noted("lease_lost"),
        answer_with_text("Done."),
    )
    assert words(heard(began("thanks"), claimed(), history=[earlier])) == [
        "user: go",
        "assistant: Done.",
        "user: thanks",
    ]


def test_conversation_is_untouched_when_nothing_was_interrupted() -> None:
    """B47: with no interruption there is no note."""
    messages = heard(began("go"), claimed(), answer_with_calls("a"), started("a"), ended("a"))
    assert not any(isinstance(message, NoteMessage) for message in messages)


# ── what a provider would refuse ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u2003"], ids=repr)
def test_user_message_is_never_blank(blank: str) -> None:
    """B48: whatever a person sent, the model reads words."""
    beginnings = [began(blank), began("one", blank), TurnBegan((cause(blank, files=["photo.jpg"]),))]
    joins = [joined(blank), MessagesJoined((cause("x"), cause(blank)))]
    for beginning in beginnings:
        for join in joins:
            messages = heard(beginning, claimed(), join)
            said = [message.text for message in messages if isinstance(message, UserMessage)]
            assert len(said) == len(beginning.causes) + len(join.causes)
            assert all(text.strip() for text in said)


def test_blank_answer_is_told_in_words() -> None:
    """B48: also when the question was answered with nothing."""
    messages = heard(
        began("go"), claimed(), QuestionAsked("q1", "Which?"), QuestionAnswered("q1", " ", ADA), claimed(2)
    )
    assert all(message.text.strip() for message in messages)


def test_files_are_named_when_a_message_has_no_text() -> None:
    """B48: the model knows at least what came."""
    (message,) = heard(TurnBegan((cause("", files=["photo.jpg", "plan.pdf"]),)), claimed())
    assert "photo.jpg, plan.pdf" in message.text


def test_text_of_a_message_is_told_as_it_was_written() -> None:
    assert words(heard(began("  indented\n"), claimed())) == ["user:   indented\n"]


CALLED = (began("go"), claimed(), answer_with_calls("a", "b"), started("a"), started("b"))


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([*CALLED, ended("a"), ended("b")], id="nothing happened between"),
        pytest.param([*CALLED, ended("b"), ended("a")], id="results in another order"),
        pytest.param([*CALLED, ended("a"), joined("hurry"), ended("b")], id="a message joined between"),
        pytest.param(
            [*CALLED, ended("a"), interruption(), *requeue_and_claim(), noted("lease_lost"), ended("b")],
            id="cut off between, with a note",
        ),
        pytest.param(
            [*CALLED, interruption(), ended("a"), *requeue_and_claim(), ended("b", "unknown")], id="a late result"
        ),
        pytest.param([*CALLED, ended("a"), ended("b"), ended("b", "cancelled")], id="a result told twice"),
        pytest.param(
            [*CALLED, ended("a"), ended("b"), answer_with_calls("c", step=2), started("c"), ended("c")],
            id="two sets of calls",
        ),
    ],
)
def test_every_call_has_exactly_one_result_right_behind_it(facts: list[Entry]) -> None:
    """B64: a crash never leaves a transcript that a provider rejects."""
    assert_every_call_is_followed_by_its_results(heard(*facts))
    assert_every_call_is_followed_by_its_results(heard(began("next"), claimed(), history=[turn_view_of(*facts)]))


def test_note_stands_behind_the_results_of_the_call_that_was_cut_off() -> None:
    """B47 and B64: before the next answer, but not between a call and its result."""
    messages = heard(*CALLED, ended("a"), interruption(), *requeue_and_claim(), noted("lease_lost"), ended("b"))
    assert [type(message) for message in messages[-3:]] == [ToolMessage, ToolMessage, NoteMessage]


# ── the turns of a session ──────────────────────────────────────────────────────────────────────────────────


def test_records_become_turns_in_the_order_in_which_they_began() -> None:
    one = journal_records(began("one"), claimed(), TurnFinished("1"))
    two = journal_records(began("two"), claimed(), TurnFinished("2"), first=4)
    found = turn_views([("t9", record) for record in one] + [("t1", record) for record in two])
    assert [view.causes[0].text for view in found] == ["one", "two"]
    assert found == [
        turn_view_of(*(record.entry for record in one)),
        turn_view_of(*(record.entry for record in two), first=4),
    ]


def test_turns_are_told_apart_when_their_records_are_mixed() -> None:
    one, two = began("one"), began("two")
    records = journal_records(one, claimed(), two, claimed(), TurnFinished("1"), TurnFinished("2"))
    of = ["t1", "t1", "t2", "t2", "t1", "t2"]
    found = turn_views(zip(of, records, strict=True))
    assert [(view.causes[0].text, view.ended) for view in found] == [
        ("one", TurnFinished("1")),
        ("two", TurnFinished("2")),
    ]


def test_session_without_records_has_no_turns() -> None:
    assert turn_views([]) == []


# ── what was taken back ─────────────────────────────────────────────────────────────────────────────────────


def test_turn_that_was_taken_back_is_not_recalled() -> None:
    one = turn_view_of(began("one"), claimed(), TurnFinished("1"))
    two = turn_view_of(began("two"), claimed(), TurnFinished("2"), TurnUndone("ada"), first=4)
    assert visible_turns([one, two]) == [one]
    assert visible_turns([two]) == []


def test_summary_of_a_turn_that_was_taken_back_stands_for_what_came_before_it() -> None:
    one = turn_view_of(began("one"), claimed(), ConversationCompacted(0, "older"), TurnFinished("1"))
    two = turn_view_of(
        began("two"),
        claimed(),
        ConversationCompacted(4, "in short"),
        TurnFinished("2"),
        TurnUndone("ada"),
        first=5,
    )
    three = turn_view_of(began("three"), claimed(), first=10)
    talk = build_conversation(visible_turns([one, two]), three)
    assert [message.text for message in talk.messages] == [texts.agents.summary_note("in short"), "three"]
