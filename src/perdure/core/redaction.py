"""Texts without the secrets that somebody else may have put into them."""

from __future__ import annotations

from collections.abc import Iterable

MIN_SECRET_CHARACTERS = 8  # characters; shorter values are words of the language
REDACTED = "***"


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, however many of their words it has."""
    words = {word for secret in secrets for word in secret.split() if len(word) >= MIN_SECRET_CHARACTERS}
    for word in sorted(words, key=len, reverse=True):  # one may be a part of another
        text = text.replace(word, REDACTED)
    return text
