"""The conformance suite for agents: the contract of an agent as tests.

    class TestMyAgent(AgentConformance):
        def agent(self, plan: Plan) -> Agent:
            return MyAgent(...)  # one that does what the plan says

The suite needs no pytest plug-in: every test is a plain method.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping

from perdure.agents.api import Agent, Reply
from perdure.core.conversation import AssistantMessage, build_conversation
from perdure.core.effects import Effect
from perdure.core.journal import Entry, MessagesJoined, QuestionAsked, ToolEnded, ToolStarted, TurnView, fold
from perdure.errors import StoreBroken, TurnWaits
from perdure.testing.faults import Crash
from perdure.testing.plans import DONE, FAILED, UNKNOWN, Plan, Question, Step, find_call, has_ended, is_in_doubt
from perdure.testing.recording_turn import RecordingTurn

ATTEMPT_TIMEOUT_SECONDS = 60.0  # seconds after which an attempt counts as hanging
MAX_CRASH_POINTS = 200
COLOUR_QUESTION = Question("colour", "Which colour?", ("red", "blue"))


def _sample_plan() -> Plan:
    """Make a plan with a step of every effect and two steps side by side."""
    return Plan(
        [Step("order")],
        [Step("look", Effect.PURE), Step("pay", Effect.KEYED), Step("send")],
        [Step("check", Effect.PURE)],
    )


class AgentConformance:
    """The suite. A subclass makes an agent that carries out a plan."""

    asks = True  # set to False for an agent that never asks a person

    def agent(self, plan: Plan) -> Agent:
        """Return a new agent that carries out the plan. Every attempt calls this, as a restart would."""
        raise NotImplementedError

    # ── the order of things ─────────────────────────────────────────────────────────────────────────────────

    def test_intent_is_on_record_before_each_step_and_its_result_before_the_next(self) -> None:
        """B60."""
        plan, turn = _sample_plan(), RecordingTurn()
        reply = self._attempt(plan, turn)
        _expect(reply is not None, "the agent gave no reply")
        _expect(
            [len(step.runs) for step in plan.steps] == [1] * 5, f"not every step ran once: {plan.run_counts()}"
        )
        self._finish_and_check(plan, turn, reply, {})

    def test_nothing_runs_when_saving_fails(self) -> None:
        """B60: at whichever append saving fails, the agent raises the error and runs nothing further."""
        for at in range(1, MAX_CRASH_POINTS):
            plan = _sample_plan()
            turn = RecordingTurn().break_store(at)
            try:
                self._attempt(plan, turn)
            except Exception as error:  # noqa: BLE001 reason: whichever it is, it must say that saving failed
                _expect(
                    _contains_error(error, StoreBroken),
                    f"append {at} failed, and the agent raised {error!r} instead",
                )
                _expect(not plan.violations, f"append {at} failed: {plan.violations}")
            else:
                _expect(turn.over is None, f"append {at} failed, and the agent took no notice")
                return
        raise AssertionError("the agent never ends")

    # ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────

    def test_no_finished_step_is_run_again_wherever_it_crashes(self) -> None:
        """B46, B60, B61, B62, B64: crash before and after every append, then resume after a restart."""
        for after in (False, True):
            for at in range(1, MAX_CRASH_POINTS):
                plan, turn = _sample_plan(), RecordingTurn().crash(at, after=after)
                if self._attempt(plan, turn) is not None:
                    break
                self._resume_and_check(plan, turn, f"died {'after' if after else 'before'} append {at}")
            else:
                raise AssertionError("the agent never ends")

    def test_it_comes_to_an_end_when_every_attempt_dies_early(self) -> None:
        plan, turn, doubts = _sample_plan(), RecordingTurn().crash(2, after=True), set[str]()
        for _ in range(MAX_CRASH_POINTS):
            reply = self._attempt(plan, turn)
            if reply is not None:
                self._finish_and_check(plan, turn, reply, dict.fromkeys(doubts, UNKNOWN))
                return
            doubts |= plan.uncertain_steps(turn)
            turn = turn.resumed().crash(2, after=True)
        raise AssertionError("the agent makes no progress when each attempt saves two things")

    def test_only_the_missing_ones_of_a_set_are_run(self) -> None:
        """B60: the trap of every partly finished set of tool calls."""
        plan = Plan([Step(name, Effect.PURE) for name in ("a", "b", "c")])
        turn = RecordingTurn().crash(when=lambda entry: isinstance(entry, ToolEnded), after=True)
        _expect(self._attempt(plan, turn) is None, "the agent swallowed the crash")
        missing = [step.name for step in plan.steps if not has_ended(turn, step.name)]
        before = plan.run_counts()
        turn = turn.resumed()
        reply = self._attempt(plan, turn)
        ran = [name for name, runs in plan.run_counts().items() if runs > before[name]]
        _expect(ran == missing, f"{missing} had no result, and {ran} were run after the restart")
        self._finish_and_check(plan, turn, reply, {})

    def test_once_in_doubt_is_told_as_unknown_and_not_run(self) -> None:
        """B62."""
        plan = Plan([Step("send")], [Step("check", Effect.PURE)])
        turn = RecordingTurn().crash(when=lambda entry: _starts_tool(entry, "send"), after=True)
        _expect(self._attempt(plan, turn) is None, "the agent swallowed the crash")
        turn = turn.resumed()
        reply = self._attempt(plan, turn)
        _expect(not plan.steps[0].runs, "the step was in doubt, and was run")
        call = find_call(turn, "send")
        outcome = call.ended.outcome if call and call.ended else None
        _expect(outcome == "unknown", f"the result on record is {outcome!r}; expected 'unknown'")
        self._finish_and_check(plan, turn, reply, {"send": UNKNOWN})

    def test_keyed_is_repeated_with_the_same_key(self) -> None:
        """B61."""
        plan = Plan([Step("pay", Effect.KEYED)])
        turn = RecordingTurn().crash(when=lambda entry: isinstance(entry, ToolEnded))
        _expect(self._attempt(plan, turn) is None, "the agent swallowed the crash")
        turn = turn.resumed()
        reply = self._attempt(plan, turn)
        keys = plan.steps[0].runs
        _expect(len(keys) == 2 and len({*keys}) == 1 and bool(keys[0]), f"it ran with the keys {keys}")
        self._finish_and_check(plan, turn, reply, {})

    # ── other endings ───────────────────────────────────────────────────────────────────────────────────────

    def test_error_of_a_step_reaches_the_agent_once(self) -> None:
        """A step that has failed is not run again either."""
        for at in range(1, MAX_CRASH_POINTS):
            plan = Plan([Step("break", fails=True)], [Step("check", Effect.PURE)])
            turn = RecordingTurn().crash(at, after=True)
            reply = self._attempt(plan, turn)
            if reply is not None:
                call = find_call(turn, "break")
                outcome = call.ended.outcome if call and call.ended else None
                _expect(outcome == "error", f"the result on record is {outcome!r}; expected 'error'")
                self._finish_and_check(plan, turn, reply, {"break": FAILED})
                return
            self._resume_and_check(plan, turn, f"died after append {at}", {"break": FAILED})
        raise AssertionError("the agent never ends")

    def test_cancel_passes_through(self) -> None:
        """A cancelled turn stops at once; the step that was running has no result."""
        step = Step("hang", hangs=True)
        plan, turn = Plan([step]), RecordingTurn()
        _expect(asyncio.run(self._is_cancelled(plan, turn, step)), "the agent went on though it was cancelled")
        _expect(is_in_doubt(turn, "hang"), "the agent recorded a result of a step that was cut off")

    def test_answer_of_a_person_goes_on_with_the_turn(self) -> None:
        """B67: steps before the question are not run again."""
        if not self.asks:
            return
        for at in range(1, MAX_CRASH_POINTS):
            plan = Plan([Step("look", Effect.PURE)], COLOUR_QUESTION, [Step("paint")])
            turn = RecordingTurn().crash(at)
            if self._attempt_until_question(plan, turn):
                self._answer_and_check(plan, turn)
                return
            turn = turn.resumed()
            _expect(
                self._attempt_until_question(plan, turn),
                f"died before append {at}, and asked nothing after the restart",
            )
            self._answer_and_check(plan, turn)
        raise AssertionError("the agent never asks")

    def test_what_people_want_heard_is_heard_between_steps_or_waits(self) -> None:
        """B80: a waiting message joins once or not at all, wherever it crashes; no finished step runs again."""
        for at in range(1, MAX_CRASH_POINTS):
            plan, turn = _sample_plan(), RecordingTurn().crash(at, after=True)
            turn.waiting = ["And water the plants."]
            reply = self._attempt(plan, turn)
            if reply is not None:
                self._finish_and_check(plan, turn, reply, {})
                _expect_joined_once(turn, "at the end")
                return
            _expect_joined_once(
                self._resume_and_check(plan, turn, f"died after append {at}"), f"died after append {at}"
            )
        raise AssertionError("the agent never ends")

    # ── attempts ────────────────────────────────────────────────────────────────────────────────────────────

    def _attempt(self, plan: Plan, turn: RecordingTurn) -> Reply | None:
        """Make one attempt; None if it crashed as intended."""
        plan.turn = turn
        try:
            reply = asyncio.run(self._run(plan, turn))
        except BaseException as error:
            if _contains_error(error, Crash):
                return None
            raise
        _expect(turn.over is None, "the agent gave a reply though it had died")
        return reply

    async def _run(self, plan: Plan, turn: RecordingTurn) -> Reply:
        async with asyncio.timeout(ATTEMPT_TIMEOUT_SECONDS):
            return await self.agent(plan).run(turn)

    async def _is_cancelled(self, plan: Plan, turn: RecordingTurn, step: Step) -> bool:
        plan.turn = turn
        task = asyncio.create_task(self._run(plan, turn))
        begun = asyncio.create_task(step.began.wait())
        await asyncio.wait({task, begun}, timeout=ATTEMPT_TIMEOUT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        task.cancel()
        await asyncio.wait({task}, timeout=ATTEMPT_TIMEOUT_SECONDS)
        return task.cancelled()

    def _resume_and_check(
        self, plan: Plan, turn: RecordingTurn, where: str, outcomes: Mapping[str, str] | None = None
    ) -> RecordingTurn:
        """Resume a crashed turn to its end, and compare it with the journal at the crash."""
        before, doubts = plan.run_counts(), plan.uncertain_steps(turn)
        done = [step.name for step in plan.steps if has_ended(turn, step.name)]
        resumed = turn.resumed()
        reply = self._attempt(plan, resumed)
        _expect(reply is not None, f"{where}: no reply after the restart")
        again = [name for name in [*done, *doubts] if plan.run_counts()[name] > before[name]]
        _expect(not again, f"{where}: {again} were run again")
        self._finish_and_check(plan, resumed, reply, {**(outcomes or {}), **dict.fromkeys(doubts, UNKNOWN)}, where)
        return resumed

    def _finish_and_check(
        self,
        plan: Plan,
        turn: RecordingTurn,
        reply: Reply | None,
        outcomes: Mapping[str, str],
        where: str = "at the end",
    ) -> None:
        """Commit the reply, and check the whole turn."""
        _expect(reply is not None, f"{where}: no reply")
        assert reply is not None  # noqa: S101 reason: for the type; it was expected above
        turn.finish(reply)
        _expect(not plan.violations, f"{where}: {plan.violations}")
        twice = [step.name for step in plan.steps if step.effect is Effect.ONCE and len(step.runs) > 1]
        _expect(not twice, f"{where}: {twice} may run once only")
        ends = Counter(entry.call for entry in turn.entries if isinstance(entry, ToolEnded))
        odd = [call for call in turn.view.calls if ends[call] != 1]
        _expect(not odd, f"{where}: the calls {odd} do not have exactly one result")
        expected = plan.answer({name: outcomes.get(name, DONE) for name in plan.names()})
        _expect(reply.text == expected, f"{where}: the answer is {reply.text!r}; expected {expected!r}")
        last = build_conversation([turn.view], TurnView()).previous_messages[-1]
        known = isinstance(last, AssistantMessage) and last.text == reply.text
        _expect(known, f"{where}: the next turn does not know the answer; it reads {last!r}")

    def _attempt_until_question(self, plan: Plan, turn: RecordingTurn) -> bool:
        """Make one attempt that asks the question; False if it crashed before."""
        try:
            reply = self._attempt(plan, turn)
        except Exception as error:  # noqa: BLE001 reason: whichever it is, it must say that the turn waits
            _expect(
                _contains_error(error, TurnWaits), f"the agent raised {error!r} instead of waiting for the answer"
            )
            return True
        _expect(reply is None, "the agent asked nobody")
        return False

    def _answer_and_check(self, plan: Plan, turn: RecordingTurn) -> None:
        asked = turn.entries[-1]
        put = isinstance(asked, QuestionAsked) and (asked.text, asked.options) == (
            COLOUR_QUESTION.text,
            COLOUR_QUESTION.options,
        )
        _expect(put, f"the question on record is {asked!r}")
        before = len(plan.steps[0].runs)
        answered = turn.answered("blue")
        reply = self._attempt(plan, answered)
        _expect(len(plan.steps[0].runs) == before, "what was done before the question was done again")
        self._finish_and_check(plan, answered, reply, {COLOUR_QUESTION.name: "blue"})


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _expect_joined_once(turn: RecordingTurn, where: str) -> None:
    """Expect that the waiting message joined the turn once, between steps, or still waits."""
    places = [place for place, entry in enumerate(turn.entries) if isinstance(entry, MessagesJoined)]
    _expect(len(places) + len(turn.waiting) == 1, f"{where}: heard {len(places)} times, {turn.waiting} waits")
    for place in places:
        under_way = [call.request.tool for call in fold(turn.records[:place]).open_calls]
        _expect(not under_way, f"{where}: heard while {under_way} had no result")


def _contains_error(error: BaseException, kind: type[BaseException]) -> bool:
    """Tell whether an error is of that kind, or is a group that contains one."""
    return any(isinstance(leaf, kind) for leaf in _leaf_errors(error))


def _leaf_errors(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaf_errors(inner)
    else:
        yield error


def _starts_tool(entry: Entry, name: str) -> bool:
    return isinstance(entry, ToolStarted) and entry.tool == name
