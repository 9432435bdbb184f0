"""Wakes whoever acts on a message that has just been stored."""

from __future__ import annotations

from perdure.core import texts
from perdure.core.address import parent_session_key
from perdure.core.messages import Inbound, Stored
from perdure.core.queue import Fate
from perdure.core.recovery.decision import InterruptionReason
from perdure.runtime.commands.spec import GatewayControl
from perdure.runtime.drain import TransientNotices
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.runner import TurnRunner
from perdure.runtime.wakeups import Wakeups


class MessageRouter:
    """Decides by what the store has made of a message which loops it concerns."""

    def __init__(
        self,
        wakeups: Wakeups,
        runner: TurnRunner,
        slots: RecoverySlots,
        notices: TransientNotices,
        control: GatewayControl,
    ) -> None:
        self._wakeups = wakeups
        self._runner = runner
        self._slots = slots
        self._notices = notices
        self._control = control

    def route(self, stored: Stored, inbound: Inbound, *, is_command: bool) -> None:
        match stored.fate:
            case Fate.FULL:
                self._wakeups.wake_delivery(stored.key)
            case Fate.EXPIRED:
                self._wakeups.wake_expiry()
            case _:
                self._route_accepted(stored, inbound, is_command=is_command)

    def _route_accepted(self, stored: Stored, inbound: Inbound, *, is_command: bool) -> None:
        self._wakeups.publish(parent_session_key(stored.key))
        if stored.ended is not None:
            self._runner.stop_attempt(stored.ended)
        if is_command:
            self._wakeups.wake_commands()
            return
        self._slots.prioritise(stored.key)
        self._wakeups.wake_runner(stored.key)
        if inbound.attachments:
            self._wakeups.wake_attachments()
        if stored.quiet:
            self._wakeups.wake_runner_after_quiet(stored.key)
        self._notify_while_stopping(stored, inbound)

    def _notify_while_stopping(self, stored: Stored, inbound: Inbound) -> None:
        """Tell the sender, while the gateway stops, that the message is stored and answered after the start."""
        if self._control.stopping is not None and stored.fate is Fate.WAITS:
            restart = self._control.stopping is InterruptionReason.RESTART_TIMEOUT
            self._notices.notify(inbound.address, texts.recovery.message_stored(restart=restart))
