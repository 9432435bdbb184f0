"""What people read about exports and imports of sessions."""

from __future__ import annotations


def sessions_exported(count: int) -> str:
    return f"{count} session{'' if count == 1 else 's'} exported."


def sessions_imported(count: int) -> str:
    return f"{_sessions_were(count)} imported."


def sessions_unchanged(count: int) -> str:
    return f"{_sessions_were(count)} here already and unchanged."


def sessions_not_imported(count: int) -> str:
    return f"{_sessions_were(count)} not imported:"


def import_problem(place: str, reason: str) -> str:
    return f"  {place}: {reason}"


WARNINGS = "Worth knowing:"


def import_warning(warning: str) -> str:
    return f"  {warning}"


def _sessions_were(count: int) -> str:
    return "1 session was" if count == 1 else f"{count} sessions were"


def not_utf8(path: object, position: int) -> str:
    return f"{path} is not text: expected UTF-8, got something else at byte {position}"


NOT_UTF8_HINT = "Give it a file that `perdure export` wrote."


def unreadable(path: object, why: object) -> str:
    return f"{path} cannot be read: {why}"


UNREADABLE_HINT = "Check the name, and that you may read it."


def nothing_of_person(person: str) -> str:
    return f"nothing of {person} is here"


NOTHING_OF_PERSON_HINT = "`perdure people` and `perdure sessions` list who is known."
