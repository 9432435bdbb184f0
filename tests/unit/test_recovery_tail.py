"""What a turn ends with, and which response of a model is final.

Drives `core/recovery/decision`.
"""

from __future__ import annotations

import pytest

from perdure.core.journal import (
    Entry,
    ModelAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    TurnBegan,
    TurnRequeued,
)
from perdure.core.recovery.decision import Tail, is_final_response, tail_of
from support.journals import (
    ADA,
    answer_with_calls,
    answer_with_text,
    began,
    claimed,
    ended,
    interruption,
    joined,
    requeue_and_claim,
    started,
    turn_view_of,
)

QUESTION = QuestionAsked("q1", "Which?", ("a", "b"))
MARKS: tuple[Entry, ...] = (
    interruption(),
    RecoveryDecided("resume", "why"),
    TurnRequeued(),
    claimed(2, "r2"),
    RecoveryNoted("[note]"),
)


@pytest.mark.parametrize(
    ("facts", "tail"),
    [
        pytest.param([TurnBegan(()), claimed()], Tail.NOTHING, id="imported for its mark"),
        pytest.param([began(), claimed()], Tail.MESSAGE, id="an unanswered message"),
        pytest.param([began(), claimed(), ModelAsked(1, "m")], Tail.MESSAGE, id="a model call that was cut off"),
        pytest.param([began(), claimed(), answer_with_calls("a")], Tail.OPEN_CALL, id="a call that was not begun"),
        pytest.param(
            [began(), claimed(), answer_with_calls("a"), started("a")], Tail.OPEN_CALL, id="a call under way"
        ),
        pytest.param(
            [began(), claimed(), answer_with_calls("a", "b"), started("a"), ended("a")],
            Tail.OPEN_CALL,
            id="half of a set",
        ),
        pytest.param(
            [began(), claimed(), answer_with_calls("a"), started("a"), joined("hurry")],
            Tail.OPEN_CALL,
            id="a call under way beside a message that joined",
        ),
        pytest.param(
            [began(), claimed(), answer_with_calls("a"), started("a"), ended("a")],
            Tail.RESULT,
            id="a result without answer",
        ),
        pytest.param(
            [began(), claimed(), answer_with_calls("a"), started("a"), ended("a", "unknown")],
            Tail.RESULT,
            id="a result that nobody knows",
        ),
        pytest.param(
            [began(), claimed(), answer_with_calls("a"), started("a"), ended("a", "cancelled")],
            Tail.OPEN_CALL,
            id="a result that we wrote when the turn ended",
        ),
        pytest.param([began(), claimed(), QUESTION], Tail.QUESTION, id="a question"),
        pytest.param(
            [began(), claimed(), answer_with_calls("a"), QUESTION],
            Tail.OPEN_CALL,
            id="a call unfinished beside a question",
        ),
        pytest.param(
            [began(), claimed(), QUESTION, joined("by the way")],
            Tail.QUESTION,
            id="a question, and an unrelated message",
        ),
        pytest.param(
            [began(), claimed(), QUESTION, QuestionAnswered("q1", "a", ADA), claimed(2)],
            Tail.MESSAGE,
            id="a question that was answered",
        ),
        pytest.param(
            [began(), claimed(), answer_with_text(finish="length")], Tail.TRUNCATED, id="a response cut off"
        ),
        pytest.param(
            [began(), claimed(), answer_with_text(finish=None)], Tail.TRUNCATED, id="a response without finish"
        ),
        pytest.param([began(), claimed(), answer_with_text()], Tail.FINAL, id="the final answer"),
        pytest.param(
            [began(), claimed(), answer_with_text(""), ModelAsked(2, "m")],
            Tail.FINAL,
            id="a final answer of no words",
        ),
        pytest.param(
            [began(), claimed(), answer_with_text(), joined("one more thing")],
            Tail.MESSAGE,
            id="a message that joined after the answer",
        ),
    ],
)
def test_tail_is_what_the_content_ends_with(facts: list[Entry], tail: Tail) -> None:
    """B44: one case for every tail."""
    assert tail_of(turn_view_of(*facts)) is tail


@pytest.mark.parametrize(
    ("facts", "tail"),
    [
        pytest.param([TurnBegan(()), claimed()], Tail.NOTHING, id="nothing"),
        pytest.param([began(), claimed()], Tail.MESSAGE, id="a message"),
        pytest.param([began(), claimed(), answer_with_calls("a"), started("a")], Tail.OPEN_CALL, id="a call"),
        pytest.param([began(), claimed(), answer_with_calls("a"), ended("a")], Tail.RESULT, id="a result"),
        pytest.param(
            [began(), claimed(), answer_with_text(finish="length")], Tail.TRUNCATED, id="a response cut off"
        ),
        pytest.param([began(), claimed(), answer_with_text()], Tail.FINAL, id="the final answer"),
    ],
)
def test_marks_decisions_and_notes_are_never_the_tail(facts: list[Entry], tail: Tail) -> None:
    """B44: our own entries leave the tail what it was, however many there are."""
    twice = (*MARKS, interruption(), *requeue_and_claim(3))
    assert tail_of(turn_view_of(*facts, *twice)) is tail


def test_question_stays_the_tail_when_the_turn_was_cut_off_before_it_was_asked_again() -> None:
    view = turn_view_of(began(), claimed(), interruption(), QUESTION)
    assert tail_of(view) is Tail.QUESTION


# ── finishes ────────────────────────────────────────────────────────────────────────────────────────────────

FINAL: dict[str, list[str | None]] = {
    "OpenAI chat": ["stop"],
    "OpenAI responses": ["completed"],
    "Anthropic": ["end_turn", "stop_sequence"],
    "Gemini": ["STOP"],
    "Cohere": ["COMPLETE", "STOP_SEQUENCE"],
    "Mistral": ["stop"],
    "Bedrock Converse": ["end_turn", "stop_sequence"],
    "Bedrock Titan": ["FINISH", "FINISHED", "STOP_CRITERIA_MET"],
    "Bedrock AI21": ["endoftext", "stop"],
    "Ollama": ["stop"],
    "Hugging Face": ["eos_token", "stop_sequence", "stop"],
}
CUT_OFF: dict[str, list[str | None]] = {
    "OpenAI chat": ["length", "content_filter", "tool_calls", "function_call"],
    "OpenAI responses": ["incomplete", "failed", "cancelled", "in_progress", "queued", "max_output_tokens"],
    "Anthropic": ["max_tokens", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"],
    "Gemini": [
        *["MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"],
        *["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "IMAGE_SAFETY", "FINISH_REASON_UNSPECIFIED"],
    ],
    "Cohere": ["MAX_TOKENS", "TOOL_CALL", "ERROR", "ERROR_TOXIC", "ERROR_LIMIT", "USER_CANCEL", "TIMEOUT"],
    "Mistral": ["length", "model_length", "error", "tool_calls"],
    "Bedrock Converse": [
        *["max_tokens", "tool_use", "guardrail_intervened", "content_filtered", "malformed_model_output"],
        *["malformed_tool_use", "model_context_window_exceeded"],
    ],
    "Bedrock Titan": ["LENGTH", "CONTENT_FILTERED", "RAG_QUERY_WHEN_RAG_DISABLED"],
    "Bedrock AI21": ["length"],
    "Ollama": ["length", "load", "unload"],
    "Hugging Face": ["length"],
    "nobody": [None, "", " ", "unknown", "stopped?"],
}


def spellings(providers: dict[str, list[str | None]]) -> list[object]:
    return [
        pytest.param(finish, id=f"{provider}: {finish}") for provider, all_ in providers.items() for finish in all_
    ]


@pytest.mark.parametrize("finish", spellings(FINAL))
def test_response_is_final_when_it_finished_in_any_providers_words(finish: str) -> None:
    """B45: an explicit finish, however the provider spells it."""
    assert is_final_response(answer_with_text(finish=finish))
    assert is_final_response(answer_with_text(finish=finish.lower()))
    assert is_final_response(answer_with_text(finish=finish.upper()))


@pytest.mark.parametrize("finish", spellings(CUT_OFF))
def test_response_is_not_final_when_it_was_cut_off(finish: str | None) -> None:
    """B45: length, error, filter or no word at all is no finish."""
    assert not is_final_response(answer_with_text(finish=finish))


@pytest.mark.parametrize("finish", ["stop", "end_turn", "STOP", "COMPLETE"])
def test_response_is_not_final_when_it_wishes_a_tool_call(finish: str) -> None:
    """B45: some providers say that they finished while they wait for a tool."""
    assert not is_final_response(answer_with_calls("a", finish=finish))
