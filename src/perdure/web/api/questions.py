"""Answers to what the agent asks, over HTTP: questions, and calls that wait for approval."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perdure.runtime.gateway import Gateway
from perdure.web.requests import read_json
from perdure.web.responses import HttpRefusal, json_response
from perdure.web.routes import route
from perdure.web.schemas.resources import ApprovalResponse, QuestionAnswerResponse

ANSWER_EXAMPLE = 'Send JSON such as {"answer": "Left"}.'
APPROVAL_EXAMPLE = 'Send JSON such as {"approve": true}.'


class AnswerQuestionRequest(msgspec.Struct, forbid_unknown_fields=True):
    answer: str


class DecideApprovalRequest(msgspec.Struct, forbid_unknown_fields=True):
    approve: bool


class QuestionApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @route(
        "POST",
        "/api/questions/{id:path}/answer",
        'answers a question of the agent, with `{"answer": …}`',
        body=AnswerQuestionRequest,
        response_type=QuestionAnswerResponse,
    )
    async def answer(self, request: Request) -> Response:
        """Answer a question that a turn waits with."""
        given = await read_json(request, AnswerQuestionRequest, ANSWER_EXAMPLE)
        if not given.answer.strip() or "\0" in given.answer:
            raise HttpRefusal(400, "answer: expected some words, and no NUL (U+0000) in them", ANSWER_EXAMPLE)
        name = _read_question_id(request)
        if not await self._gateway.operator_verbs.answer_question(name, given.answer):
            raise HttpRefusal(
                404, f"no question {name[:80]!r} waits for an answer", "It may have been answered already."
            )
        return json_response({"question": name, "answered": True})

    @route(
        "POST",
        "/api/approvals/{id:path}",
        'lets a call run that waits for approval, or not: `{"approve": true}` or `false`',
        body=DecideApprovalRequest,
        response_type=ApprovalResponse,
    )
    async def decide_approval(self, request: Request) -> Response:
        """Approve or deny a call."""
        given, name = await read_json(request, DecideApprovalRequest, APPROVAL_EXAMPLE), _read_question_id(request)
        verdict = await self._gateway.operator_verbs.decide_approval(name, approve=given.approve)
        if verdict == "nothing":
            raise HttpRefusal(
                404, f"nothing named {name[:80]!r} waits for approval", "It may have been decided already."
            )
        return json_response({"approval": name, "verdict": verdict})


def _read_question_id(request: Request) -> str:
    """The name of what is answered. None of ours holds a zero, and PostgreSQL could not even be asked for it."""
    name: str = request.path_params["id"]
    return name.replace("\0", "?")
