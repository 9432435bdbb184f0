"""What the tool `fetch_url` answers."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.texts import phrases


def bad_url(url: str, why: str) -> str:
    return (
        f"`{phrases.clip(url, 200)}` cannot be fetched: {why}. Give an address such as https://example.org/page."
    )


def unknown_host(host: str) -> str:
    return f"There is no host `{phrases.clip(host, 200)}`, or its name cannot be looked up just now."


def not_public(host: str, address: str) -> str:
    return f"`{phrases.clip(host, 200)}` ({address}) is not on the public internet, so it is not fetched."


def too_many_redirects(url: str, limit: int) -> str:
    return f"`{phrases.clip(url, 200)}` leads on and on: more than {limit} redirects were not followed."


def failed(url: str, problems: Sequence[str]) -> str:
    return f"`{phrases.clip(url, 200)}` could not be fetched: {'; '.join(dict.fromkeys(problems))}."


def timed_out(url: str, seconds: float) -> str:
    return f"`{phrases.clip(url, 200)}` was given up: it was not read to its end within {seconds:g} s."


def http_error(url: str, status: str, text: str) -> str:
    begins = f" Its answer begins:\n{phrases.clip(text.strip(), 1000)}" if text.strip() else ""
    return f"`{phrases.clip(url, 200)}` answered {status}.{begins}"


def page(url: str, kind: str, text: str, limit: int | None) -> str:
    cut = f", only the first {limit} bytes" if limit is not None else ""
    return (
        f"`{phrases.clip(url, 2000)}` ({kind or 'no type given'}{cut}):\n\n{text.strip() or '(nothing to read)'}"
    )


def not_text(kind: str, size: str) -> str:
    return f"(This is not text but {kind or 'something else'}, {f'{size} bytes' if size else 'of unknown size'}.)"


def raw_page(page: str) -> str:
    return f"(The page is written in a way that cannot be made readable. It begins:)\n{page[:5000]}"


def unknown_encoding(encoding: str) -> str:
    return f"(The server packed its answer in a way that cannot be unpacked: {phrases.clip(encoding, 100)}.)"
