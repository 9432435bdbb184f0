"""An async function as an agent.

    async def answer(context: StepContext) -> str:
        order = await context.step("find_order", find_order, context.message, effect="pure")
        await context.step("send_invoice", send_invoice, order["id"])
        return f"The invoice for {order['name']} is on its way."

    agent = FunctionAgent(answer)

After a crash the function starts again from its first line: a step whose result is in the journal returns that
result and does not run. So everything that has an effect, takes long or is not deterministic belongs in a step;
between steps the function only decides.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence

from perdure.agents.api import Reply, TurnContext
from perdure.agents.custom.guard import GuardedTurn
from perdure.agents.custom.steps import RecordedSteps, StepContext
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, UserMessage, build_conversation
from perdure.core.journal import MessagesJoined, ModelAnswered, TurnBegan, TurnCancelled, TurnView
from perdure.core.states import CancelReason
from perdure.errors import ConfigurationError, ModelError, OutcomeUnknown, StepChanged

AgentFunction = Callable[[StepContext], Awaitable[str]]


class FunctionAgent:
    """An agent that is an async function, which gets a `StepContext` and returns the reply."""

    def __init__(self, function: AgentFunction) -> None:
        if not inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                f"{function!r} is not an async function, so it cannot be an agent.",
                hint="Write it as `async def answer(context): …`, and let it return the reply as text.",
            )
        self._function = function
        self._name = getattr(function, "__qualname__", repr(function))

    async def run(self, context: TurnContext) -> Reply:
        """Call the function once for the first message of the turn, and once for each group that joined it.

        So messages that join an interrupted turn do not change the arguments of its first steps.
        """
        guarded, turns = GuardedTurn(context), _continued_turns(context)
        before = len(context.history) + 1 - len(turns)
        history = build_conversation(context.history[:before], turns[0], context.find).previous_messages
        answers: list[str] = []
        while len(answers) < len(messages := _messages_to_answer(turns, context)):
            message = messages[len(answers)]
            if message is None:
                answers.append("")
                continue
            recorded = RecordedSteps.from_turns(turns, part=len(answers) + 1)
            answers.append(await self._call_function(guarded, StepContext(guarded, recorded, message, history)))
            history = [*history, UserMessage(message), AssistantMessage(answers[-1])]
        text = "\n\n".join(filter(str.strip, answers))
        closing = ModelAnswered(len(context.view.responses) + 1, text, (), "stop")
        return Reply(text, (closing,) if text else ())

    async def _call_function(self, guarded: GuardedTurn, context: StepContext) -> str:
        try:
            text = await self._function(context)
        except SystemExit as error:  # it would end the whole gateway
            raise RuntimeError(f"{self._name} wanted to end the process, with {error.code!r}") from error
        except Exception as error:  # reason: a function of somebody else may fail in any way
            guarded.raise_if_ended()  # the end of the turn matters more than what the function made of it
            reason = next(_explained_errors(error), None)
            if reason is None:
                raise
            raise ModelError(reason.message) from error
        guarded.raise_if_ended()
        if not isinstance(text, str):
            raise TypeError(f"{self._name} returned {type(text).__name__}; expected the reply, as a str")
        return text


def _continued_turns(context: TurnContext) -> list[TurnView]:
    """This turn, and the suspended turns before it that its messages only ask to continue."""
    turns, before = [context.view], list(context.history)
    while (
        before
        and all(cause.wish for cause in turns[0].causes)
        and before[-1].ended == TurnCancelled(CancelReason.SUSPENDED)
    ):
        turns.insert(0, before.pop())
    return turns


def _messages_to_answer(turns: Sequence[TurnView], context: TurnContext) -> list[str | None]:
    """The texts to answer: one for the message that began the turn, one for each group that joined it.

    None stands for a group that joined and left again, so that the groups behind it keep their numbers.
    """
    found: list[str | None] = []
    for view in turns:
        worded = {group.seq: group.messages for group in build_conversation((), view, context.find).current}
        for record in view.records:
            if record.seq in worded and isinstance(record.entry, TurnBegan | MessagesJoined):
                found.append("\n\n".join(_full_text(message) for message in worded[record.seq]))
            elif isinstance(record.entry, MessagesJoined) and any(not cause.wish for cause in record.entry.causes):
                found.append(None)
    return found or [texts.files.message_without_text()]


def _full_text(message: Message) -> str:
    return message.text_with_files if isinstance(message, UserMessage) else message.text


def _explained_errors(error: BaseException) -> Iterator[OutcomeUnknown | StepChanged]:
    """The errors that have a sentence for people, also those inside of an exception group."""
    if isinstance(error, OutcomeUnknown | StepChanged):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _explained_errors(inner)
