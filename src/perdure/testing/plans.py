"""Plans for agents under conformance test: the steps to run, and the record of how they ran."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from perdure.core.effects import REMEDIES, Effect, Remedy
from perdure.core.journal import CallProgress
from perdure.testing.recording_turn import RecordingTurn

DONE, FAILED, UNKNOWN = "done", "failed", "unknown"


class Question(Struct, frozen=True):
    """A question for a person."""

    name: str
    text: str
    options: tuple[str, ...] = ()


class Step:
    """A step to run. Each run is counted, and checked against the journal's intent."""

    def __init__(
        self, name: str, effect: Effect = Effect.ONCE, *, fails: bool = False, hangs: bool = False
    ) -> None:
        self.name = name
        self.effect = effect
        self.runs: list[str] = []  # the idempotency key of each run
        self.began = asyncio.Event()
        self._fails = fails
        self._hangs = hangs
        self._plan: Plan | None = None

    def attach_to(self, plan: Plan) -> None:
        self._plan = plan

    async def run(self, key: str = "") -> str:
        """Run the step and return `done`. An agent calls this exactly where it has its effect."""
        if self._plan is not None:
            self._plan.check_step(self)
        self.runs.append(key)
        self.began.set()
        if self._hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(0)  # lets steps side by side overlap
        if self._fails:
            raise ValueError(f"{self.name} is broken")
        return DONE


PlanStage = Sequence[Step] | Question


class Plan:
    """The work of the agent: stage after stage, the steps of one stage side by side, then the answer.

    A step is a use of a tool with the name of the step. The agent goes on whatever comes of one, and
    tells in its answer of all of them: `answer()` makes it from what came of each, by name, `done`, `failed` or
    `unknown`, and for a question the words of the person.
    """

    def __init__(self, *stages: PlanStage) -> None:
        self.stages = stages
        self.violations: list[str] = []  # violations of the contract
        self.turn: RecordingTurn | None = None  # the turn whose journal the steps are checked against
        for step in self.steps:
            step.attach_to(self)

    @property
    def steps(self) -> list[Step]:
        return [step for stage in self.stages if not isinstance(stage, Question) for step in stage]

    def names(self) -> Iterator[str]:
        for stage in self.stages:
            yield from [stage.name] if isinstance(stage, Question) else [step.name for step in stage]

    def answer(self, came: Mapping[str, str]) -> str:
        """Return the answer that tells the outcome of each step, by name."""
        return ", ".join(f"{name}: {came[name]}" for name in self.names())

    def run_counts(self) -> dict[str, int]:
        """Count the runs of each step."""
        return {step.name: len(step.runs) for step in self.steps}

    def uncertain_steps(self, turn: RecordingTurn) -> set[str]:
        """Return the steps that began, have no result in the journal, and must not be repeated."""
        guarded = [step.name for step in self.steps if REMEDIES[step.effect] is not Remedy.REPEAT]
        return {name for name in guarded if is_in_doubt(turn, name)}

    def check_step(self, step: Step) -> None:
        """Record violations of a step that runs now."""
        if self.turn is None:
            return
        if self.turn.over is not None:
            self.violations.append(f"{step.name} ran when nothing could be saved any more")
        call = find_call(self.turn, step.name)
        if call is None or call.started is None:
            self.violations.append(f"{step.name} ran before its intent was on record")
        elif call.ended is not None:
            self.violations.append(f"{step.name} ran though its result was on record")
        self.violations += [
            f"{step.name} ran before the result of {earlier.name} was on record"
            for earlier in self._steps_before(step)
            if not has_ended(self.turn, earlier.name)
        ]

    def _steps_before(self, step: Step) -> list[Step]:
        before: list[Step] = []
        for stage in self.stages:
            if isinstance(stage, Question):
                continue
            if step in stage:
                break
            before += stage
        return before


def find_call(turn: RecordingTurn, name: str) -> CallProgress | None:
    """Return the journal's record of the step of that name."""
    return next((call for call in turn.view.calls.values() if call.request.tool == name), None)


def has_ended(turn: RecordingTurn, name: str) -> bool:
    call = find_call(turn, name)
    return call is not None and call.ended is not None


def is_in_doubt(turn: RecordingTurn, name: str) -> bool:
    """Tell whether the step began and has no result in the journal."""
    call = find_call(turn, name)
    return call is not None and call.started is not None and call.ended is None
