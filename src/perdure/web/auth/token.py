"""The login token: a file in the home directory that the first start creates for its owner alone."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from perdure.errors import ConfigurationError

MIN_TOKEN_CHARACTERS = 16  # of a token that an operator chose; generated ones have 43


def has_token(home: Path) -> bool:
    """Whether the home has a token."""
    return (home / "token").exists()


def is_token_shared(home: Path) -> bool:
    """Whether users other than its owner may read or write the token's file."""
    return bool(stat.S_IMODE((home / "token").stat().st_mode) & 0o077)


def ensure_token(home: Path) -> str:
    """The token of this home, created if there is none."""
    token = _load_token(home)
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ConfigurationError(
            f"the token in {home / 'token'} is too easy to guess: it has {len(token)} characters",
            hint=(
                "Delete the file, and `perdure token` makes a new one; one of your own needs "
                f"{MIN_TOKEN_CHARACTERS}."
            ),
        )
    return token


def _load_token(home: Path) -> str:
    try:
        return _read_or_create(home / "token")
    except OSError as error:
        raise ConfigurationError(
            f"the home directory {home} cannot be used: {error.strerror}",
            hint="Let this user write there, or choose another one with PERDURE_HOME.",
        ) from error


def _read_or_create(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = path.read_text().strip()
        return token or _replace_empty(path)
    with os.fdopen(descriptor, "w") as file:
        token = secrets.token_urlsafe(32)
        file.write(f"{token}\n")
    return token


def _replace_empty(path: Path) -> str:
    """Create the token again: a crash at the first start may leave an empty file."""
    path.unlink()
    return _read_or_create(path)


def tokens_match(given: str, token: str) -> bool:
    """Compare in constant time, so that timing reveals no prefix of the token."""
    return secrets.compare_digest(given.encode(), token.encode())
