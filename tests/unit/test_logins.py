"""Scopes of logins: what the home's token has, and what a message needs.

Drives `core/logins` and `core/texts/questions`.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure.core import texts
from perdure.core.entries import QuestionAnswered
from perdure.core.logins import ALL_SCOPES, Scope, decode_scopes, encode_scopes, home_token_scopes, message_scope
from perdure.core.messages import Sender
from perdure.web.routes import route


def test_b107_home_token_approves_only_behind_a_sandbox() -> None:
    assert home_token_scopes(sandbox_in_force=True) == ALL_SCOPES
    assert home_token_scopes(sandbox_in_force=False) == ALL_SCOPES - {Scope.APPROVE}


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("/approve", Scope.APPROVE),
        ("\n /Deny@our_bot t_1.c1", Scope.APPROVE),
        ("/background approve 2", Scope.APPROVE),
        ("/background deny #2 t_1.c1", Scope.APPROVE),
        ("/restart", Scope.OPERATE),
        ("/background approve the plan", Scope.CHAT),
        ("/background stop 2", Scope.CHAT),
        ("/stop", Scope.CHAT),
        ("approve", Scope.CHAT),
        ("hello", Scope.CHAT),
    ],
)
def test_b107_message_needs_the_scope_of_the_command_that_it_is(text: str, scope: Scope) -> None:
    assert message_scope(text) is scope


def test_scopes_are_spelled_in_one_order_and_unknown_words_give_no_right() -> None:
    assert encode_scopes(ALL_SCOPES) == "read,chat,operate,approve"
    assert decode_scopes("approve,read,fly") == {Scope.READ, Scope.APPROVE}
    assert decode_scopes("") == frozenset()


def test_b107_endpoint_without_a_scope_cannot_be_made_unless_it_needs_no_login() -> None:
    for login, scope in (("api", None), ("page", None), ("no", Scope.READ)):
        with pytest.raises(TypeError, match="/new"):
            route("GET", "/new", "something", login=login, scope=scope)(_endpoint)  # type: ignore[arg-type]


async def _endpoint(self: object, request: object) -> object: ...


APPROVED = QuestionAnswered("q", "approved", Sender("7", "Ann"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (APPROVED, "Ann (7)"),
        (replace(APPROVED, platform="telegram", source="12"), "Ann (7) on telegram, message 12"),
        (replace(APPROVED, by=Sender("owner"), platform="web", login="phone"), "owner on web, login phone"),
    ],
    ids=["as 0.2.0 wrote it", "by a message", "over HTTP"],
)
def test_b107_record_says_who_decided_where_and_by_what(answer: QuestionAnswered, said: str) -> None:
    assert texts.questions.answered_by(answer) == said
