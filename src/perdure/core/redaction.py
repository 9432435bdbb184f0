"""Removes secrets from texts, such as the error messages of others."""

from __future__ import annotations

from collections.abc import Iterable

MIN_SECRET_CHARACTERS = 8  # shorter values are not removed: they may be ordinary words
REDACTED = "***"


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets and without any of their words."""
    words = {word for secret in secrets for word in secret.split() if len(word) >= MIN_SECRET_CHARACTERS}
    for word in sorted(words, key=len, reverse=True):  # one may be a part of another
        text = text.replace(word, REDACTED)
    return text
