"""Events of a streamed answer: nothing is lost or changed, wherever the bytes are cut.

Drives `agents/providers/event_stream`.
"""

from __future__ import annotations

import pytest

from perdure.agents.providers.event_stream import EventDecoder

STREAM = (
    b": a remark\n\n"
    b'data: {"a": "\xe2\x82\xac"}\n\n'
    b'event: note\r\ndata:{"b":\r\ndata: 2}\r\n\r\n'
    b'id: 7\n\ndata: {"c": 3}\r\r'
    b'data: {"d": 4}\n\ndata: [DONE]\n\ndata: whatever\n\n'
)


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_events_are_the_same_wherever_they_are_cut(size: int) -> None:
    events = EventDecoder()
    reads = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    told = [each for read in reads if not events.done for each in events.decode(read)]
    assert told == [{"a": "€"}, {"b": 2}, {"c": 3}, {"d": 4}]
    assert events.done


def test_data_that_is_no_json_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="no JSON"):
        list(EventDecoder().decode(b"data: nonsense\n\n"))
