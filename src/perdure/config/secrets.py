"""The secrets that logs leave out: the settings that are marked as secret, and keys in the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct, inspect

from perdure.config.catalogue import SETTINGS_BY_KEY
from perdure.settings import Settings

# The ends of names of environment variables that hold a secret, such as `OPENAI_API_KEY`.
SECRET_SUFFIXES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


def collect_secrets(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Every secret of the settings and of the environment, as it may turn up in a text."""
    return [secret for secret in {*configured_secrets(settings), *secret_variables(environ)} if secret]


def secret_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """The values of environment variables whose names end as those of keys do."""
    yield from (value for name, value in environ.items() if name.endswith(SECRET_SUFFIXES))


def configured_secrets(settings: Settings) -> Iterator[str]:
    """The texts in every setting that its Struct marks as secret."""
    for setting in SETTINGS_BY_KEY.values():
        if setting.secret:
            for text in _texts(attrgetter(setting.key)(settings)):
                yield from _url_passwords(text) if setting.secret_password else (text,)


def _texts(value: object) -> Iterator[str]:
    """Every text in a secret value; of a Struct, such as an MCP server, only its fields marked as secret."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, Struct):
        for field in cast("inspect.StructType", inspect.type_info(type(value))).fields:
            if isinstance(field.type, inspect.Metadata) and (field.type.extra or {}).get("secret"):
                yield from _texts(getattr(value, field.name))


def _url_passwords(url: str) -> tuple[str, str]:
    """The password of a URL, as the URL spells it and as it is meant."""
    password = urlsplit(url).password or ""
    return password, unquote(password)
