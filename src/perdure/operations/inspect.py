"""What operators look at: sessions, why a turn was resumed or not, a message, replies, the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure.config.catalogue import SETTINGS_BY_KEY, Setting
from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.delivery import OUTBOX_VERBS, DeliveryState, OutboxVerb
from perdure.core.journal import (
    Entry,
    JournalRecord,
    ModelAnswered,
    ModelFailed,
    QuestionAnswered,
    ToolCall,
    TurnInterrupted,
)
from perdure.core.states import PreviewState, TurnState
from perdure.core.texts.explanation import explain_snapshot
from perdure.errors import NotFound
from perdure.operations.resources import (
    DeliveryResource,
    FactResource,
    OutboxResponse,
    OutboxVerbResponse,
    SessionResource,
    SettingResource,
)
from perdure.settings import SQLITE_PREFIX, Settings
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.locks import lock_holder
from perdure.store.outbox import OutboxDelivery
from perdure.store.outbox_verbs import OutboxVerbResult
from perdure.store.previews import StoredPreview
from perdure.store.runs import Run
from perdure.store.sessions import Session, SessionFilter
from perdure.store.snapshots import MessageTrace
from perdure.store.transitions import Turn


async def session_resource(store: Store, session: Session) -> SessionResource:
    """A session with its recovery state, without the fields that only a list or a single reading has."""
    recovery = await store.sessions.recovery(session.id)
    return SessionResource(
        key=session.key,
        id=session.id,
        state=session.state,
        address=split_session_key(session.key)[1],
        created_at=session.created_at,
        updated_at=session.updated_at,
        was_auto_reset=session.auto_reset_reason is not None,
        auto_reset_reason=session.auto_reset_reason,
        run_generation=await store.sessions.generation(session.key),
        resume_pending=recovery.resume_pending,
        resume_reason=recovery.resume_reason,
        last_resume_marked_at=recovery.last_resume_marked_at,
        interruptions=recovery.interruptions,
    )


async def list_sessions(
    store: Store, after: str = "", limit: int = 100, which: SessionFilter | None = None
) -> list[SessionResource]:
    """The sessions of one page with what each waits for, in the order in which they began."""
    return [await _listed_session(store, session) for session in await store.sessions.page(after, limit, which)]


async def _listed_session(store: Store, session: Session) -> SessionResource:
    turn, listed = await _open_turn(store, session.id), await session_resource(store, session)
    return msgspec.structs.replace(
        listed, waits_for=WAITS_FOR[turn.state] if turn else None, turn=turn.id if turn else None
    )


async def waits_for(store: Store, session: str) -> str | None:
    """What the open turn of a session waits for, in words; None without an open turn."""
    turn = await _open_turn(store, session)
    return WAITS_FOR[turn.state] if turn else None


async def _open_turn(store: Store, session: str) -> Turn | None:
    """The open turn of a session, which can only be its newest."""
    newest = await store.timelines.turns_of_session(session, limit=1)
    return newest[0].turn if newest and newest[0].turn.state in WAITS_FOR else None


WAITS_FOR: dict[str, str] = {
    TurnState.QUEUED: "a place to run",
    TurnState.RUNNING: "its agent",
    TurnState.WAITING: "a person's answer",
    TurnState.INTERRUPTED: "a decision, a message or /resume",
}


def session_line(session: SessionResource, now: int) -> str:
    """A session of a list as one line for people."""
    marked = session.last_resume_marked_at
    pending = f"  pending: {session.resume_reason}" if session.resume_pending else ""
    age = f", {texts.phrases.duration(now - marked)} ago" if marked and pending else ""
    waits = f"  waits for {session.waits_for}" if session.waits_for else ""
    return f"{session.id}  {session.state:9}  {session.key}{pending}{age}{waits}"


async def find_session(store: Store, name: str) -> Session:
    found = await store.snapshots.find_session(name)
    if found is None:
        raise NotFound(f"no session is named {name!r}", hint=texts.phrases.SESSION_NAMES_HINT)
    return found


async def explain_session(store: Store, name: str, clock: Clock) -> list[str]:
    """What was found, which rule applied and what happens next, for a session named by its id or key."""
    return explain_snapshot(await store.snapshots.of_session(await find_session(store, name)), clock())


def no_gateway_notice(settings: Settings) -> list[str]:
    """The warning beside an explanation that no gateway is running, if that is certain."""
    shared = not settings.store_url.startswith(SQLITE_PREFIX)  # a gateway with another home may use that database
    return [] if shared or lock_holder(settings.home / "lock") else [texts.recovery.NO_GATEWAY]


async def trace_message(store: Store, name: str) -> list[FactResource]:
    """The recorded facts about a message, in the order in which they happened."""
    found = await store.snapshots.trace_message(name)
    if found is None:
        raise NotFound(f"no message is named {name!r}", hint="Give the id that the platform or the API showed.")
    return sorted(_facts(found), key=lambda fact: fact.at)


def _facts(trace: MessageTrace) -> Iterator[FactResource]:
    yield received_fact(trace.received_at, trace.kind, trace.message, trace.event_key, trace.state)
    yield from turn_facts(trace.records, trace.previews, trace.deliveries, trace.runs)


def received_fact(at: int, kind: str, message: str, event_key: str, state: str) -> FactResource:
    return FactResource(at, "received", f"{kind} {message} ({event_key}), now {state}")


def turn_facts(
    records: Sequence[JournalRecord],
    previews: Iterable[StoredPreview],
    deliveries: Iterable[OutboxDelivery],
    runs: Iterable[Run],
) -> Iterator[FactResource]:
    """The recorded facts about a turn, not in order."""
    yield from _process_exit_facts(records, runs)
    for record in records:
        yield FactResource(record.at, record.entry.kind, _entry_detail(record.entry))
    for preview in previews:
        yield FactResource(preview.created_at, "preview", _preview(preview))
    for row in deliveries:
        yield FactResource(row.created_at, "owed", f"{row.id}, part {row.part + 1}, to {row.lane}")
        if row.updated_at != row.created_at or row.state is not DeliveryState.OWED:
            receipt = f", receipt {row.receipt}" if row.receipt else ""
            problem = f": {row.problem}" if row.problem else ""
            yield FactResource(row.updated_at, str(row.state), f"{row.id}{receipt}{problem}")


def _process_exit_facts(records: Sequence[JournalRecord], runs: Iterable[Run]) -> Iterator[FactResource]:
    """The process exits that interrupted the turn, as the supervisor saw them."""
    interrupted = {record.entry.run for record in records if isinstance(record.entry, TurnInterrupted)}
    for run in runs:
        if run.id in interrupted and run.died_at is not None:
            yield FactResource(
                run.died_at, "gateway_died", f"{texts.recovery.process_exit(run.exit_code)}, run {run.id}"
            )


def _preview(preview: StoredPreview) -> str:
    if preview.receipt is not None:
        return f"{preview.delivery_key}, {preview.state}, receipt {preview.receipt}"
    orphan = (
        ": its receipt never came, so it may still stand in the chat" if preview.state is PreviewState.LOST else ""
    )
    return f"{preview.delivery_key}, {preview.state}{orphan}"


def _entry_detail(entry: Entry) -> str:
    if isinstance(entry, ModelFailed):
        said = texts.agents.failed_request(entry.number, entry.status, entry.said, entry.wait)
        return f"step {entry.step}, model {entry.model}: {said}"
    fields = msgspec.to_builtins(entry)
    if isinstance(entry, ModelAnswered):
        fields["calls"] = ", ".join(_format_call(call) for call in entry.calls)
        fields["usage"] = f"{entry.usage.input} + {entry.usage.output} tokens"
    if isinstance(entry, QuestionAnswered):
        fields["by"] = texts.questions.answered_by(entry)
        fields = {name: value for name, value in fields.items() if name not in ("platform", "source", "login")}
    shown = {name: value for name, value in fields.items() if name not in HIDDEN_FIELDS and value}
    return ", ".join(f"{name} {_shorten(value)}" for name, value in shown.items())


HIDDEN_FIELDS = ("causes", "evidence", "dated", "native")  # shown elsewhere, or for machines


def _format_call(call: ToolCall) -> str:
    return f"{call.tool}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def _shorten(value: Any) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) <= 80 else f"{text[:80]}…"


def fact_line(fact: FactResource) -> str:
    when = datetime.fromtimestamp(fact.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{when}Z  {fact.what:15} {fact.detail}"


DELIVERY_IDS_HINT = "`GET /api/outbox` lists the replies and their ids."


async def find_delivery(store: Store, name: str) -> OutboxDelivery:
    row = await store.outbox.get(name)
    if row is None:
        raise NotFound(f"no reply is named {name!r}", hint=DELIVERY_IDS_HINT)
    return row


async def list_deliveries(
    store: Store, states: Sequence[DeliveryState] = (), after: str = "", limit: int = 100
) -> OutboxResponse:
    """A page of replies in these states, or in any, the newest first; `next` is the cursor of the next page."""
    page = await store.outbox.page(states or tuple(DeliveryState), after, limit)
    return OutboxResponse([delivery_resource(row) for row in page.rows], page.after is not None, page.after)


def delivery_resource(row: OutboxDelivery) -> DeliveryResource:
    return DeliveryResource(
        id=row.id,
        key=row.key,
        lane=row.lane,
        turn=row.turn,
        reply=row.reply,
        part=row.part,
        state=row.state,
        attempts=row.attempts,
        due_at=row.due_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        receipt=row.receipt,
        problem=row.problem,
        text=row.public_text,
        file=row.sent_file.name if row.sent_file is not None else None,
        can=list(OUTBOX_VERBS[row.state]),
        advice=texts.delivery.STATE_ADVICE[row.state],
    )


def outbox_verb_response(verb: OutboxVerb, result: OutboxVerbResult) -> OutboxVerbResponse:
    """The result of a verb in words; a reply that is gone meanwhile is not found."""
    row = result.row
    if row is None:
        raise NotFound("that reply is gone", hint=DELIVERY_IDS_HINT)
    said = texts.delivery.verb_result(result.outcome, row.state, result.again)
    return OutboxVerbResponse(row.id, result.done, said, result.again, verb)


HIDDEN_VALUE = "(set, and not shown)"


def effective_settings(settings: Settings) -> list[SettingResource]:
    """Every setting with its value; of a secret, only whether it is set."""
    return [_setting_resource(setting, _setting_value(settings, setting)) for setting in SETTINGS_BY_KEY.values()]


def _setting_value(settings: Settings, setting: Setting) -> object:
    found: object = settings
    for name in setting.section.split("."):
        found = getattr(found, name)
    return getattr(found, setting.name)


def _setting_resource(setting: Setting, value: object) -> SettingResource:
    shown = HIDDEN_VALUE if setting.secret and value else msgspec.to_builtins(value)
    return SettingResource(
        key=setting.key,
        value=shown,
        shown=_format_setting(shown),
        default=setting.default,
        changed=value != _setting_default(setting),
        secret=setting.secret,
        description=setting.description,
    )


def _format_setting(value: object) -> str:
    """A value as the configuration file spells it; a duration in the largest unit that divides it."""
    if isinstance(value, float):
        return next(
            (f"{value / size:g}{unit}" for unit, size in DURATION_UNITS if value and value % size == 0),
            f"{value:g}s",
        )
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


DURATION_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def _setting_default(setting: Setting) -> object:
    """The value of a setting that neither the file nor the environment sets."""
    return getattr(setting.struct(), setting.name)
