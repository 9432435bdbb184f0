"""Texts as Telegram measures and formats them: in UTF-16 units, with entities."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from perdure.testing.telegram.faults import bad_request

MAX_TEXT_UNITS = 4096
MAX_CAPTION_UNITS = 1024

ENTITY_KINDS = frozenset(
    [
        "mention",
        "hashtag",
        "cashtag",
        "bot_command",
        "url",
        "email",
        "phone_number",
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "blockquote",
        "expandable_blockquote",
        "code",
        "pre",
        "text_link",
        "text_mention",
        "custom_emoji",
        "date_time",
    ]
)
_TAGS = {"b": "bold", "i": "italic", "u": "underline", "s": "strikethrough", "code": "code", "pre": "pre"}
_TAGS |= {"strong": "bold", "em": "italic", "a": "text_link", "blockquote": "blockquote"}
_TAG = re.compile(r"<(/?)([a-z]+)([^<>]*)>", re.IGNORECASE)
_AUTO_ENTITY = re.compile(r"(?P<bot_command>(?<!\S)/[A-Za-z0-9_]+(?:@\w+)?)|(?P<mention>(?<!\w)@\w{5,})")


def units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2


def detect_entities(text: str) -> list[dict[str, Any]]:
    """Return the entities that Telegram detects in a text of a person."""
    return [
        {"type": each.lastgroup, "offset": units(text[: each.start()]), "length": units(each[0])}
        for each in _AUTO_ENTITY.finditer(text)
    ]


def parse_text(params: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Parse the text of a message to send into text and entities; refuse what the service refuses."""
    text, mode = params.get("text", ""), params.get("parse_mode", "")
    entities = params.get("entities") or []
    if not isinstance(text, str):
        raise bad_request("message text must be a string")
    if mode:
        if mode.lower() != "html":
            raise bad_request("unsupported parse_mode")
        text, entities = _parse_html(text)
    else:
        _check_entities(text, entities)
    if not text.strip():
        raise bad_request("message text is empty")
    if units(text) > MAX_TEXT_UNITS:
        raise bad_request("message is too long")
    return text, entities


def parse_caption(params: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Parse the caption of a file, if there is one, into text and entities."""
    caption = params.get("caption") or ""
    if not caption:
        return "", []
    entities, mode = params.get("caption_entities"), params.get("parse_mode", "")
    text, marked = parse_text({"text": caption, "entities": entities, "parse_mode": mode})
    if units(text) > MAX_CAPTION_UNITS:
        raise bad_request("message caption is too long")
    return text, marked


def _check_entities(text: str, entities: Any) -> None:
    """Refuse wrong entities, also those that the real service would repair."""
    if not isinstance(entities, list):
        raise bad_request("can't parse entities: expected an Array of MessageEntity")
    raw = text.encode("utf-16-le")
    for each in entities:
        if each.get("type") not in ENTITY_KINDS:
            raise bad_request("can't parse MessageEntity: Unsupported type specified")
        begin, end = each["offset"], each["offset"] + each["length"]
        inside = 0 <= begin < end <= len(raw) // 2
        halves = [raw[2 * at + 1] & 0xFC == 0xDC for at in (begin, end) if 0 <= at < len(raw) // 2]
        if not inside or any(halves):
            raise bad_request("ENTITY_BOUNDS_INVALID")
        if each["type"] == "text_link" and not re.match(r"(https?|tg|mailto|tel|ftp):", each.get("url", "")):
            raise bad_request("ENTITY_TEXTURL_INVALID")
    for one in entities:
        for other in entities:
            a, b = one["offset"], one["offset"] + one["length"]
            c, d = other["offset"], other["offset"] + other["length"]
            if a < c < b < d:
                raise bad_request("ENTITY_BOUNDS_INVALID")


def _parse_html(source: str) -> tuple[str, list[dict[str, Any]]]:
    """Parse Telegram's HTML."""
    text, entities, stack, at = "", [], list[tuple[str, int, str]](), 0
    for tag in _TAG.finditer(source):
        text += _plain_text(source[at : tag.start()], at)
        at, name = tag.end(), tag[2].lower()
        place = len(source[: tag.start()].encode())
        if name not in _TAGS:
            raise bad_request(f'can\'t parse entities: Unsupported start tag "{name}" at byte offset {place}')
        if not tag[1]:
            stack.append((name, units(text), tag[3]))
            continue
        if not stack or stack[-1][0] != name:
            raise bad_request(f"can't parse entities: Unexpected end tag at byte offset {place}")
        _, begin, rest = stack.pop()
        if units(text) > begin:
            entity: dict[str, Any] = {"type": _TAGS[name], "offset": begin, "length": units(text) - begin}
            url = re.search(r'href="([^"]*)"', rest)
            entities.append(entity | ({"url": unescape(url[1])} if name == "a" and url else {}))
    if stack:
        raise bad_request(
            f"can't parse entities: Can't find end tag corresponding to start tag \"{stack[-1][0]}\""
        )
    return text + _plain_text(source[at:], at), entities


def _plain_text(source: str, at: int) -> str:
    if "<" in source:
        place = at + source.index("<")
        raise bad_request(f'can\'t parse entities: Unsupported start tag "" at byte offset {place}')
    return unescape(source)
