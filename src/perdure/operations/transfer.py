"""Exports sessions from a database as JSON, and imports them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Raw, Struct, field

from perdure.core import texts
from perdure.core.printable_text import escape_json
from perdure.core.transfer import export_format
from perdure.core.transfer.export_format import read_document
from perdure.core.transfer.validation import read_session_record
from perdure.errors import BadImport, RecordRefused
from perdure.operations.personal_data import copy_attachments, export_named, export_person
from perdure.settings import Settings
from perdure.store.api import Store, open_database
from perdure.store.backends.read_only import open_read_only
from perdure.store.ids import Clock, wall_clock
from perdure.version import __version__


class ImportProblem(Struct, frozen=True):
    """A record that was not imported: its position in the list, from 0, the path in it, and the reason."""

    position: int
    place: str
    reason: str


class ImportReport(Struct):
    """The result of an import."""

    imported: int = 0
    unchanged: int = 0
    problems: list[ImportProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_lines(self) -> list[str]:
        """The report for people to read."""
        lines = [texts.cli.sessions_imported(self.imported)]
        if self.unchanged:
            lines.append(texts.cli.sessions_unchanged(self.unchanged))
        if self.problems:
            lines.append(texts.cli.sessions_not_imported(len(self.problems)))
            lines += [texts.cli.import_problem(problem.place, problem.reason) for problem in self.problems]
        if self.warnings:
            lines += [texts.cli.WARNINGS, *map(texts.cli.import_warning, self.warnings)]
        return lines


async def export_sessions(store: Store, write: Callable[[str], None], *, clock: Clock = wall_clock) -> int:
    """Write every session as one JSON document, piece by piece; return their number.

    A read-only store is enough, also while a gateway is running: each key is read as of one moment.
    """
    count = 0
    write(export_format.document_start(__version__, clock()))
    for key in await store.transfer.keys():
        for session in await store.transfer.dump(key):
            write(export_format.session_line(session, first=not count))
            count += 1
    write(export_format.document_end())
    return count


async def export_to(
    settings: Settings, output: Path | None, *, person: str | None = None, session: str | None = None
) -> int:
    """Export all sessions, one person's or one session, to standard output or to a file that appears whole."""

    async def export(write: Callable[[str], None]) -> int:
        if person is None and session is None:
            return await export_sessions(store, write)
        text, count = await (export_person(store, person) if person else export_named(store, session or ""))
        write(text)
        if output is not None:
            await copy_attachments(store, settings.home, text, output.with_name(f"{output.stem}-files"))
        return count

    store = Store(await open_read_only(settings.store_url))
    try:
        if output is None:
            return await export(lambda piece: print(escape_json(piece), end=""))  # noqa: T201
        draft = output.with_name(f".{output.name}.part")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            count = await export(lambda piece: print(piece, end="", file=file))
        draft.replace(output)
        return count
    finally:
        await store.close()


async def import_from(settings: Settings, path: Path) -> ImportReport:
    """Import a file into the database of these settings; no gateway may be using it."""
    text = read_import(path)
    store = Store(await open_database(settings.store_url, home=settings.home))
    try:
        return await import_sessions(store, text)
    finally:
        await store.close()


async def import_sessions(store: Store, text: str) -> ImportReport:
    """Import the sessions of an export. Sessions that exist already are not changed.

    After return: each session that counts as imported is durable, with all that belongs to it.
    If we die inside: some are; importing the same file again brings in the rest.
    """
    records, warnings = read_document(text)
    await store.transfer.require_no_gateway()
    report = ImportReport(warnings=warnings)
    for position, record in enumerate(records):
        await _import_one(store, position, record, report)
    return report


async def _import_one(store: Store, position: int, record: Raw, report: ImportReport) -> None:
    place = f"sessions[{position}]"
    try:
        session, warnings = read_session_record(record)
        fresh = await store.transfer.load(session)
    except RecordRefused as refused:
        report.problems.append(ImportProblem(position, place + refused.place, refused.reason))
        return
    report.warnings += [place + warning for warning in warnings]
    report.imported += fresh
    report.unchanged += not fresh


def read_import(path: Path) -> str:
    """The text of an import file."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadImport(texts.cli.not_utf8(path, error.start), hint=texts.cli.NOT_UTF8_HINT) from None
    except OSError as error:
        why = error.strerror or error
        raise BadImport(texts.cli.unreadable(path, why), hint=texts.cli.UNREADABLE_HINT) from None
