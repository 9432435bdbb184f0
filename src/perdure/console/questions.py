"""Answers to what the agent asks, over HTTP: questions, and calls that wait for approval."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perdure.console.answers import Refusal, answer
from perdure.console.bodies import read_json
from perdure.console.routes import call
from perdure.console.shapes import AnsweredQuestion, JudgedCall
from perdure.runtime.gateway import Gateway

ANSWER_EXAMPLE = 'Send JSON such as {"answer": "Left"}.'
VERDICT_EXAMPLE = 'Send JSON such as {"approve": true}.'


class Answering(msgspec.Struct, forbid_unknown_fields=True):
    answer: str


class Judging(msgspec.Struct, forbid_unknown_fields=True):
    approve: bool


class QuestionApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call(
        "POST",
        "/api/questions/{id:path}/answer",
        'answers a question of the agent, with `{"answer": …}`',
        body=Answering,
        answer=AnsweredQuestion,
    )
    async def answer(self, request: Request) -> Response:
        """Answer a question that a turn waits with."""
        given = await read_json(request, Answering, ANSWER_EXAMPLE)
        if not given.answer.strip() or "\0" in given.answer:
            raise Refusal(400, "answer: expected some words, and no NUL (U+0000) in them", ANSWER_EXAMPLE)
        name = _name(request)
        if not await self._gateway.operators.answer(name, given.answer):
            raise Refusal(
                404, f"no question {name[:80]!r} waits for an answer", "It may have been answered already."
            )
        return answer({"question": name, "answered": True})

    @call(
        "POST",
        "/api/approvals/{id:path}",
        'lets a call run that waits for approval, or not: `{"approve": true}` or `false`',
        body=Judging,
        answer=JudgedCall,
    )
    async def judge(self, request: Request) -> Response:
        """Approve or deny a call."""
        given, name = await read_json(request, Judging, VERDICT_EXAMPLE), _name(request)
        verdict = await self._gateway.operators.judge(name, approve=given.approve)
        if verdict == "nothing":
            raise Refusal(
                404, f"nothing named {name[:80]!r} waits for approval", "It may have been decided already."
            )
        return answer({"approval": name, "verdict": verdict})


def _name(request: Request) -> str:
    """The name of what is answered. None of ours holds a zero, and PostgreSQL could not even be asked for it."""
    name: str = request.path_params["id"]
    return name.replace("\0", "?")
