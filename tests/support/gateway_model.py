"""A whole gateway against a simple idea of what people must see: random walks of people, a platform and operators.

The gateway is the real one, with its store on disk. It is killed at any of its store calls and started again, as a
supervisor would. Whatever happens: a message that was taken is answered once and in its place, or some act of
somebody, which has a name, took it back.
"""

from __future__ import annotations

from unittest import TestCase

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, rule

from support.random_walk import CHATS, RandomWalk

chat_strategy = st.sampled_from(CHATS)


class GatewayModel(RuleBasedStateMachine):
    """Each rule is one event of the story; behind it, everything that can move has moved."""

    def __init__(self) -> None:
        super().__init__()
        self.walk = RandomWalk()

    def teardown(self) -> None:
        self.walk.close()

    @rule(chat=chat_strategy, script=st.sampled_from(["say", "step", "once", "step"]))
    def write(self, chat: str, script: str) -> None:
        """A person writes; `step` and `once` are work that goes on until it is let go of."""
        self.walk.run_event(lambda: self.walk.write(chat, script))

    @rule(
        chat=chat_strategy, words=st.sampled_from(["stop", "stop all", "new", "drop", "resume", "undo", "retry"])
    )
    def command(self, chat: str, words: str) -> None:
        self.walk.run_event(lambda: self.walk.command(chat, words))

    @rule(chat=chat_strategy)
    def suspend(self, chat: str) -> None:
        """An operator sets a conversation aside."""
        self.walk.run_event(lambda: self.walk.suspend(chat))

    @rule()
    def release_steps(self) -> None:
        """Whatever is being done is done."""
        self.walk.run_event(self.walk.harness.release_steps)

    @rule(calls=st.integers(1, 25), after=st.booleans())
    def crash_soon(self, calls: int, after: bool) -> None:
        """The gateway is killed at one of its next calls of the store, before or after it took place."""
        self.walk.run_event(lambda: self.walk.harness.arm(calls, after=after))

    @rule()
    def crash(self) -> None:
        self.walk.run_event(self.walk.harness.kill)

    @rule()
    def restart(self) -> None:
        """An orderly one, whose drain has no time."""
        self.walk.run_event(self.walk.harness.restart)

    @rule(up=st.booleans())
    def set_platform_reachable(self, up: bool) -> None:
        """The platform goes down, or comes back."""
        self.walk.run_event(lambda: self.walk.harness.set_reachable(up))

    @rule(fault=st.sampled_from(["lose_answers", "redeliver"]))
    def platform_misbehaves(self, fault: str) -> None:
        """The next answer of the platform is lost, or its next event is handed over twice."""
        self.walk.run_event(lambda: self.walk.harness.set_platform_fault(fault))

    @rule()
    def hours_pass(self) -> None:
        """So many that what was cut off is not fresh any more."""
        self.walk.run_event(self.walk.let_hours_pass)

    @rule()
    def settle_everything(self) -> None:
        """The platform is up, all work is done, and everybody looks at what they have got."""
        self.walk.run_event(self.walk.settle_everything)


def gateway_model_test(examples: int) -> type[TestCase]:
    """A test that tells so many stories."""

    class Stories(GatewayModel):
        """Of its own, so that others may tell more or fewer."""

    Stories.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return Stories.TestCase
