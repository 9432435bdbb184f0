"""`/undo` and `/retry`: the last turn is taken back, and with the latter asked again."""

from __future__ import annotations

from perdure.core import notes
from perdure.store import undoing
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.orders import Order
from perdure.store.undoing import TakenBack


class UndoCommand:
    """Takes turns back, each command one."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def undo(self, order: Order, _: str) -> None:
        now = self._clock()
        undo = undoing.undo(self._store.ids, order.key, order.sender, now, before=order.position)
        await self._store.orders.obey(order, undo, _undone, now)

    async def retry(self, order: Order, _: str) -> None:
        now = self._clock()
        retry = undoing.retry(
            self._store.ids,
            order.key,
            order.sender,
            now,
            order=order.id,
            message=order.message,
            before=order.position,
        )
        await self._store.orders.obey(order, retry, _asked_again, now)


def _undone(taken: TakenBack) -> str:
    if taken.what != "done":
        return notes.UNDO_REFUSED[taken.what].format(command="undo")
    return notes.undone(taken.words, acted=taken.acted, lives=taken.lives, goal=taken.goal)


def _asked_again(taken: TakenBack) -> str:
    if taken.what != "done":
        return notes.UNDO_REFUSED[taken.what].format(command="retry")
    return notes.asked_again(taken.words, acted=taken.acted, lives=taken.lives)
