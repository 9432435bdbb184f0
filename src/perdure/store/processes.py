"""Processes: commands that run in the background, and the reports of their ends and output matches.

A process is on record before anything of it runs. Its end and the report of it are one transaction; so are the
matches in its output and their notice. A turn that has seen the end in a tool result gets no report.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import background_number, split_session_key
from perdure.core.journal import ObservedExit
from perdure.core.states import ProcessState, SessionState
from perdure.core.storable_text import to_json
from perdure.store import authorisation, outbox, reports, sessions, transitions
from perdure.store.conditions import PROCESS_IS_LIVE, TURN_IS_OPEN
from perdure.store.database import Database, Row, Tx
from perdure.store.inbox import InboxKind
from perdure.store.outbox import OutboxReply

NOTICE_INTERVAL_MS = 15_000  # between two notices of matches
ABANDONED_AFTER_MS = 86_400_000  # an installation without a heartbeat for this long is gone for good
MAX_STRIKES = 3  # notice intervals in a row with further matches, after which watching stops

_OPEN_TURN = f"SELECT 1 FROM turns WHERE key = :key AND {TURN_IS_OPEN}"


class Process(Struct, frozen=True):
    """A process's row."""

    id: str
    key: str  # of the session that began it, which gets its reports
    session: str
    turn: str
    call: str
    generation: int
    person: str
    instance: str  # the installation on which it runs
    directory: str
    command: str
    notify: int
    patterns: str
    watching: int
    scanned: int
    notices: int
    noticed_at: int | None
    unnoticed: int
    strikes: int
    state: ProcessState
    exit_code: int | None
    signal: int | None
    started_at: int
    ended_at: int | None
    told: str | None

    @property
    def active_patterns(self) -> list[str]:
        """The patterns that are watched for; none once watching has stopped."""
        return msgspec.json.decode(self.patterns, type=list[str]) if self.watching else []

    @property
    def needs_report(self) -> bool:
        """Whether its end is reported: if that was asked for, or if there are matches without a notice."""
        off = self.patterns != "[]" and not self.watching
        return bool(self.notify or self.unnoticed or off)


class ProcessRequest(Struct, frozen=True):
    """A process that is about to be started."""

    turn: str
    call: str
    directory: str
    command: str
    notify: bool = True
    patterns: tuple[str, ...] = ()


class ProcessEnd(Struct, frozen=True):
    """How a process ended; `lost` if that is unknown."""

    lost: bool = False
    exit_code: int | None = None
    signal: int | None = None


class OutputScan(Struct, frozen=True):
    """The result of one scan of the output."""

    count: int
    since: int  # the offset at which the scan began
    until: int
    slow: bool = False  # the patterns take too long to match
    quiet: bool = False  # no notice: the process has ended, and its report will mention the matches


class MatchNotice(Struct, frozen=True):
    """The content of a notice of matches."""

    count: int  # matches of the last scan
    before: int  # matches since the last notice, of which there was no notice
    last: bool  # there are too many matches, and watching stops


_COLUMN_NAMES = Process.__struct_fields__
_COLUMNS = ", ".join(_COLUMN_NAMES)
_STATE_INDEX = _COLUMN_NAMES.index("state")
_ABANDONED = (
    f"SELECT {_COLUMNS} FROM processes p WHERE p.{PROCESS_IS_LIVE} AND NOT EXISTS (SELECT 1 FROM runs r "
    "WHERE p.instance IN (r.instance, r.former) AND (r.ended_at IS NULL OR r.heartbeat_at > :limit)) ORDER BY p.id"
)


def _as_process(row: Row) -> Process:
    return Process(*(*row[:_STATE_INDEX], ProcessState(row[_STATE_INDEX]), *row[_STATE_INDEX + 1 :]))


class Processes:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, request: ProcessRequest, run: str, now: int) -> Process:
        """Return the process of a call, new or known. After return: it is on record, before it has started."""
        return await self._database.write(lambda tx: _record(tx, request, run), at=now)

    async def record_end(
        self,
        process: Process,
        end: ProcessEnd,
        format_report: Callable[[Process], str],
        now: int,
        *,
        starter_allowed: bool = True,
    ) -> str | None:
        """Record the end, and report it: by a turn, or by a notice where no turn may begin.

        Without `starter_allowed`, whoever started it may no longer talk: no turn begins, and only others get a
        notice. After return: the end and its report are durable; None means that the end was on record before.
        If we die inside: both are, or the next look at the process finds the end again.
        """
        return await self._database.write(
            lambda tx: _record_end(tx, process.id, end, format_report, starter_allowed=starter_allowed),
            key=process.key,
            at=now,
        )

    async def delete(self, process: Process) -> None:
        """Delete the record of a process that never started, and never will."""
        sql = f"DELETE FROM processes WHERE id = :id AND {PROCESS_IS_LIVE}"
        await self._database.write(lambda tx: tx.run(sql, id=process.id), key=process.key)

    async def record_matches(
        self,
        process: Process,
        matches: OutputScan,
        format_notice: Callable[[MatchNotice], str],
        now: int,
        *,
        starter_allowed: bool = True,
    ) -> str | None:
        """Record how far the output was scanned; send a notice of matches, at most one per interval.

        After return: the matches are in a notice, or counted for the next one. None: there is no notice now.
        If we die inside: that is so, or the same piece of output is scanned again.
        """
        return await self._database.write(
            lambda tx: _record_matches(tx, process.id, matches, format_notice, starter_allowed=starter_allowed),
            key=process.key,
            at=now,
        )

    async def get(self, process: str) -> Process | None:
        return _first(await self._select("id = :id", id=process))

    async def in_directory(self, directory: str) -> Process | None:
        """Return the process of a command directory."""
        return _first(await self._select("directory = :directory", directory=directory))

    async def of_chat(self, turn: str, limit: int = 50) -> list[Process]:
        """Return the processes of a turn's key, the live ones first, then the newest first."""
        condition = (
            "key = (SELECT key FROM turns WHERE id = :turn) "
            f"ORDER BY state <> '{ProcessState.LIVE}', id DESC LIMIT :limit"
        )
        return await self._select(condition, turn=turn, limit=limit)

    async def live(self, key: str | None = None) -> list[Process]:
        """Return every live process, or those of one key."""
        if key is not None:
            return await self._select(f"{PROCESS_IS_LIVE} AND key = :key ORDER BY id", key=key)
        found = await self._select(PROCESS_IS_LIVE)  # sorted here: SQLite would read all rows by their ids
        return sorted(found, key=lambda process: process.id)

    async def abandoned(self) -> list[Process]:
        """Return the live processes of installations that are gone for good."""
        found = await self._database.read(
            lambda tx: tx.all(_ABANDONED, limit=tx.lease_clock() - ABANDONED_AFTER_MS)
        )
        return [_as_process(row) for row in found]

    async def live_directories(self) -> set[str]:
        """Return the command directories of the live processes."""
        sql = f"SELECT directory FROM processes WHERE {PROCESS_IS_LIVE}"
        return await self._database.read(lambda tx: {row[0] for row in tx.all(sql)})

    async def page(self, after: str = "", limit: int = 100, *, newest: bool = False) -> list[Process]:
        """Return processes in the order of their ids, or with `newest` in reverse, beginning behind `after`."""
        if newest:
            return await self._select("id < :after ORDER BY id DESC LIMIT :limit", after=after or "z", limit=limit)
        return await self._select("id > :after ORDER BY id LIMIT :limit", after=after, limit=limit)

    async def _select(self, condition: str, **values: str | int) -> list[Process]:
        sql = f"SELECT {_COLUMNS} FROM processes WHERE {condition}"
        return await self._database.read(lambda tx: [_as_process(row) for row in tx.all(sql, **values)])


def _first(found: list[Process]) -> Process | None:
    return found[0] if found else None


def _get_for_update(tx: Tx, process: str) -> Process | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM processes WHERE id = :id{tx.for_update}", id=process)
    return _as_process(row) if row else None


# ── beginning ───────────────────────────────────────────────────────────────────────────────────────────────


def _record(tx: Tx, request: ProcessRequest, run: str) -> Process:
    known = tx.one(f"SELECT {_COLUMNS} FROM processes WHERE directory = :directory", directory=request.directory)
    if known is not None:
        return _as_process(known)
    key, session, generation, person = _origin_of_turn(tx, request.turn)
    instance = tx.one("SELECT instance FROM runs WHERE id = :run", run=run)
    row: Row = (
        *(
            tx.ids.new("p"),
            key,
            session,
            request.turn,
            request.call,
            generation,
            person,
            instance[0] if instance else "",
        ),
        *(request.directory, request.command, int(request.notify), to_json(request.patterns)),
        *(int(bool(request.patterns)), 0, 0, None, 0, 0, ProcessState.LIVE.value, None, None, tx.time, None, None),
    )
    marks = ", ".join(f":{name}" for name in _COLUMN_NAMES)
    tx.run(f"INSERT INTO processes ({_COLUMNS}) VALUES ({marks})", **dict(zip(_COLUMN_NAMES, row, strict=True)))
    return _as_process(row)


def _origin_of_turn(tx: Tx, turn: str) -> tuple[str, str, int, str]:
    """Return a turn's key, session and generation, and the person whose words began it."""
    found = transitions.get(tx, turn)
    assert found is not None, f"there is no turn {turn}"
    began = authorisation.beginner_of(tx, found)
    # The id of a person on another platform, from which the session was moved, may be somebody else's here.
    here = began is not None and _platform_of(began.key) == _platform_of(found.key)
    return found.key, found.session, found.generation, began.person.id if began and here else ""


def _platform_of(key: str) -> str:
    return split_session_key(key)[1].platform


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────


def _record_end(
    tx: Tx,
    process: str,
    end: ProcessEnd,
    format_report: Callable[[Process], str],
    *,
    starter_allowed: bool,
) -> str | None:
    ended = _mark_ended(tx, process, end, "nobody")
    if ended is None:
        return None
    if not ended.needs_report:
        return "nobody"
    told = _report(tx, ended, "ended", format_report(ended), "report", starter_allowed=starter_allowed)
    tx.run("UPDATE processes SET told = :told WHERE id = :id", told=told, id=process)
    return told


def _mark_ended(tx: Tx, process: str, end: ProcessEnd, told: str) -> Process | None:
    """Record the end, once; None: it is on record already."""
    row = tx.one(
        "UPDATE processes SET state = :state, exit_code = :code, signal = :signal, ended_at = :now, told = :told "
        f"WHERE id = :id AND {PROCESS_IS_LIVE} RETURNING {_COLUMNS}",
        state=(ProcessState.LOST if end.lost else ProcessState.ENDED).value,
        code=end.exit_code,
        signal=end.signal,
        now=tx.time,
        told=told,
        id=process,
    )
    return _as_process(row) if row else None


def _report(tx: Tx, process: Process, event: str, text: str, kind: InboxKind, *, starter_allowed: bool) -> str:
    """Report to the process's session; if that is no longer the open one, send a notice to the chat."""
    session, address = sessions.current(tx, process.key), split_session_key(process.key)[1]
    if not starter_allowed and address.kind == "dm":
        return "nobody"
    left = session is None or session.id != process.session or session.state is not SessionState.OPEN
    if left or not starter_allowed:
        notice = OutboxReply(
            address,
            f"{process.id}.{event}",
            (texts.chat_commands.background_label(background_number(process.key), text),),
        )
        outbox.enqueue(tx, process.key, None, notice)
        return "notice"
    reports.insert(tx, process, f"process:{process.id}:{event}", text, kind)
    return kind


def mark_seen(tx: Tx, sight: ObservedExit) -> None:
    """Record that a turn has seen the end of a process; the process's unread reports are withdrawn."""
    process = _get_for_update(tx, sight.process)
    if process is None:
        return
    if _mark_ended(tx, process.id, ProcessEnd(sight.lost, sight.exit_code, sight.signal), "seen") is None:
        _withdraw_end_report(tx, process)
    reports.withdraw(tx, process.key, process.id)


def _withdraw_end_report(tx: Tx, process: Process) -> None:
    """Withdraw the unread report of an end that is already on record, and record that the end was seen."""
    lane, reply = split_session_key(process.key)[1].lane, f"{process.id}.ended"
    heard = not reports.is_waiting(tx, process.key, f"process:{process.id}:ended")
    heard = heard and not outbox.withdraw_notice(tx, lane, reply)
    if not heard:
        tx.run("UPDATE processes SET told = 'seen' WHERE id = :id", id=process.id)


# ── matches ─────────────────────────────────────────────────────────────────────────────────────────────────


def _record_matches(
    tx: Tx,
    process: str,
    matches: OutputScan,
    format_notice: Callable[[MatchNotice], str],
    *,
    starter_allowed: bool,
) -> str | None:
    row = _get_for_update(tx, process)
    if row is None or row.state is not ProcessState.LIVE or not row.watching or row.scanned != matches.since:
        return None
    # If the clock was set back, the notice is not early.
    early = row.noticed_at is not None and 0 <= tx.time - row.noticed_at < NOTICE_INTERVAL_MS and not matches.slow
    if matches.quiet or early or not (matches.count + row.unnoticed or matches.slow):
        _count_unnoticed(tx, row, matches)
        return None
    strikes = row.strikes + 1 if row.unnoticed else 0
    last = strikes >= MAX_STRIKES or matches.slow
    tx.run(
        "UPDATE processes SET scanned = :scanned, notices = notices + 1, noticed_at = :now, unnoticed = 0, "
        "strikes = :strikes, watching = :watching WHERE id = :id",
        scanned=matches.until,
        now=tx.time,
        strikes=strikes,
        watching=int(not last),
        id=process,
    )
    text = format_notice(MatchNotice(matches.count, row.unnoticed, last))
    kind: InboxKind = "aside" if _has_newer_turn(tx, row) else "report"
    return _report(tx, row, f"match:{row.notices + 1}", text, kind, starter_allowed=starter_allowed)


def _count_unnoticed(tx: Tx, row: Process, matches: OutputScan) -> None:
    tx.run(
        "UPDATE processes SET scanned = :scanned, unnoticed = unnoticed + :count WHERE id = :id",
        scanned=matches.until,
        count=matches.count,
        id=row.id,
    )


def _has_newer_turn(tx: Tx, row: Process) -> bool:
    """Say whether the process's turn is still open, or a newer turn of its key has begun."""
    newest = tx.one(f"SELECT generation FROM leases WHERE key = :key{tx.for_update}", key=row.key)
    return bool(newest and newest[0] > row.generation) or tx.one(_OPEN_TURN, key=row.key) is not None
