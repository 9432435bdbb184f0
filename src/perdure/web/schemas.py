"""The request and response bodies of the HTTP API, by noun; fields stand in the order of the JSON keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from perdure.core.logins import Scope
from perdure.core.roles import Role
from perdure.core.states import ProcessState, SessionState
from perdure.operations.gateways import GatewayResource
from perdure.operations.resources import ListedDecisionResource, SessionResource, SettingResource, TurnResource
from perdure.store.erasure import ErasedSession
from perdure.store.inbox import ChatMessage
from perdure.store.metrics import OpenCounts

MAX_FILES = 20  # in one message

MessageChange = Literal["changed", "deleted"]


class NewMessageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a message to send. The id is the sender's own: sent again, it is the same message."""

    id: str
    text: str = ""
    attachments: Annotated[tuple[str, ...], Meta(max_length=MAX_FILES)] = ()


class EditMessageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The new text of a message."""

    text: str


class AnswerQuestionRequest(Struct, forbid_unknown_fields=True):
    answer: str


class DecideApprovalRequest(Struct, forbid_unknown_fields=True):
    approve: bool


class ChatResource(Struct, frozen=True):
    """A chat of the web platform in the list of chats."""

    chat: str
    title: str  # the first words of the conversation
    session: str
    state: SessionState
    updated_at: int
    waits_for: str | None  # in words


class ChatListResponse(Struct, frozen=True):
    chats: list[ChatResource]


class StoredMessageResponse(Struct, frozen=True):
    """A message that the gateway has stored."""

    message: str
    session: str
    key: str


class ChangedMessageResponse(StoredMessageResponse, frozen=True):
    """A message whose text was changed or deleted."""

    fate: MessageChange


class MessageListResponse(Struct, frozen=True):
    """A page of a chat."""

    messages: list[ChatMessage]
    more: bool


class UploadResponse(Struct, frozen=True):
    """An uploaded file; a message names it by its id."""

    id: str
    name: str
    size: int
    media_type: str


class QuestionAnswerResponse(Struct, frozen=True):
    question: str
    answered: bool


class ApprovalResponse(Struct, frozen=True):
    approval: str
    verdict: str


class HealthResponse(Struct, frozen=True):
    healthy: bool
    reasons: list[str]


class ReadinessResponse(Struct, frozen=True, omit_defaults=True):
    ready: bool
    reasons: list[str]
    standing_by: list[str] = []  # platforms whose events another gateway receives; this one can send there


class UnservedResource(Struct, frozen=True):
    """Chats in which something waits that no running gateway can serve."""

    platform: str
    agent: str
    chats: int
    newer: bool  # a newer version has written there, and no running gateway can read it
    text: str


class SandboxResource(Struct, frozen=True):
    """The sandbox in which commands run."""

    layer: Literal["bwrap", "landlock", "off"]
    network: Literal["web", "public", "none", "full"]
    summary: str  # one sentence, with the reason why it is not a better one; `perdure doctor` tells more


class StatusResponse(Struct, frozen=True):
    """The state of the gateway."""

    phase: str
    run: str
    started_at: int | None
    problems: list[str]
    platforms: list[str]
    running: int
    resume_paused: bool
    counts: OpenCounts
    unserved: list[UnservedResource]
    summary: list[str]
    sandbox: SandboxResource
    gateways: list[GatewayResource]


class ActionResource(Struct, frozen=True):
    """An action that an operator can take: post `body` to `path`."""

    label: str
    question: str
    means: str
    path: str
    body: dict[str, Any]
    about: str
    danger: bool
    scope: Scope


class AttentionItem(Struct, frozen=True):
    """Something that does not go on without a person."""

    level: Literal["warn", "bad"]
    text: str
    detail: str
    at: int | None
    where: str | None
    link: str | None
    acts: list[ActionResource]


class PlatformStatusResource(Struct, frozen=True):
    name: str
    problem: str
    standing_by: bool  # another gateway receives there, and this one can send


class OverviewResponse(StatusResponse, frozen=True):
    """The state of the gateway, and everything that needs a person."""

    version: str
    model: str
    adapters: list[PlatformStatusResource]
    well: str
    attention: list[AttentionItem]
    turns: list[TurnResource]
    decisions: list[ListedDecisionResource]


class ConfigurationResponse(Struct, frozen=True):
    home: str
    settings: list[SettingResource]


class KillResponse(Struct, frozen=True):
    killed: int  # the process id of the gateway


class StepRunsResponse(Struct, frozen=True):
    runs: dict[str, int]  # by turn and call


class LoginForm(Struct, frozen=True):
    """The fields of the login form."""

    token: str


class PersonRequest(Struct, forbid_unknown_fields=True):
    pass


class PairPersonRequest(PersonRequest):
    code: str
    role: Role = "member"
    here: bool = False


class AddPersonRequest(PersonRequest):
    who: str
    role: Role = "member"
    chat: str = ""
    name: str = ""


class ChangeRoleRequest(PersonRequest):
    who: str
    role: Role
    chat: str = ""


class RemovePersonRequest(PersonRequest):
    who: str
    chat: str | None = None


class PersonChangeResponse(Struct, frozen=True):
    done: bool
    said: str
    who: str


class ProcessResource(Struct, frozen=True):
    """A background process and its state."""

    id: str
    key: str
    session: str
    turn: str
    command: str
    state: ProcessState
    exit_code: int | None
    signal: int | None
    started_at: int
    ended_at: int | None
    notify_on_complete: bool
    watch_patterns: list[str]
    told: str | None


class ProcessListResponse(Struct, frozen=True):
    processes: list[ProcessResource]
    more: bool


class ProcessOutputResponse(ProcessResource, frozen=True):
    """A background process with a part of its output; `here` says whether this machine has its files.

    If it has not, `gateway` names the one that has them, and the output is what that one has recorded last.
    """

    output: str
    offset: int
    next: int
    size: int
    here: bool
    gateway: str


class SessionListResponse(Struct, frozen=True):
    sessions: list[SessionResource]
    more: bool


class SessionVerbResponse(Struct, frozen=True):
    """The result of an operator's verb on a session; only `erase` lists what it `erased`.

    `asked`, if it is there: the verb is on record, and the attempt at the turn is not known to have ended yet.
    """

    session: str
    verb: str
    done: bool
    asked: bool | UnsetType = UNSET
    erased: list[ErasedSession] | UnsetType = UNSET


class ResumeAllResponse(Struct, frozen=True):
    done: bool
