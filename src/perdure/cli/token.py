"""`perdure token`: print the home's own login token; add, list and revoke logins with scopes."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.cli.output import JsonOption, change_store, print_json, print_lines, read_store
from perdure.config import load_settings, parse_duration
from perdure.core import texts
from perdure.core.roles import TOKEN_HOLDER
from perdure.errors import BadLogin
from perdure.settings import DURATION_EXPECTED

app = typer.Typer(rich_markup_mode=None)
token_app = typer.Typer(
    help="Print the login token of this home; or add, list and revoke other logins.", invoke_without_command=True
)
app.add_typer(token_app, name="token")
LoginArgument = Annotated[str, typer.Argument(help="The name of a login, such as phone.", metavar="NAME")]


@token_app.callback()
def token(context: typer.Context) -> None:
    """Print the login token of this home; or add, list and revoke other logins."""
    if context.invoked_subcommand is not None:
        return
    from perdure.web.auth.token import ensure_token

    print_lines(ensure_token(load_settings().home))


@token_app.command("add")
def add(
    name: LoginArgument,
    scopes: Annotated[str, typer.Option(help="read, chat, operate and approve, with commas.")] = "read,chat",
    person: Annotated[
        str, typer.Option(help="Who has it: the id of somebody with a role on the web.")
    ] = TOKEN_HOLDER.id,
    expires: Annotated[str, typer.Option(help="After how long it ends, such as 30d; without it, never.")] = "",
    json: JsonOption = False,
) -> None:
    """Make a login for a program, a browser or a person, and show its token this once."""
    from perdure.operations.logins import add_login, parse_scopes
    from perdure.store.ids import wall_clock

    settings, wanted = load_settings(), parse_scopes(scopes)
    ends = wall_clock() + _milliseconds(expires) if expires else None
    made = asyncio.run(
        change_store(settings, lambda store: add_login(store, settings, name, person, wanted, ends))
    )
    if json:
        print_json(made)
    else:
        print_lines(texts.logins.added(made.name, made.person, made.scopes), err=True)
        print_lines(made.token)


@token_app.command("list")
def list_all(json: JsonOption = False) -> None:
    """List the logins that were added, without their tokens."""
    from perdure.operations.logins import list_logins, login_line
    from perdure.store.ids import wall_clock

    now = wall_clock()
    found = asyncio.run(read_store(load_settings(), lambda store: list_logins(store, now)))
    if json:
        print_json(found)
    else:
        print_lines(*[login_line(each, now) for each in found] or [texts.logins.NONE_ADDED])


@token_app.command("revoke")
def revoke(name: LoginArgument, json: JsonOption = False) -> None:
    """End a login, and with it every browser that logged in by it."""
    from perdure.operations.logins import revoke_login

    asyncio.run(change_store(load_settings(), lambda store: revoke_login(store, name)))
    if json:
        print_json({"name": name, "revoked": True})
    else:
        print_lines(texts.logins.revoked(name))


def _milliseconds(text: str) -> int:
    seconds = parse_duration(text)
    if not seconds:
        raise BadLogin(texts.logins.bad_duration(text), hint=f"Give {DURATION_EXPECTED}, and more than 0.")
    return int(seconds * 1000)
