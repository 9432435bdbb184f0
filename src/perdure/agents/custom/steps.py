"""Runs the steps of a function agent: journals each as JSON before it runs, and its result before returning it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from perdure.agents.custom.guard import GuardedTurn
from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.conversation import Message
from perdure.core.effects import REMEDIES, Effect, Remedy
from perdure.core.journal import (
    CallProgress,
    QuestionAnswered,
    QuestionAsked,
    RecoveryNoted,
    ToolEnded,
    ToolOutcome,
    ToolStarted,
    TurnView,
)
from perdure.core.roles import ToolRights
from perdure.core.storable_text import to_json
from perdure.errors import OutcomeUnknown, StepChanged, StepFailed

MAX_STEP_BYTES = 256 * 1024  # of the arguments of one step, and of its result


def encode_arguments(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], key: str | None
) -> dict[str, Any]:
    """The arguments by name, for the journal; arguments that do not fit the function are refused here."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some builtins have none
        given = {"arguments": args, **kwargs}
    else:
        signature.bind(*args, **kwargs, **({key: ""} if key else {}))
        given = signature.bind_partial(*args, **kwargs).arguments
    try:
        text = to_json(given, ordered=True)  # so that a set has the same order in every process
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TypeError(
            f"the arguments of the step {name!r} cannot be kept as JSON: {error}. Give it plain values, such as "
            "ids and texts, and let the function find the rest"
        ) from error
    size = len(text.encode())
    if size > MAX_STEP_BYTES:
        raise ValueError(
            f"the arguments of the step {name!r} are {size} bytes long; at most {MAX_STEP_BYTES} are kept"
        )
    return msgspec.json.decode(text, type=dict[str, Any])


def encode_result(result: Any) -> tuple[ToolOutcome, str, BaseException | None]:
    """A result for the journal; a result that cannot be stored is an error."""
    try:
        text = to_json(result, ordered=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return "error", texts.agents.result_not_json(type(result).__name__, error), error
    size = len(text.encode())
    if size > MAX_STEP_BYTES:
        return "error", texts.agents.result_too_large(size, MAX_STEP_BYTES), None
    return "ok", text, None


def decode_result(step: ToolStarted, ended: ToolEnded) -> Any:
    """The value or error of a step: the same the first time and from the journal."""
    match ended.outcome:
        case "ok":
            return msgspec.json.decode(ended.text)
        case "error":
            raise StepFailed(texts.agents.step_failed(step.tool, ended.text))
        case _:
            raise OutcomeUnknown(
                texts.agents.step_outcome_unknown(describe_step(step, step.arguments), ended.text)
            )


def describe_step(step: ToolStarted, arguments: Mapping[str, Any]) -> str:
    """The step with these arguments, written like a function call."""
    return texts.phrases.clip(texts.tool_calls.format_call(step.tool, arguments), 300)


DECLARABLE_EFFECTS = (Effect.PURE, Effect.KEYED, Effect.ONCE)  # those that an author of an agent can declare

_current_step: ContextVar[str | None] = ContextVar("step", default=None)


class RecordedSteps(Struct, frozen=True):
    """The journalled steps, questions and answers of one call of the agent's function."""

    calls: Mapping[str, CallProgress]
    asked: Mapping[str, QuestionAsked]
    answers: Mapping[str, QuestionAnswered]
    prefix: str  # of the ids in the journal: each group of messages that joined has its own

    @classmethod
    def from_turns(cls, turns: Sequence[TurnView], part: int) -> RecordedSteps:
        entries = [record.entry for view in turns for record in view.records]
        return cls(
            {name: call for view in turns for name, call in view.calls.items()},
            {entry.question: entry for entry in entries if isinstance(entry, QuestionAsked)},
            {entry.question: entry for entry in entries if isinstance(entry, QuestionAnswered)},
            f"{part}." if part > 1 else "",
        )


class StepContext:
    """The argument of an agent's function: the message to answer, the history, and the steps."""

    def __init__(
        self, context: GuardedTurn, recorded: RecordedSteps, message: str, history: Sequence[Message]
    ) -> None:
        self._context = context
        self._recorded = recorded
        self._uses: Counter[str] = Counter()
        self._running: set[str] = set()
        self._asking = False
        self.message = message  # to answer
        self.history = list(history)  # the messages before it, oldest first

    @property
    def turn(self) -> str:
        """The id of the turn: the same for all its attempts."""
        return self._context.turn

    @property
    def attempt(self) -> int:
        """1, and one more each time that the turn was interrupted or waited for a person."""
        return self._context.view.attempt

    @property
    def note(self) -> str | None:
        """The newest recovery note: what a model should know of an interruption or a late reply."""
        notes = [entry.text for entry in self._entries() if isinstance(entry, RecoveryNoted)]
        return notes[-1] if notes else None

    def say(self, text: str) -> None:
        """Show people the answer so far, where the platform can; this preview is not the answer."""
        self._context.show(text)

    def alive(self) -> None:
        """Report progress from within a long step, so that the turn is not ended for inactivity."""
        self._context.alive()

    async def tool_rights(self) -> ToolRights:
        """The role of the person whose words began the turn, as it is now, and the tools of that role.

        Steps are not held to it: the function decides which of them it runs for whom.
        """
        return await self._context.tool_rights()

    async def ask(self, question: str, options: Sequence[str] = ()) -> str:
        """Ask a person, and return what they write: one of the options, or other words.

        The first call does not return: the attempt ends, and the turn waits for as long as it takes. Then the
        function starts again, and this call returns the answer.
        """
        self._refuse_nested(f"ask {question!r}")
        if self._running:
            raise RuntimeError(
                f"ask {question!r} when the steps are done: {_names(self._running)} would be cut off"
            )
        name = self._next_record_id("q")
        asked, answer = self._recorded.asked.get(name), self._recorded.answers.get(name)
        if asked is not None and (asked.text, asked.options) != (question, tuple(options)):
            raise StepChanged(
                texts.agents.step_changed(
                    texts.agents.question_step(asked.text, asked.options),
                    texts.agents.question_step(question, options),
                )
            )
        if answer is not None:
            return answer.text
        self._asking = True
        return await self._context.ask(name, question, options)

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        effect: Effect | str = Effect.ONCE,
        key_argument: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run the function once in this turn, whatever happens, and return its result as JSON gives it back.

        `effect` says what happens to a step that was interrupted: a `pure` one runs again; a `keyed` one too, with
        the same idempotency key, which the function gets as `key_argument`; a `once` one never: it raises
        `OutcomeUnknown`. A function that raises fails the step: `StepFailed`, now and in every later attempt. A
        name that is used again is the next step of that name. Steps may run side by side, in a task group, if
        their names differ.

        After return: the result is durable.
        If we die inside: the step was not started, has an unknown outcome, or has its result.
        """
        kind = _effect(name, effect, key_argument)
        arguments = encode_arguments(name, function, args, kwargs, key_argument)
        self._refuse_nested(f"run the step {name!r}")
        if self._asking or name in self._running:
            raise RuntimeError(_overlap_message(name, asking=self._asking))
        call = self._next_record_id("s", name)
        self._running.add(name)
        try:
            started = ToolStarted(call, name, kind, f"{self.turn}:{call}", arguments)
            return await self._run_step(started, key_argument, partial(function, *args, **kwargs))
        finally:
            self._running.discard(name)

    async def _run_step(self, step: ToolStarted, key_argument: str | None, function: Callable[..., Any]) -> Any:
        """Bring a step to its result, from wherever its journal ends."""
        before = self._recorded.calls.get(step.call)
        if before is not None and before.request.arguments != step.arguments:
            raise StepChanged(
                texts.agents.step_changed(
                    describe_step(step, before.request.arguments), describe_step(step, step.arguments)
                )
            )
        if before is not None and before.ended is not None and before.ended.outcome != "cancelled":
            return decode_result(step, before.ended)
        if before is not None and before.started is not None:
            step = msgspec.structs.replace(step, key=before.started.key)
            if not _repeatable(before.started.effect, step.effect):
                return await self._finish_step(step, "unknown", texts.agents.STEP_INTERRUPTED)
        if beginning := self._unrecorded_start(step):
            await self._context.append(*beginning)
        self._context.raise_if_ended()  # a repeated step appends nothing here that would raise it
        keyed = partial(function, **{key_argument: step.key}) if key_argument else function
        outcome, text, error = await _run_function(step.tool, keyed)
        return await self._finish_step(step, outcome, text, error)

    async def _finish_step(
        self, step: ToolStarted, outcome: ToolOutcome, text: str, error: BaseException | None = None
    ) -> Any:
        ended = ToolEnded(step.call, outcome, text)
        await self._context.append(*self._unrecorded_start(step), ended)
        try:
            return decode_result(step, ended)
        except (StepFailed, OutcomeUnknown) as failure:
            raise failure from error

    def _unrecorded_start(self, step: ToolStarted) -> tuple[ToolStarted, ...]:
        """The intent, unless this turn has journalled it; a suspended turn before it may have done so, too."""
        return () if step.call in self._context.view.calls else (step,)

    def _next_record_id(self, kind: str, name: str = "") -> str:
        """The id in the journal of the next step or question."""
        self._uses[kind + name] += 1
        number = f"{self._recorded.prefix}{kind}{self._uses[kind + name]}"
        return f"{number}.{name}" if name else number

    def _entries(self) -> list[Any]:
        return [record.entry for record in self._context.view.records]

    def _refuse_nested(self, what: str) -> None:
        if (outer := _current_step.get()) is not None:
            raise RuntimeError(f"cannot {what} inside of the step {outer!r}: do it before or after that")


# ── one step ────────────────────────────────────────────────────────────────────────────────────────────────


async def _run_function(name: str, function: Callable[[], Any]) -> tuple[ToolOutcome, str, BaseException | None]:
    """Run the function of a step; return its outcome and text for the journal, and its error if it raised one."""
    token = _current_step.set(name)
    try:
        result = function()
        if inspect.isawaitable(result):
            result = await result
    except OutcomeUnknown as error:
        return "unknown", error.message, error
    except BaseException as error:  # noqa: BLE001 reason: it may fail in any way, and the error is its result
        raise_uncontained(error)
        return "error", texts.agents.step_error(error), error
    finally:
        _current_step.reset(token)
    return encode_result(result)


def _repeatable(*effects: Effect) -> bool:
    """Whether a step may run again: both the code that started it and the present code must allow that."""
    return all(REMEDIES[effect] is Remedy.REPEAT for effect in effects)


# ── what is asked for ───────────────────────────────────────────────────────────────────────────────────────


def _effect(name: str, effect: Effect | str, key_argument: str | None) -> Effect:
    if effect not in DECLARABLE_EFFECTS:
        known = _names(DECLARABLE_EFFECTS)
        raise ValueError(f"the step {name!r} has the effect {effect!r}; expected one of {known}")
    if (effect == Effect.KEYED) != (key_argument is not None):
        raise ValueError(
            f"the step {name!r}: a keyed step, and no other, names in key_argument= what takes the key"
        )
    return Effect(effect)


def _overlap_message(name: str, *, asking: bool) -> str:
    if asking:
        return f"the step {name!r} is begun beside a question, which ends the attempt: ask before or after it"
    return (
        f"two steps named {name!r} run side by side, and after a crash nobody could tell which is which: give "
        "them names that differ"
    )


def _names(names: Sequence[str] | set[str]) -> str:
    return ", ".join(sorted(names))
