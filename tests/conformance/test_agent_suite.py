"""The suite for agents itself: it accepts a careful agent, and finds every carelessness.

Drives `testing/agent_conformance`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from perdure.agents import Agent, Reply, TurnContext
from perdure.core.effects import Effect
from perdure.core.journal import CallProgress, ModelAnswered, ToolEnded, ToolOutcome, ToolStarted
from perdure.testing import AgentConformance, Plan, Question, Step

CAME: dict[ToolOutcome, str] = {"ok": "done", "error": "failed", "unknown": "unknown"}


class ByHand:
    """Carries out a plan, one step after the other, as carefully as its fault lets it."""

    def __init__(self, plan: Plan, fault: str) -> None:
        self._plan = plan
        self._fault = fault

    async def run(self, context: TurnContext) -> Reply:
        came: dict[str, str] = {}
        for stage in self._plan.stages:
            if isinstance(stage, Question):
                came[stage.name] = stage.options[0]  # it asks nobody
            else:
                came |= {step.name: await self._take(context, step) for step in stage}
        text = "done" if self._fault == "says little" else self._plan.answer(came)
        closing = () if self._fault == "forgets what it said" else (ModelAnswered(1, text, (), "stop"),)
        return Reply(text, closing)

    async def _take(self, context: TurnContext, step: Step) -> str:
        known = context.view.calls.get(step.name)
        if known is not None and known.ended is not None and self._fault != "begins anew":
            return CAME[known.ended.outcome]
        outcome = await self._outcome(context, step, known)
        if self._fault == "never ends a call":
            return CAME[outcome]
        with suppress(*([BaseException] if self._fault == "swallows" else [])):
            await context.append(ToolEnded(step.name, outcome, ""))
        return "done" if self._fault == "hides errors" else CAME[outcome]

    async def _outcome(self, context: TurnContext, step: Step, known: CallProgress | None) -> ToolOutcome:
        started = ToolStarted(step.name, step.name, step.effect, self._key(context, step))
        if known is None and self._fault != "acts first":
            await context.append(started)
        elif step.effect is Effect.ONCE and known is not None and self._fault != "repeats":
            return "unknown"
        try:
            await step.run(started.key)
        except ValueError:
            return "error"
        except asyncio.CancelledError:
            if self._fault != "cannot be stopped":
                raise
        if known is None and self._fault == "acts first":
            await context.append(started)
        return "ok"

    def _key(self, context: TurnContext, step: Step) -> str:
        return f"{context.view.attempt if self._fault == 'changes keys' else ''}:{step.name}"


class Suite(AgentConformance):
    asks = False

    def __init__(self, fault: str = "") -> None:
        self._fault = fault

    def agent(self, plan: Plan) -> Agent:
        return ByHand(plan, self._fault)


TESTS = [name for name in vars(AgentConformance) if name.startswith("test_")]


@pytest.mark.parametrize("name", TESTS)
def test_careful_agent_is_accepted(name: str) -> None:
    getattr(Suite(), name)()


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("acts first", "test_intent_is_on_record_before_each_step_and_its_result_before_the_next"),
        ("begins anew", "test_only_the_missing_ones_of_a_set_are_run"),
        ("repeats", "test_once_in_doubt_is_told_as_unknown_and_not_run"),
        ("changes keys", "test_keyed_is_repeated_with_the_same_key"),
        ("swallows", "test_nothing_runs_when_saving_fails"),
        ("swallows", "test_keyed_is_repeated_with_the_same_key"),
        ("never ends a call", "test_intent_is_on_record_before_each_step_and_its_result_before_the_next"),
        ("hides errors", "test_error_of_a_step_reaches_the_agent_once"),
        ("cannot be stopped", "test_cancel_passes_through"),
        ("says little", "test_no_finished_step_is_run_again_wherever_it_crashes"),
        ("forgets what it said", "test_it_comes_to_an_end_when_every_attempt_dies_early"),
    ],
)
def test_carelessness_is_found_when_an_agent(fault: str, found: str) -> None:
    with pytest.raises(AssertionError):
        getattr(Suite(fault), found)()


def test_agent_that_asks_nobody_is_found_when_it_should_ask() -> None:
    suite = Suite()
    suite.asks = True
    with pytest.raises(AssertionError, match="asked nobody"):
        suite.test_answer_of_a_person_goes_on_with_the_turn()
