"""Pieces of a streamed answer: nothing is lost or changed, wherever the bytes are cut, and words come together.

Drives `agents/providers/openai_stream`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai.exceptions import UnexpectedModelBehavior

from perdure.agents.providers.openai_stream import MAX_LINE_BYTES, SseDecoder, merge_text_chunks


def chunk(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "1", "model": "local", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more


def word(text: str, **more: Any) -> dict[str, Any]:
    return chunk({"content": text}, **more)


def call(arguments: str) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})


FIRST, LAST = chunk({"role": "assistant", "content": ""}), chunk({}, "stop")
COST = {"id": "1", "model": "local", "choices": [], "usage": {"total_tokens": 3}}


@pytest.mark.parametrize(
    ("came", "heard"),
    [
        ([FIRST, word("a"), word("b"), word("c"), LAST, COST], [FIRST, word("abc"), LAST, COST]),
        ([word("a"), call("{"), call("}"), word("b"), word("c")], [word("a"), call("{"), call("}"), word("bc")]),
        ([word("a"), word("b", id="2"), word("c", id="2")], [word("a"), word("bc", id="2")]),
        ([word("a", usage=None), word("b", usage=None)], [word("ab", usage=None)]),
        ([word("a", usage=COST), word("b", usage=COST)], [word("a", usage=COST), word("b", usage=COST)]),
        ([word("a", obfuscation="x"), word("b", obfuscation="xyz")], [word("ab", obfuscation="x")]),
        ([chunk({"content": "a", "reasoning": "b"})] * 2, [chunk({"content": "a", "reasoning": "b"})] * 2),
        ([chunk({"reasoning": "a"})] * 2, [chunk({"reasoning": "a"})] * 2),
        ([chunk({"content": None})] * 2, [chunk({"content": None})] * 2),
        ([{"error": {"message": "no"}}, word("a")], [{"error": {"message": "no"}}, word("a")]),
        (
            [[], 1, {"choices": None}, {"choices": [None]}, {"choices": [{"delta": {}}]}],
            [[], 1, {"choices": None}, {"choices": [None]}, {"choices": [{"delta": {}}]}],
        ),
        ([None, word("a")], [word("a")]),
        ([], []),
    ],
)
def test_only_neighbours_that_differ_in_their_words_alone_come_together(came: list[Any], heard: list[Any]) -> None:
    assert list(merge_text_chunks(json.loads(json.dumps(came)))) == heard


STREAM = (
    b": a remark\n\n"
    b'data: {"a": "\xe2\x82\xac"}\n\n'
    b'event: note\r\ndata:{"b":\r\ndata: 2}\r\n\r\n'
    b'id: 7\n\ndata: {"c": 3}\r\r'
    b'data: {"d": 4}\n\ndata: [DONE]\n\ndata: whatever\n\n'
)


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_events_are_the_same_wherever_they_are_cut(size: int) -> None:
    events = SseDecoder()
    reads = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    told = [each for read in reads if not events.done for each in events.decode(read)]
    assert told == [
        {"a": "€"},
        {"b": 2},
        {"c": 3},
        {"d": 4},
    ]
    assert events.done


@pytest.mark.parametrize(
    "read", [b"data: nonsense\n\n", b"data: " + b"a" * MAX_LINE_BYTES], ids=["no JSON", "endless"]
)
def test_what_makes_no_sense_is_said_to(read: bytes) -> None:
    with pytest.raises(UnexpectedModelBehavior):
        list(SseDecoder().decode(read))
