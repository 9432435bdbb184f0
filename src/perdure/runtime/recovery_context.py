"""Reads the facts around an interrupted turn that a recovery decision needs."""

from __future__ import annotations

from collections.abc import Callable

from perdure.core.address import Address
from perdure.core.journal import (
    TurnView,
)
from perdure.core.recovery.decision import (
    RecoveryContext,
)
from perdure.core.session import SessionState
from perdure.runtime.access import OPERATOR, Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.store.transitions import Turn


class RecoveryContextReader:
    """Reads the session, the platform, the people and the commands of a turn, as they are now."""

    def __init__(self, run: GatewayRun, access: Access, has_running_command: Callable[[TurnView], bool]) -> None:
        """`has_running_command` says whether a shell command that the turn waits for still runs."""
        self._run = run
        self._store = run.store
        self.access = access
        self._has_running_command = has_running_command

    async def read(self, turn: Turn, view: TurnView, address: Address) -> RecoveryContext:
        session = await self._store.sessions.get(turn.session)
        return RecoveryContext(
            session=session.state if session else SessionState.CLOSED,
            last_sign_of_life=await self._last_sign_of_life(view),
            has_address=self._run.connections.serves(address.platform),
            authorised=await self.is_authorised(turn, view),
            connected=address.platform in self._run.connections.connected,
            attached_alive=self._has_running_command(view),
        )

    async def is_authorised(self, turn: Turn, view: TurnView) -> bool:
        """Whether everybody whose messages the turn answers may talk here now."""
        # A report of a process counts only if no person has written: otherwise the turn answers the person.
        causes = [cause for cause in view.causes if not cause.note] or view.causes
        senders = {cause.sender for cause in causes if not (cause.wish and cause.sender == OPERATOR)}
        return all([await self.access.may(turn.key, sender, "talk") for sender in senders])

    async def _last_sign_of_life(self, view: TurnView) -> int | None:
        """The time of the newest content, or of the last heartbeat of the run that wrote it."""
        content = view.content[-1].at if view.content else None
        run = await self._store.runs.get(view.content_run) if view.content_run else None
        signs = [content, run.heartbeat_at if run else None]
        return max((at for at in signs if at is not None), default=None)
