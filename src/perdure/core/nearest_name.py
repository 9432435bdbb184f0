"""The known name that is most like a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str], likeness: float) -> str | None:
    """The known name nearest to this one; None if none is as like it as `likeness`, from 0 to 1 (the same)."""
    import difflib  # only a mistake needs it, and a start should not pay for that

    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=likeness)
    return close[0] if close else None
