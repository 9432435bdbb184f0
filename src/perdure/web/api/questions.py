"""Answers to the agent's questions, and approvals of its calls, over HTTP."""

from __future__ import annotations

from starlette.requests import Request

from perdure.core import texts
from perdure.core.logins import Scope
from perdure.web.auth.login import login_of
from perdure.web.requests import read_answer, read_approval, read_question_id
from perdure.web.responses import HttpRefusal
from perdure.web.routes import GatewayApi, json_route
from perdure.web.schemas import (
    AnswerQuestionRequest,
    ApprovalResponse,
    DecideApprovalRequest,
    QuestionAnswerResponse,
)


class QuestionApi(GatewayApi):
    @json_route(
        "POST",
        "/api/questions/{id:path}/answer",
        'answers a question of the agent, with `{"answer": …}`',
        QuestionAnswerResponse,
        body=AnswerQuestionRequest,
        scope=Scope.CHAT,
        own=True,
    )
    async def answer(self, request: Request) -> QuestionAnswerResponse:
        """Answer a question that a turn waits for."""
        answer, name = await read_answer(request), read_question_id(request)
        if not await self._gateway.operator_verbs.answer_question(name, answer, login_of(request)):
            raise HttpRefusal(404, texts.http.no_open_question(name), texts.http.MAYBE_ANSWERED)
        return QuestionAnswerResponse(name, answered=True)

    @json_route(
        "POST",
        "/api/approvals/{id:path}",
        'lets a call run that waits for approval, or not: `{"approve": true}` or `false`',
        ApprovalResponse,
        body=DecideApprovalRequest,
        scope=Scope.APPROVE,
        own=True,
    )
    async def decide_approval(self, request: Request) -> ApprovalResponse:
        """Approve or deny a call."""
        approve, name = await read_approval(request), read_question_id(request)
        verdict = await self._gateway.operator_verbs.decide_approval(name, login_of(request), approve=approve)
        if verdict == "nothing":
            raise HttpRefusal(404, texts.http.no_open_approval(name), texts.http.MAYBE_DECIDED)
        return ApprovalResponse(name, verdict)
