"""The windows of models: how servers refuse what is too long, how they tell a size, and what is learnt.

Drives `core/context_window` and `core/compaction`.

Drives core/windows and core/compaction.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.core.compaction import (
    InstructionTokens,
    clip_to_tokens,
    estimate_tokens,
    find_cut,
    is_full,
    measure_instructions,
)
from perdure.core.context_window import (
    REFUSAL_PATTERNS,
    WINDOW_ENDPOINTS,
    ContextRefusal,
    KnownWindow,
    parse_refusal,
    window_in_answer,
)
from perdure.core.conversation import AssistantMessage, Conversation, ConversationSegment, UserMessage

LLAMA = {
    "code": 400,
    "message": "request (1027 tokens) exceeds the available context size (1024 tokens), try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 1027,
    "n_ctx": 1024,
}
REFUSALS: list[tuple[str, Any, ContextRefusal]] = [
    ("llama.cpp", LLAMA, ContextRefusal(1027, 1024)),
    (
        "llama.cpp, 2025",
        LLAMA | {"message": "the request exceeds the available context size. try increasing the context size"},
        ContextRefusal(1027, 1024),
    ),
    (
        "llama.cpp, full while it answers",
        {"code": 500, "message": "Context size has been exceeded."},
        ContextRefusal(),
    ),
    (
        "llama-cpp-python",
        {"message": "Requested tokens (2285) exceed context window of 2048", "code": None},
        ContextRefusal(2285, 2048),
    ),
    (
        "vLLM",
        (
            "This model's maximum context length is 200 tokens. However, your request has 203 input tokens. "
            "Please reduce the length of the input messages. None"
        ),
        ContextRefusal(203, 200),
    ),
    (
        "vLLM, with a length for the answer",
        (
            "This model's maximum context length is 131072 tokens. However, you requested 128000 output tokens"
            " and your prompt contains at least 3073 input tokens, for a total of at least 131073 tokens."
        ),
        ContextRefusal(3073, 131072),
    ),
    (
        "vLLM, older",
        (
            "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in "
            "the messages, 10000 in the completion). Please reduce the length of the messages or completion."
        ),
        ContextRefusal(9591, 16384),
    ),
    ("Ollama", "prompt too long; exceeded max context length by 100918 tokens", ContextRefusal()),
    ("Ollama, over llama.cpp", json.dumps({"error": LLAMA}), ContextRefusal(1027, 1024)),
    ("Ollama, embedded", "the input length exceeds the context length", ContextRefusal()),
    (
        "LM Studio",
        (
            "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: "
            "10978>= n_ctx: 8192). Try to load the model with a larger context length, or provide a shorter input."
        ),
        ContextRefusal(10978, 8192),
    ),
    (
        "LM Studio, older",
        (
            "Trying to keep the first 14538 tokens when context the overflows. However, the model is loaded "
            "with context length of only 2048 tokens, which is not enough."
        ),
        ContextRefusal(14538, 2048),
    ),
    ("LM Studio, MLX", "Context size has been exceeded", ContextRefusal()),
    (
        "OpenAI",
        {
            "message": "This model's maximum context length is 4097 tokens. However, your messages resulted in "
            "4294 tokens. Please reduce the length of the messages.",
            "code": "context_length_exceeded",
        },
        ContextRefusal(4294, 4097),
    ),
    ("OpenAI, newer", "Your input exceeds the context window of this model.", ContextRefusal()),
    ("OpenAI, by its code", {"message": "Too many tokens.", "code": "context_length_exceeded"}, ContextRefusal()),
    ("Anthropic", "prompt is too long: 210000 tokens > 200000 maximum", ContextRefusal(210_000, 200_000)),
    (
        "Gemini",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        ContextRefusal(1_196_265, 1_048_575),
    ),
]


@pytest.mark.parametrize(("said", "meant"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_b87_refusal_is_known_in_the_wording_of_each_server(said: Any, meant: ContextRefusal) -> None:
    assert parse_refusal(f"400: {said}") == meant


def test_b87_every_server_of_the_table_has_a_case() -> None:
    named = {name for wording in REFUSAL_PATTERNS for name in wording.server.split(", ")}
    assert named == {case[0].split(",")[0] for case in REFUSALS}


@pytest.mark.parametrize(
    "said",
    [
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
        "Too many tokens, please wait before trying again.",
        "No poems on Sundays.",
        "max_tokens must be at least 1, got 0.",
    ],
)
def test_b87_other_errors_are_not_taken_for_it(said: str) -> None:
    assert parse_refusal(said) is None


LISTED = {"id": "small", "max_model_len": 2048}


@pytest.mark.parametrize(
    ("path", "answer", "window"),
    [
        ("models", {"data": [{"id": "other", "max_model_len": 1}, LISTED]}, 2048),
        ("models", {"data": [{"id": "/weights/x.gguf", "meta": {"n_ctx": 1024, "n_ctx_train": 8192}}]}, 1024),
        ("models", {"data": [{"id": "small", "context_length": 4096}]}, 4096),
        ("/props", {"default_generation_settings": {"n_ctx": 512}}, 512),
        ("/api/ps", {"models": [{"name": "small:latest", "context_length": 4096}, {"name": "other"}]}, 4096),
        ("/api/v0/models", {"data": [{"id": "small", "loaded_context_length": 4096}]}, 4096),
        ("/api/v0/models", {"data": [{"id": "small", "max_context_length": 4096}]}, 0),
        ("models", {"data": [{"id": "one", "max_model_len": 1}, {"id": "two", "max_model_len": 2}]}, 0),
        ("models", {"data": [{"id": "small", "max_model_len": "2048"}]}, 0),
        ("models", {"data": [None, {"id": 3}]}, 0),
        ("models", {"data": "nothing"}, 0),
        ("models", ["nothing"], 0),
        ("/props", {"default_generation_settings": None}, 0),
        ("/api/ps", {"models": []}, 0),
    ],
)
def test_b87_window_is_read_where_a_server_tells_it(path: str, answer: Any, window: int) -> None:
    assert path in {place.path for place in WINDOW_ENDPOINTS}
    assert window_in_answer(path, "small", answer) == window


# ── what is learnt ──────────────────────────────────────────────────────────────────────────────────────────


def test_b87_refusal_teaches_a_smaller_window_but_none_below_what_was_answered() -> None:
    known = KnownWindow(128_000)
    known.learn_from_refusal(5_000)
    assert known.tokens == 5_000
    known.learn_from_answer(3_000, 500)
    known.learn_from_refusal(100)
    assert known.tokens == 3_500
    known.learn_from_refusal(90_000)
    assert known.tokens == 3_500


def test_b87_what_a_server_says_counts_up_to_what_was_configured() -> None:
    known, limited = KnownWindow(128_000), KnownWindow(2_000, configured=True)
    for each in (known, limited):
        each.learn_from_server(200_000)
    assert (known.tokens, limited.tokens) == (200_000, 2_000)
    limited.learn_from_server(1_024)
    assert limited.tokens == 1_024


def test_b87_answers_that_are_cut_off_at_the_same_sum_teach_the_window() -> None:
    known = KnownWindow(128_000)
    known.learn_from_truncation(600, 424)
    assert known.tokens == 1_024
    known.learn_from_truncation(300, 724)
    assert known.tokens == 1_024


def test_b87_answers_that_are_cut_off_at_the_same_length_teach_nothing() -> None:
    known = KnownWindow(128_000)
    known.learn_from_truncation(600, 512)
    known.learn_from_truncation(300, 512)
    known.learn_from_truncation(300, 512)
    assert known.tokens == 128_000


# ── where to cut ────────────────────────────────────────────────────────────────────────────────────────────


def talked(count: int, text: str = "some words of a person " * 4) -> Conversation:
    """Turns of a message and its answer; the newest is the one to be answered."""
    said = [
        ConversationSegment(
            2 * number + each, (UserMessage(f"{number} {text}") if each == 0 else AssistantMessage(text),)
        )
        for number in range(count)
        for each in (0, 1)
    ]
    return Conversation((), tuple(said), (ConversationSegment(2 * count, (UserMessage("now"),), pinned=True),))


def test_b87_summary_is_made_of_no_more_than_the_model_can_read() -> None:
    talk, through = talked(40), 0
    for _ in range(100):
        found = find_cut(talk, 800, 500)
        if found is None:
            break
        assert found.through >= through
        assert estimate_tokens([UserMessage(found.transcript)]) <= 510
        through = found.through
        talk = Conversation(
            (UserMessage("in short"),), tuple(each for each in talk.earlier if each.seq > through), talk.current
        )
    assert not is_full(estimate_tokens(talk.messages), 800)
    assert [each.seq for each in talk.current] == [80]


def test_b87_one_message_that_is_longer_than_the_model_reads_is_shortened_for_its_summary() -> None:
    found = find_cut(talked(2, "long " * 4_000), 800, 500)
    assert found is not None
    assert estimate_tokens([UserMessage(found.transcript)]) <= 520
    assert "characters left out" in found.transcript


def test_b87_letters_count_by_their_bytes() -> None:
    assert estimate_tokens([UserMessage("\u597d" * 400)]) >= 300
    assert len(clip_to_tokens("\u597d" * 400, 30)) < 100
    assert clip_to_tokens("short", 30) == "short"


def test_b87_conversation_keeps_a_part_of_the_window_however_long_the_instructions_are() -> None:
    assert InstructionTokens(prompt=100, tools=300, tool_count=2).room(1_000) == 600
    assert InstructionTokens(prompt=5_000, tools=0, tool_count=0).room(1_000) == 250
    assert measure_instructions("four" * 10, ()) == InstructionTokens(10, 0, 0)
