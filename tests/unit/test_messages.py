"""What comes in and goes out: the key of an event, and the values that the store keeps as JSON.

Drives `core/messages`.
"""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.address import Address
from perdure.core.messages import Attachment, Inbound, Outbound, Sender

HERE = Address("telegram", "group", "-5", "7")
EVENT = Inbound(HERE, "42", Sender("1", "Ada"), "hello")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(msgspec.structs.replace(EVENT, text="hello!"), id="text"),
        pytest.param(msgspec.structs.replace(EVENT, sender=Sender("1", "Ada L.")), id="name of the sender"),
        pytest.param(msgspec.structs.replace(EVENT, sent_at=99), id="time"),
        pytest.param(msgspec.structs.replace(EVENT, attachments=(Attachment("a", "b"),)), id="attachments"),
    ],
)
def test_event_key_is_the_same_when_the_same_event_comes_again(other: Inbound) -> None:
    """B71: whatever a redelivery changes, the event is the same."""
    assert other.event_key == EVENT.event_key


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(msgspec.structs.replace(EVENT, message="43"), id="message"),
        pytest.param(msgspec.structs.replace(EVENT, account="second"), id="account"),
        pytest.param(msgspec.structs.replace(EVENT, address=Address("telegram", "group", "-6", "7")), id="chat"),
        pytest.param(
            msgspec.structs.replace(EVENT, address=Address("discord", "group", "-5", "7")), id="platform"
        ),
    ],
)
def test_event_key_differs_when_it_is_another_event(other: Inbound) -> None:
    """B71: keyed by account, kind, chat and message id."""
    assert other.event_key != EVENT.event_key


def test_event_keys_are_told_apart_when_ids_have_colons() -> None:
    one = Inbound(Address("irc", "dm", "a:b"), "c", Sender("1"), "x")
    other = Inbound(Address("irc", "dm", "a"), "b:c", Sender("1"), "x")
    assert one.event_key != other.event_key


def test_inbound_message_reads_back_from_json() -> None:
    photo = Attachment("photo.jpg", "tg:9", "image/jpeg", 1234)
    message = msgspec.structs.replace(EVENT, sent_at=5, attachments=(photo,))
    assert msgspec.json.decode(msgspec.json.encode(message), type=Inbound) == message


def test_inbound_message_reads_back_when_it_has_the_least() -> None:
    body = b'{"address":{"platform":"web","kind":"dm","chat":"1"},"message":"m","sender":{"id":"1"},"text":"x"}'
    message = msgspec.json.decode(body, type=Inbound)
    assert (message.account, message.kind, message.sent_at, message.attachments) == (
        "default",
        "message",
        None,
        (),
    )
    assert (message.address.thread, message.sender.name) == (None, "")


def test_values_do_not_change_when_they_are_passed_around() -> None:
    outbound = Outbound(HERE, "hi", "t1:0")
    with pytest.raises(AttributeError):
        outbound.text = "changed"  # type: ignore[misc]
