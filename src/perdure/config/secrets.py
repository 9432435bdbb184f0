"""What must show up nowhere: the secrets among the settings, and keys in the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

from perdure.settings import Settings

SECRET_SUFFIXES = (
    "_KEY",
    "_TOKEN",
    "_SECRET",
    "_PASSWORD",
)  # how variables end that hold one, `OPENAI_API_KEY` for one


def collect_secrets(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Every secret that we know of, as it may turn up in a text."""
    return [secret for secret in {*_configured_secrets(settings), *secret_variables(environ)} if secret]


def secret_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Keys for others, which the gateway was given as variables."""
    yield from (value for name, value in environ.items() if name.endswith(SECRET_SUFFIXES))


def _configured_secrets(settings: Settings) -> Iterator[str]:
    yield settings.model.api_key or ""
    yield settings.platforms.telegram.token or ""
    password = urlsplit(settings.store.url or "").password or ""
    yield from (password, unquote(password))
    for server in settings.tools.mcp.values():
        yield from (*server.env.values(), *server.headers.values())
