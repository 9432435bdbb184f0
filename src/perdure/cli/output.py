"""What commands share: options, how they read the database, and how they print.

Every command prints by `print_lines` or `print_json`: what others chose, such as names and titles, has no effect
on the terminal there, and no line of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from perdure.config import Settings
from perdure.core.printable_text import escape_json, printable_line
from perdure.errors import LockHeld

if TYPE_CHECKING:
    from perdure.store.api import Store


SessionArgument = Annotated[
    str, typer.Argument(help="The id or the key of a session; `perdure sessions` lists them.")
]
OptionalSessionArgument = Annotated[str | None, typer.Argument(help="The id or the key of a session.")]
AllOption = Annotated[bool, typer.Option("--all", help="Let everything go on that a crash loop has paused.")]
MessageArgument = Annotated[str, typer.Argument(help="The id of a message, ours or the platform's.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file, not to the terminal.")
]
ChatOption = Annotated[str, typer.Option(help="The name of the chat: each one is a conversation of its own.")]
PersonArgument = Annotated[
    str, typer.Argument(help="A platform and an id on it, such as telegram:1234.", metavar="PLATFORM:ID")
]
RoleOption = Annotated[str, typer.Option(help="owner, member or guest.")]
InChatOption = Annotated[
    str | None, typer.Option("--chat", help="Only in the chat of that id; without it, everywhere.")
]
NameOption = Annotated[str, typer.Option("--name", help="What to call them.")]


T = TypeVar("T")


def print_outcome(done: bool, if_done: str, if_not: str) -> None:
    """Print one of two sentences; the exit code is 1 if nothing was done."""
    print_lines(if_done if done else if_not)
    if not done:
        raise typer.Exit(1)


def print_lines(*lines: str, err: bool = False) -> None:
    """Print each of these as one line, without control characters and direction marks."""
    for line in lines:
        typer.echo(printable_line(line), err=err)


def print_json(value: Any) -> None:
    """Print the value as indented JSON, with characters that have an effect on a terminal as escapes."""
    typer.echo(escape_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


async def change_store(settings: Settings, change: Callable[[Store], Awaitable[T]]) -> T:
    """Change the database itself, whether or not a gateway is using it: only what no gateway keeps in memory."""
    from perdure.store.api import Store, open_database
    from perdure.store.backends.read_only import open_beside_gateway

    try:
        store = Store(await open_database(settings.store_url, home=settings.home))
    except LockHeld:
        store = Store(await open_beside_gateway(settings.store_url))
    try:
        return await change(store)
    finally:
        await store.close()


async def read_store(settings: Settings, query: Callable[[Store], Awaitable[T]]) -> T:
    """Query the database read-only, whether or not a gateway is using it."""
    from perdure.store.api import Store
    from perdure.store.backends.read_only import open_read_only

    store = Store(await open_read_only(settings.store_url))
    try:
        return await query(store)
    finally:
        await store.close()
