"""How commands read the database and print what they found or did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import typer

from perdure.config import Settings

if TYPE_CHECKING:
    from perdure.store.api import Store

T = TypeVar("T")


def print_outcome(done: bool, if_done: str, if_not: str) -> None:
    """Print one of two sentences; the exit code is 1 if nothing was done."""
    typer.echo(if_done if done else if_not)
    if not done:
        raise typer.Exit(1)


def format_json(value: Any) -> str:
    """The value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


async def read_store(settings: Settings, query: Callable[[Store], Awaitable[T]]) -> T:
    """Query the database read-only, whether or not a gateway is using it."""
    from perdure.store.api import Store
    from perdure.store.backends.read_only import open_read_only

    store = Store(await open_read_only(settings.store_url))
    try:
        return await query(store)
    finally:
        await store.close()
