"""How a reply reaches its address: keys, the retry schedule, the unknown send, and the cutting of long replies.

Drives `core/delivery`.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.core.delivery import (
    MAX_RETRY_MS,
    OPEN_DELIVERY_STATES,
    DeliveryState,
    Resolution,
    UnknownSendPolicy,
    delivery_key,
    resolve_unknown_send,
    retry_delay_ms,
    split_reply,
)

# ── keys, retries, the unknown send ─────────────────────────────────────────────────────────────────────────


def test_delivery_key_is_the_same_for_every_try_and_differs_for_every_part() -> None:
    assert delivery_key("t_1", 0) == delivery_key("t_1", 0) == "t_1:0"
    assert len({delivery_key(turn, part) for turn in ("t_1", "t_2") for part in range(3)}) == 6


def test_retries_wait_twice_as_long_each_time_up_to_five_minutes() -> None:
    assert [retry_delay_ms(attempts) for attempts in range(1, 6)] == [1_000, 2_000, 4_000, 8_000, 16_000]
    assert retry_delay_ms(9) == 256_000
    assert retry_delay_ms(10) == MAX_RETRY_MS == 300_000


@pytest.mark.parametrize("attempts", [11, 1_000, 10**9])
def test_retry_never_waits_longer_than_five_minutes(attempts: int) -> None:
    """B75: an answer waits for an hour without using up its patience."""
    assert retry_delay_ms(attempts) == MAX_RETRY_MS


@pytest.mark.parametrize("choice", ["resend", "drop"])
@pytest.mark.parametrize(
    ("idempotent", "read_back", "first"),
    [
        (True, True, Resolution.SAME_KEY),
        (True, False, Resolution.SAME_KEY),
        (False, True, Resolution.READ_BACK),
    ],
)
def test_platform_is_asked_before_the_operator_when_it_can_tell(
    idempotent: bool, read_back: bool, first: Resolution, choice: UnknownSendPolicy
) -> None:
    """B74: by key or by read-back where there is one."""
    assert resolve_unknown_send(idempotent=idempotent, read_back=read_back, policy=choice) is first


@pytest.mark.parametrize(("choice", "first"), [("resend", Resolution.RESEND), ("drop", Resolution.DROP)])
def test_operator_chooses_when_the_platform_cannot_tell(choice: UnknownSendPolicy, first: Resolution) -> None:
    """B74: otherwise by the configured choice."""
    assert resolve_unknown_send(idempotent=False, read_back=False, policy=choice) is first


def test_open_deliveries_are_those_that_may_still_move() -> None:
    closed = {DeliveryState.SENT, DeliveryState.REFUSED, DeliveryState.EXPIRED, DeliveryState.WITHDRAWN}
    assert set(DeliveryState) - set(OPEN_DELIVERY_STATES) == closed


# ── cutting ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        pytest.param("short", None, ["short"], id="no limit"),
        pytest.param("x" * 5000, None, ["x" * 5000], id="no limit for a long one"),
        pytest.param("short", 5, ["short"], id="exactly as long as allowed"),
        pytest.param("  short\n", 5, ["short"], id="blanks around it do not count"),
        pytest.param("", 10, [""], id="nothing"),
        pytest.param(" \n ", 10, [""], id="nothing but blanks"),
        pytest.param("aaa\nbbb\n\nccc ddd. eee", 17, ["aaa\nbbb", "ccc ddd. eee"], id="paragraph before line"),
        pytest.param("aaa. bbb\nccc. ddd", 16, ["aaa. bbb", "ccc. ddd"], id="line before sentence"),
        pytest.param("aaa. bbb ccc", 11, ["aaa.", "bbb ccc"], id="sentence before word"),
        pytest.param("aaa! bbb? ccc ddd", 13, ["aaa! bbb?", "ccc ddd"], id="the last sentence that fits"),
        pytest.param("aaa bbb ccc", 9, ["aaa bbb", "ccc"], id="word before letter"),
        pytest.param("aaa bbb", 3, ["aaa", "bbb"], id="a blank right behind the limit"),
        pytest.param("abcdefgh", 3, ["abc", "def", "gh"], id="one endless word"),
        pytest.param(
            "a\n\nbbbb cccc dddd", 12, ["a\n\nbbbb cccc", "dddd"], id="no tiny first part for a paragraph"
        ),
        pytest.param("aaaa\n\n\n\n\nbbbb", 6, ["aaaa", "bbbb"], id="many empty lines"),
        pytest.param("ab", 1, ["a", "b"], id="a limit of one"),
        pytest.param("a\x00b\x00", None, ["ab"], id="zero bytes, which nobody can see or store"),
        pytest.param("\x00 \x00", 10, [""], id="nothing but zero bytes and blanks"),
    ],
)
def test_long_reply_is_cut_at_the_best_place(text: str, limit: int | None, parts: list[str]) -> None:
    """B75: paragraph before line, line before sentence, sentence before word."""
    assert split_reply(text, limit) == parts


def without_blanks(text: str) -> str:
    """What people can see of a text."""
    return "".join(text.replace("\x00", "").split())


replies = st.text(alphabet=st.sampled_from("ab.!… \n\t\u2003é😀"), max_size=200) | st.text(max_size=100)


@settings(database=None, max_examples=400)
@given(text=replies, limit=st.integers(1, 40))
@example(text="a" * 40 + "\n\n", limit=40)
@example(text="a \n\n b", limit=2)
@example(text="\x00", limit=1)
def test_parts_lose_nothing_but_blanks_and_keep_the_limit(text: str, limit: int) -> None:
    """B75: a long reply in parts is the same reply."""
    parts = split_reply(text, limit)
    assert without_blanks("".join(parts)) == without_blanks(text)
    assert all(len(part) <= limit for part in parts)
    assert all(part.strip() == part for part in parts)
    assert all(parts) or parts == [""]


@settings(database=None)
@given(text=replies, limit=st.integers(1, 40))
def test_parts_are_the_same_whenever_a_reply_is_cut(text: str, limit: int) -> None:
    """B75: a reply goes on at the right part after a restart."""
    assert split_reply(text, limit) == split_reply(text, limit)
    assert [again for part in split_reply(text, limit) for again in split_reply(part, limit)] == split_reply(
        text, limit
    )


@settings(database=None)
@given(words=st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=40), limit=st.integers(11, 40))
def test_words_stay_whole_when_they_are_shorter_than_the_limit(words: list[str], limit: int) -> None:
    assert " ".join(split_reply(" ".join(words), limit)).split() == words
