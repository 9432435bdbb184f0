"""`/undo` and `/retry`: the last turn is taken back, and with the latter asked again."""

from __future__ import annotations

from perdure.core import texts
from perdure.runtime.access import Access
from perdure.runtime.gateway_run import GatewayRun
from perdure.store.chat_commands import ChatCommand
from perdure.store.undo import UndoResult, retry_turn, undo_turn


class UndoCommand:
    """Takes turns back, each command one."""

    def __init__(self, run: GatewayRun, access: Access) -> None:
        self._access = access
        self._store = run.store
        self._clock = run.clocks.wall

    async def undo(self, command: ChatCommand, _: str) -> None:
        now = self._clock()
        undo = undo_turn(command.key, command.sender, before=command.position)
        await self._store.chat_commands.execute(command, undo, _undo_text, now)

    async def retry(self, command: ChatCommand, _: str) -> None:
        now = self._clock()
        retry = retry_turn(
            command.key,
            command.sender,
            command=command.id,
            message=command.message,
            before=command.position,
            may_join=self._access.may_join,
        )
        await self._store.chat_commands.execute(command, retry, _retry_text, now)


def _undo_text(taken: UndoResult) -> str:
    if taken.outcome != "done":
        return texts.chat_commands.UNDO_REFUSALS[taken.outcome].format(command="undo")
    return texts.chat_commands.undone(
        taken.words, acted=taken.acted, still_running=taken.process_running, goal=taken.goal
    )


def _retry_text(taken: UndoResult) -> str:
    if taken.outcome != "done":
        return texts.chat_commands.UNDO_REFUSALS[taken.outcome].format(command="retry")
    return texts.chat_commands.retried(taken.words, acted=taken.acted, still_running=taken.process_running)
