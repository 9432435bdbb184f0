"""The contracts of an agent and of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NoReturn, Protocol

from msgspec import Struct

from perdure.core.conversation import Message
from perdure.core.journal import Entry, ModelAnswered, TurnView
from perdure.core.messages import Attachment
from perdure.core.tools import Tool


class Reply(Struct, frozen=True):
    """The answer of a turn, and the last facts to journal together with it."""

    text: str
    closing: tuple[Entry, ...] = ()


class TurnContext(Protocol):
    """A turn as its agent sees it."""

    @property
    def turn(self) -> str:
        """The id of the turn: the same for all its attempts."""

    @property
    def view(self) -> TurnView:
        """The journal of the turn so far; it moves on with every append."""

    @property
    def history(self) -> Sequence[TurnView]:
        """The earlier turns of the session."""

    async def append(self, *entries: Entry) -> None:
        """Journal facts.

        After return: they are durable; only now may anybody act on them.
        If we die inside: they may be there; the next attempt sees them in its view.
        """

    async def listen(self) -> None:
        """Take in what people wrote meanwhile and want heard: it joins the turn, and is in its view.

        To be called between two steps, where the next one can heed it; it costs nothing where nobody has
        written. Whoever never calls it loses nothing: what was not heard gets a turn of its own.

        If we die inside: it has joined, or still waits.
        """

    @property
    def shows(self) -> bool:
        """Whether anybody sees an answer grow: the platform can edit its messages."""

    def show(self, text: str) -> None:
        """Let people see the answer so far. Returns at once; of several texts in a row only the newest is shown.

        Nothing that is shown is the answer: only the reply is, and it takes the place of what was shown.
        """

    def find(self, file: Attachment) -> str | None:
        """Where a file that came with a message can be read; None: it is not here, or not any more."""

    def alive(self) -> None:
        """Give a sign of life: something came of what runs. `append` and `show` give one themselves.

        A turn that gives none for long is taken to hang, and ended; how long it takes does not matter.
        """

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        """Ask a person, and end this attempt by raising `TurnWaits`; `also` is journalled with the question.

        With `approves`, the id of a call, the question is whether that call may run: what a person decides
        is in the view's `verdicts`, and plain text is no decision.

        After: the question is owed to the chat, and the turn waits for ever if need be. The answer is in the
        view of the next attempt.
        If we die inside: it is asked, or the next attempt asks it.
        """


class Agent(Protocol):
    """Whoever turns a message into a reply. Every effect is journalled before and after."""

    async def run(self, context: TurnContext) -> Reply:
        """Carry the turn to its reply, from wherever its journal ends.

        After return: the gateway commits the reply, the end of the turn and its delivery in one transaction.
        If we die inside: it is called again with the journal as it was left.
        """


class ModelRequest(Struct, frozen=True):
    """What a model is asked."""

    messages: Sequence[Message]
    step: int
    history_count: int = 0  # how many of the messages belong to earlier turns
    system_prompt: str = ""
    tools: Sequence[Tool] = ()
    purpose: Literal["answer", "summary"] = "answer"


PreviewCallback = Callable[[str], None]  # takes the text of an answer as far as it has come


class Model(Protocol):
    """A language model, or something that answers like one."""

    name: str

    @property
    def window(self) -> int:
        """How many tokens it reads and writes in all, as far as that is known now."""

    async def close(self) -> None:
        """Let go of whatever it holds. Nobody asks it afterwards."""

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        """Answer once, whole; `hear` is told, while it grows, what the answer is so far.

        `ModelError` says, for people, why there is no answer; `ContextTooLong` that the request was too long.
        If we die inside: nothing of it was kept, and the same is asked again.
        """
