"""Response bodies about sessions and the verbs of operators."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from perdure.operations.resources import SessionResource
from perdure.store.erasure import ErasedSession


class SessionListResponse(Struct, frozen=True):
    sessions: list[SessionResource]
    more: bool


class SessionVerbResponse(Struct, frozen=True):
    """The result of an operator's verb on a session; only `erase` lists what it `erased`."""

    session: str
    verb: str
    done: bool
    erased: list[ErasedSession] | UnsetType = UNSET


class ResumeAllResponse(Struct, frozen=True):
    done: bool
