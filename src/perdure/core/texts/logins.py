"""Logins of the HTTP API: what is said of their scopes, and what `perdure token` says."""

from __future__ import annotations

from collections.abc import Iterable

NAME_FORM = "Use 1 to 64 letters, digits, dots, hyphens and underscores; `home` is the home's own token."
NONE_ADDED = "No login was added. The home's own token is what `perdure token` prints."
WHO_MAY_APPROVE = (
    "This login may not decide it. One with the scope “approve” may: "
    "“perdure token add NAME --scopes read,approve” makes it."
)
OWN_CHATS_HINT = "This login reaches the chats, sessions, turns and processes of its own person."
LIST_HINT = "`perdure token list` shows those that there are."
HOME_CANNOT_BE_REVOKED = "the home's own token cannot be revoked"
REPLACE_HOME_TOKEN = "Stop the gateway, delete the file `token` in its home, and start it again."  # noqa: S105 reason: a sentence


def missing_scope(name: str, scope: str) -> str:
    return f"the login {name!r} lacks the scope `{scope}`, which this needs"


def missing_scope_hint(scope: str, *, of_home: bool = False) -> str:
    """What to do about it. The home's own token lacks a scope only while no sandbox hides it from commands."""
    why = "Commands of the agent could read the token in the home, so it approves nothing. " if of_home else ""
    given = scope if scope == "read" else f"read,{scope}"
    return f"{why}Use a login that has it: `perdure token add NAME --scopes {given}` makes one, and shows it once."


def unknown_scope(word: str) -> str:
    return f"{word!r} is no scope"


def known_scopes(scopes: Iterable[str]) -> str:
    return f"The scopes are {', '.join(scopes)}; write them with commas between them."


def bad_name(name: str) -> str:
    return f"a login cannot be named {name!r}"


def name_taken(name: str) -> str:
    return f"there is a login {name!r} already"


def revoke_first(name: str) -> str:
    return f"Choose another name, or end that one first: `perdure token revoke {name}`."


def unknown_login(name: str) -> str:
    return f"there is no login {name!r}"


def unknown_person(person: str) -> str:
    return f"{person!r} has no role on the web, so that a login of theirs may do nothing"


def let_in_first(person: str) -> str:
    return f"Let them in first: `perdure people add web:{person} --role member`, or `guest`, or `owner`."


def scope_beyond_role(person: str, role: str, scopes: Iterable[str]) -> str:
    return f"{person!r} is a {role} on the web, whose login cannot have the scope {', '.join(scopes)}"


def scopes_of_role(role: str, scopes: Iterable[str]) -> str:
    return f"A {role}'s login has {', '.join(scopes)} at most; an owner's may have all."


def owners_only(person: str, role: str) -> str:
    return f"this is for owners, and {person!r} is a {role} here"


def bad_duration(text: str) -> str:
    return f"{text!r} is no time after which a login can end"


def added(name: str, person: str, scopes: Iterable[str]) -> str:
    return f"The login {name!r} of {person} may {', '.join(scopes)}. Its token, which is shown this once:"


def revoked(name: str) -> str:
    return f"The login {name!r} has ended, and so have the browsers that logged in by it."
