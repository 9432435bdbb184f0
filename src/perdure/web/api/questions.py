"""Answers to what the agent asks, over HTTP: questions, and calls that wait for approval."""

from __future__ import annotations

from starlette.requests import Request

from perdure.runtime.gateway import Gateway
from perdure.web.requests import read_json
from perdure.web.responses import HttpRefusal
from perdure.web.routes import json_route
from perdure.web.schemas.chats import (
    AnswerQuestionRequest,
    ApprovalResponse,
    DecideApprovalRequest,
    QuestionAnswerResponse,
)

ANSWER_EXAMPLE = 'Send JSON such as {"answer": "Left"}.'
APPROVAL_EXAMPLE = 'Send JSON such as {"approve": true}.'


class QuestionApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @json_route(
        "POST",
        "/api/questions/{id:path}/answer",
        'answers a question of the agent, with `{"answer": …}`',
        QuestionAnswerResponse,
        body=AnswerQuestionRequest,
    )
    async def answer(self, request: Request) -> QuestionAnswerResponse:
        """Answer a question that a turn waits with."""
        given = await read_json(request, AnswerQuestionRequest, ANSWER_EXAMPLE)
        if not given.answer.strip() or "\0" in given.answer:
            raise HttpRefusal(400, "answer: expected some words, and no NUL (U+0000) in them", ANSWER_EXAMPLE)
        name = _read_question_id(request)
        if not await self._gateway.operator_verbs.answer_question(name, given.answer):
            raise HttpRefusal(
                404, f"no question {name[:80]!r} waits for an answer", "It may have been answered already."
            )
        return QuestionAnswerResponse(name, answered=True)

    @json_route(
        "POST",
        "/api/approvals/{id:path}",
        'lets a call run that waits for approval, or not: `{"approve": true}` or `false`',
        ApprovalResponse,
        body=DecideApprovalRequest,
    )
    async def decide_approval(self, request: Request) -> ApprovalResponse:
        """Approve or deny a call."""
        given, name = await read_json(request, DecideApprovalRequest, APPROVAL_EXAMPLE), _read_question_id(request)
        verdict = await self._gateway.operator_verbs.decide_approval(name, approve=given.approve)
        if verdict == "nothing":
            raise HttpRefusal(
                404, f"nothing named {name[:80]!r} waits for approval", "It may have been decided already."
            )
        return ApprovalResponse(name, verdict)


def _read_question_id(request: Request) -> str:
    """The name of what is answered. None of ours holds a zero, and PostgreSQL could not even be asked for it."""
    name: str = request.path_params["id"]
    return name.replace("\0", "?")
