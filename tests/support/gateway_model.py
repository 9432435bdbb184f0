"""Compares a gateway with a simple model in random walks of people, a platform and operators.

The gateway is the real one, with its store on disk. It is killed at any of its store calls and started again, as a
supervisor would. Whatever happens: an accepted message is answered once and in order, or a named act of
a person, an operator or the clock explains why not.
"""

from __future__ import annotations

from unittest import TestCase

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, rule

from support.random_walk import CHATS, RandomWalk

chat_strategy = st.sampled_from(CHATS)


class GatewayModel(RuleBasedStateMachine):
    """Each rule is one event of the walk; after it, the gateway is idle again."""

    def __init__(self) -> None:
        super().__init__()
        self.walk = RandomWalk()

    def teardown(self) -> None:
        self.walk.close()

    @rule(chat=chat_strategy, script=st.sampled_from(["say", "step", "once", "step"]))
    def write(self, chat: str, script: str) -> None:
        """Let a person write; `step` and `once` hang until they are released."""
        self.walk.run_event(lambda: self.walk.write(chat, script))

    @rule(
        chat=chat_strategy, words=st.sampled_from(["stop", "stop all", "new", "drop", "resume", "undo", "retry"])
    )
    def command(self, chat: str, words: str) -> None:
        self.walk.run_event(lambda: self.walk.command(chat, words))

    @rule(chat=chat_strategy)
    def suspend(self, chat: str) -> None:
        """Let an operator suspend a session."""
        self.walk.run_event(lambda: self.walk.suspend(chat))

    @rule()
    def release_steps(self) -> None:
        """Release all hanging steps."""
        self.walk.run_event(self.walk.harness.release_steps)

    @rule(calls=st.integers(1, 25), after=st.booleans())
    def crash_soon(self, calls: int, after: bool) -> None:
        """Crash the gateway before or after one of its next store calls."""
        self.walk.run_event(lambda: self.walk.harness.arm(calls, after=after))

    @rule()
    def crash(self) -> None:
        self.walk.run_event(self.walk.harness.kill)

    @rule()
    def restart(self) -> None:
        """Restart the gateway in an orderly way, with no time to drain."""
        self.walk.run_event(self.walk.harness.restart)

    @rule(up=st.booleans())
    def set_platform_reachable(self, up: bool) -> None:
        """Make the platform unreachable or reachable."""
        self.walk.run_event(lambda: self.walk.harness.set_reachable(up))

    @rule(fault=st.sampled_from(["lose_answers", "redeliver"]))
    def platform_misbehaves(self, fault: str) -> None:
        """Lose the next answer of the platform, or hand its next event over twice."""
        self.walk.run_event(lambda: self.walk.harness.set_platform_fault(fault))

    @rule()
    def hours_pass(self) -> None:
        """Let hours pass, so that interrupted turns are stale."""
        self.walk.run_event(self.walk.let_hours_pass)

    @rule()
    def settle_everything(self) -> None:
        """Make the platform reachable, finish everything, and check all answers."""
        self.walk.run_event(self.walk.settle_everything)


def gateway_model_test(examples: int) -> type[TestCase]:
    """Make a test with this many random walks."""

    class Stories(GatewayModel):
        """A test case with settings of its own."""

    Stories.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return Stories.TestCase
