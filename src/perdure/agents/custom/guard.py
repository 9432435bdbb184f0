"""A turn for agents that others write, which raises the error that ended it again at every later step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from perdure.agents.api import TurnContext
from perdure.core.journal import Entry, TurnView
from perdure.core.messages import Attachment
from perdure.core.roles import ToolRights


class GuardedTurn:
    """A turn that remembers why nothing more can be journalled in it.

    The code of an agent may catch any error, also the one that says that its turn was stopped, waits for a person
    or cannot be saved. It gets the same error again at its next step, and at its end.
    """

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._ended_by: BaseException | None = None

    @property
    def turn(self) -> str:
        return self._context.turn

    @property
    def key(self) -> str:
        return self._context.key

    @property
    def view(self) -> TurnView:
        return self._context.view

    @property
    def history(self) -> Sequence[TurnView]:
        return self._context.history

    @property
    def shows(self) -> bool:
        return self._context.shows

    def show(self, text: str) -> None:
        if self._ended_by is None:
            self._context.show(text)

    def find(self, file: Attachment) -> str | None:
        return self._context.find(file)

    def alive(self) -> None:
        self._context.alive()

    async def tool_rights(self) -> ToolRights:
        return await self._context.tool_rights()

    async def append(self, *entries: Entry) -> None:
        with self._remember_end():
            await self._context.append(*entries)

    async def listen(self) -> None:
        with self._remember_end():
            await self._context.listen()

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        with self._remember_end():
            await self._context.ask(question, text, options, *also, approves=approves)
        raise AssertionError("a question always ends the attempt")

    @contextmanager
    def _remember_end(self) -> Iterator[None]:
        """Remember the error that ends the turn, if one does."""
        self.raise_if_ended()
        try:
            yield
        except asyncio.CancelledError:  # may be a timeout of the agent's own, which does not end the turn
            raise
        except BaseException as error:  # reason: whatever it is, later calls raise it again
            self._ended_by = error
            raise

    def raise_if_ended(self) -> None:
        """Raise the error that ended the turn again, if one did."""
        if self._ended_by is not None:
            raise self._ended_by
