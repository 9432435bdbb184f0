"""`perdure people` and `pair`: list who may talk to the agent, and change that."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
import typer

from perdure.cli.output import (
    InChatOption,
    JsonOption,
    NameOption,
    PersonArgument,
    RoleOption,
    print_json,
    print_lines,
    print_outcome,
    read_store,
)
from perdure.config import load_settings
from perdure.core import texts

app = typer.Typer(rich_markup_mode=None)
people_app = typer.Typer(
    help="List who is known and who asks to be let in, or change that.", invoke_without_command=True
)
app.add_typer(people_app, name="people")


@app.command()
def pair(
    code: Annotated[str, typer.Argument(help="The code that they were told, such as ABCD-EFGH.")],
    role: RoleOption = "member",
    chat: Annotated[str, typer.Option(help="here (the chat where they asked) or everywhere.")] = "everywhere",
) -> None:
    """Let in somebody whom the agent does not know yet."""
    if chat not in ("here", "everywhere"):
        raise typer.BadParameter(texts.cli.pair_where(chat))
    _change_people("pair", code=code, role=role, here=chat == "here")


@people_app.callback()
def people(context: typer.Context, json: JsonOption = False) -> None:
    """List who is known and who asks to be let in, or change that."""
    if context.invoked_subcommand is not None:
        return
    from perdure.operations.people import PeopleVerbs, people_lines
    from perdure.store.ids import wall_clock

    settings = load_settings()
    found = asyncio.run(read_store(settings, lambda store: PeopleVerbs(settings, store).page(limit=100_000)))
    if json:
        print_json(found)
    else:
        print_lines(*people_lines(found, wall_clock()))


@people_app.command("add")
def add_person(
    who: PersonArgument, role: RoleOption = "member", chat: InChatOption = None, name: NameOption = ""
) -> None:
    """Let somebody in without a code."""
    _change_people("add", who=who, role=role, chat=chat or "", name=name)


@people_app.command("role")
def change_role(
    who: PersonArgument,
    role: Annotated[str, typer.Argument(help="owner, member or guest.")],
    chat: InChatOption = None,
) -> None:
    """Give somebody who is known another role."""
    _change_people("role", who=who, role=role, chat=chat or "")


@people_app.command("remove")
def remove_person(who: PersonArgument, chat: InChatOption = None) -> None:
    """Make somebody unknown: what they wrote and still waits is not answered, and nothing of theirs goes on."""
    _change_people("remove", who=who, chat=chat)


def _change_people(verb: str, **arguments: Any) -> None:
    """Ask the running gateway; if there is none, change the database itself."""
    from perdure.cli import gateway_client
    from perdure.errors import GatewayNotRunning
    from perdure.operations.people import without_gateway

    settings = load_settings()
    try:
        found = gateway_client.call(settings, "POST", f"/api/people/{verb}", arguments)
    except GatewayNotRunning:
        found = msgspec.to_builtins(
            asyncio.run(without_gateway(settings, lambda people: getattr(people, verb)(**arguments)))
        )
    print_outcome(found["done"], found["said"], found["said"])
