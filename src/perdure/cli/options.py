"""Arguments and options that commands of several modules share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
