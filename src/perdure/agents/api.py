"""The contracts of an agent, of the turn that it works on, and of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NoReturn, Protocol

from msgspec import Struct

from perdure.core.conversation import Message
from perdure.core.journal import Entry, ModelAnswered, TurnView
from perdure.core.messages import Attachment
from perdure.core.roles import ToolRights
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
    def key(self) -> str:
        """The key of the session that the turn belongs to."""

    @property
    def view(self) -> TurnView:
        """The journal of the turn so far; it moves on with every append."""

    @property
    def history(self) -> Sequence[TurnView]:
        """The earlier turns of the session."""

    async def tool_rights(self) -> ToolRights:
        """The tools that the turn may use now, by the right of the person whose words began it.

        It may change while the turn runs: ask before every call. The built-in agent and agents of pydantic-ai do.
        """

    async def append(self, *entries: Entry) -> None:
        """Journal facts.

        After return: they are durable; only now may anybody act on them.
        If we die inside: they may be there; the next attempt sees them in its view.
        """

    async def listen(self) -> None:
        """Let the messages join the turn that people wrote meanwhile to steer it; they are in its view then.

        Call it between two steps, so that the next step can use them; it costs nothing if nobody has written. An
        agent that never calls it loses nothing: messages that did not join get a turn of their own.

        If we die inside: the messages have joined, or still wait.
        """

    @property
    def shows(self) -> bool:
        """Whether people see an answer grow, because the platform can edit its messages."""

    def show(self, text: str) -> None:
        """Show people the answer so far. Returns at once; of several texts in a row only the newest is shown.

        A preview is not the answer: the reply is, and it replaces the preview.
        """

    def find(self, file: Attachment) -> str | None:
        """The path of a file that came with a message; None if it is not on this machine, or not any more."""

    def alive(self) -> None:
        """Report that the turn makes progress. `append` and `show` report that themselves.

        A turn that reports none for long counts as hanging and is ended, however long it has run.
        """

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        """Ask a person, and end this attempt by raising `TurnWaits`; `also` is journalled with the question.

        With `approves`, the id of a call, the question is whether that call may run: the decision is in the view's
        `verdicts`, and plain text is no decision.

        After return by `TurnWaits`: the question is in the outbox, and the turn waits for ever if need be. The
        answer is in the view of the next attempt.
        If we die inside: the question is asked, or the next attempt asks it.
        """


class Agent(Protocol):
    """Turns a message into a reply. It journals every effect before and after."""

    async def run(self, context: TurnContext) -> Reply:
        """Carry the turn to its reply, from wherever its journal ends.

        After return: the gateway commits the reply, the end of the turn and its delivery in one transaction.
        If we die inside: the next attempt calls it again, with the journal as it was left.
        """


class ModelRequest(Struct, frozen=True):
    """One request to a model."""

    messages: Sequence[Message]
    step: int
    history_count: int = 0  # messages at the beginning that belong to earlier turns
    system_prompt: str = ""
    tools: Sequence[Tool] = ()
    purpose: Literal["answer", "summary"] = "answer"


PreviewCallback = Callable[[str], None]  # gets the text of an answer so far


class Model(Protocol):
    """A language model, or something that answers like one."""

    name: str

    @property
    def window(self) -> int:
        """How many tokens the model reads and writes in all, as far as that is known now."""

    async def close(self) -> None:
        """Release its connections. Nobody calls it afterwards."""

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        """Answer once, completely; `show_preview` gets the answer so far while it grows.

        `ModelError` says, for people, why there is no answer; `ContextTooLong` that the request was too long.
        If we die inside: nothing was journalled, and the next attempt makes the same request.
        """
