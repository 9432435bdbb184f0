"""Faults of the Telegram emulator: refusals, lost answers, and answers that are held back."""

from __future__ import annotations

import threading

from perdure.testing.telegram.refusals import BotApiRefusal


class Fault:
    """A fault for one call of one method.

    `effect`: whether the call takes place all the same. Then, in this order, the answer is held back until
    `release()`, the connection is cut, or the answer is another one. To a download, named `download`, half of the
    file is given first.
    """

    def __init__(
        self,
        *,
        effect: bool = False,
        hold: bool = False,
        cut: bool = False,
        refusal: BotApiRefusal | None = None,
        page: tuple[int, bytes] | None = None,
    ) -> None:
        self.effect = effect
        self.hold = hold
        self.cut = cut
        self.refusal = refusal
        self.page = page  # a status and a body that the Bot API would not send
        self.reached = threading.Event()  # set when a call has met this fault
        self.released = threading.Event()

    def release(self) -> None:
        """Send the answer that was held back."""
        self.released.set()
