"""Sessions, their turns, questions, replies and recovery decisions over HTTP, with the verbs of operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import structs
from starlette.requests import Request

from perdure.core import texts
from perdure.core.delivery import OutboxVerb
from perdure.core.logins import Scope
from perdure.errors import StillRuns
from perdure.operations.inspect import (
    explain_session,
    find_delivery,
    find_session,
    list_deliveries,
    list_sessions,
    outbox_verb_response,
    session_resource,
)
from perdure.operations.resources import (
    DecisionListResponse,
    OutboxResponse,
    OutboxVerbResponse,
    SessionResource,
    TurnTimelineResponse,
    cut_page,
)
from perdure.operations.timeline import list_decisions, list_turns, turn_timeline
from perdure.store.sessions import Session
from perdure.web.api.gateway import gateway_status
from perdure.web.auth.login import login_of
from perdure.web.requests import (
    read_after,
    read_answer,
    read_approval,
    read_decisions_after,
    read_delivery_states,
    read_path_id,
    read_question_id,
    read_session_filter,
    read_session_name,
)
from perdure.web.responses import HttpRefusal
from perdure.web.routes import GatewayApi, json_route
from perdure.web.schemas import (
    AnswerQuestionRequest,
    ApprovalResponse,
    DecideApprovalRequest,
    QuestionAnswerResponse,
    ResumeAllResponse,
    SessionListResponse,
    SessionVerbResponse,
    StatusResponse,
)

PAGE_SIZE = 100


class SessionApi(GatewayApi):
    @json_route("GET", "/api/status", "how the gateway is", StatusResponse, scope=Scope.READ)
    async def status(self, _: Request) -> StatusResponse:
        return await gateway_status(self._gateway)

    @json_route(
        "GET",
        "/api/sessions",
        "sessions with their recovery state, see [below](#look-after-sessions); `after` pages by id",
        SessionListResponse,
        query=("state", "turn", "key", "order", "after"),
        scope=Scope.READ,
    )
    async def list(self, request: Request) -> SessionListResponse:
        after, which = read_after(request, "session"), read_session_filter(request.query_params)
        found = await list_sessions(self._gateway.store, after, PAGE_SIZE + 1, which)
        return SessionListResponse(*cut_page(found, PAGE_SIZE))

    @json_route(
        "GET",
        "/api/sessions/{session:path}",
        "one session, by its id or key, why it stands as it does, and its turns",
        SessionResource,
        query=("after",),
        scope=Scope.READ,
    )
    async def get(self, request: Request) -> SessionResource:
        store, session = self._gateway.store, await self._find_session(request)
        found = await session_resource(store, session)
        turns, more = await list_turns(store, session.id, read_after(request, "turn"))
        why = await explain_session(store, session.id, self._gateway.operator_verbs.clock)
        return structs.replace(found, why=why, turns=turns, more=more)

    @json_route(
        "POST",
        "/api/sessions/{session:path}/{verb}",
        "`resume`, `drop`, `stop`, `suspend` or `erase` it",
        SessionVerbResponse,
        scope=Scope.OPERATE,
    )
    async def act(self, request: Request) -> SessionVerbResponse:
        """Apply `resume`, `drop`, `stop`, `suspend` or `erase` to a session."""
        operators = self._gateway.operator_verbs
        verbs: dict[str, Callable[[Session], Awaitable[bool]]] = {
            "resume": operators.resume,
            "drop": operators.drop,
            "stop": operators.stop,
            "suspend": operators.suspend,
        }
        verb = request.path_params["verb"]
        if verb == "erase":
            return await self._erase_session(request)
        if verb not in verbs:
            raise HttpRefusal(404, texts.http.unknown_verb(verb), texts.http.verbs([*verbs, "erase"]))
        session = await self._find_session(request)
        return SessionVerbResponse(session.id, verb, await verbs[verb](session))

    async def _erase_session(self, request: Request) -> SessionVerbResponse:
        """Erase the session of that id, or every session that the key ever had."""
        name = read_session_name(request)
        try:
            erased = await self._gateway.operator_verbs.erase(name)
        except StillRuns as error:
            raise HttpRefusal(409, error.message, error.hint or "") from error
        return SessionVerbResponse(name, "erase", bool(erased), erased)

    @json_route(
        "POST", "/api/resume", "lets go on what a crash loop has paused", ResumeAllResponse, scope=Scope.OPERATE
    )
    async def resume_all(self, _: Request) -> ResumeAllResponse:
        return ResumeAllResponse(await self._gateway.operator_verbs.lift_recovery_pause())

    async def _find_session(self, request: Request) -> Session:
        return await find_session(self._gateway.store, read_session_name(request))


class TurnApi(GatewayApi):
    @json_route(
        "GET",
        "/api/turns/{id}",
        "the whole life of a turn, see [below](#look-into-a-turn)",
        TurnTimelineResponse,
        scope=Scope.READ,
    )
    async def get(self, request: Request) -> TurnTimelineResponse:
        return await turn_timeline(self._gateway.store, read_path_id(request, "id", "turn"))

    @json_route(
        "GET",
        "/api/decisions",
        "what recovery decided, in words, newest first; `after` pages by `next`",
        DecisionListResponse,
        query=("after",),
        scope=Scope.READ,
    )
    async def decisions(self, request: Request) -> DecisionListResponse:
        return await list_decisions(self._gateway.store, read_decisions_after(request), PAGE_SIZE)


class QuestionApi(GatewayApi):
    @json_route(
        "POST",
        "/api/questions/{id:path}/answer",
        'answers a question of the agent, with `{"answer": …}`',
        QuestionAnswerResponse,
        body=AnswerQuestionRequest,
        scope=Scope.CHAT,
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
    )
    async def decide_approval(self, request: Request) -> ApprovalResponse:
        """Approve or deny a call."""
        approve, name = await read_approval(request), read_question_id(request)
        verdict = await self._gateway.operator_verbs.decide_approval(name, login_of(request), approve=approve)
        if verdict == "nothing":
            raise HttpRefusal(404, texts.http.no_open_approval(name), texts.http.MAYBE_DECIDED)
        return ApprovalResponse(name, verdict)


class OutboxApi(GatewayApi):
    @json_route(
        "GET",
        "/api/outbox",
        "replies, newest first, of one or more `state`s; `after` pages by `next`",
        OutboxResponse,
        query=("state", "after"),
        scope=Scope.READ,
    )
    async def list(self, request: Request) -> OutboxResponse:
        states, after = read_delivery_states(request), read_after(request, "reply")
        return await list_deliveries(self._gateway.store, states, after, PAGE_SIZE)

    @json_route(
        "POST",
        "/api/outbox/{id}/{verb}",
        "`resend` or `drop` a reply, see [below](#look-after-replies)",
        OutboxVerbResponse,
        scope=Scope.OPERATE,
    )
    async def act(self, request: Request) -> OutboxVerbResponse:
        """Apply `resend` or `drop` to a reply."""
        verb = request.path_params["verb"]
        if verb not in tuple(OutboxVerb):
            raise HttpRefusal(404, texts.http.unknown_verb(verb), texts.http.verbs(OutboxVerb))
        row = await find_delivery(self._gateway.store, read_path_id(request, "id", "reply"))
        operators = self._gateway.operator_verbs
        result = await (
            operators.resend_delivery(row) if verb == OutboxVerb.RESEND else operators.drop_delivery(row)
        )
        response = outbox_verb_response(OutboxVerb(verb), result)
        if result.outcome == "refused":
            raise HttpRefusal(409, texts.http.outbox_verb_refused(row.state, verb), response.said)
        return response
