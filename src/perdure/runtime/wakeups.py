"""Wake-ups of the loops, and changes for whoever watches a session.

A wake-up saves waiting, and nothing relies on it: every loop also looks by itself, every few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

POLL_SECONDS = 5.0  # a lost wake-up delays its loop by at most so long
STORE_RETRY_SECONDS = 1.0  # between two tries while the store takes no writes


class WakeEvent:
    """An event that a loop awaits, set by the code that has changed what the loop acts on."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, timeout_seconds: float = POLL_SECONDS) -> bool:
        """Return when `wake` has been called since the last wait, or, with False, after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        woken = self._event.is_set()  # `wake` may have come in the very tick of the timeout
        self._event.clear()
        return woken


class Feed:
    """Wakes those who watch a session when something about the session has changed."""

    def __init__(self) -> None:
        self._watchers: dict[str, set[WakeEvent]] = {}

    def publish(self, key: str) -> None:
        for watcher in self._watchers.get(key, ()):
            watcher.wake()

    def publish_all(self) -> None:
        for key in self._watchers:
            self.publish(key)

    @contextmanager
    def subscribe(self, key: str) -> Iterator[WakeEvent]:
        watcher = WakeEvent()
        self._watchers.setdefault(key, set()).add(watcher)
        try:
            yield watcher
        finally:
            self._watchers[key].discard(watcher)
            if not self._watchers[key]:
                del self._watchers[key]


def _wake_nobody(_: str) -> None: ...


class Wakeups:
    """Wakes the loops of one run, each by its name.

    The runner is called instead of being sent an event, so that it begins to serve a session in the same tick.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.delivery = WakeEvent()
        self.attachments = WakeEvent()
        self.commands = WakeEvent()
        self.cleanup = WakeEvent()
        self.processes = WakeEvent()
        self.expiry = WakeEvent()
        self._wake_runner: Callable[[str], None] = _wake_nobody
        self._wake_runner_after_quiet: Callable[[str], None] = _wake_nobody

    def attach_runner(self, wake: Callable[[str], None], wake_after_quiet: Callable[[str], None]) -> None:
        """Set the runner's functions that wake a session, at once and after the quiet period."""
        self._wake_runner = wake
        self._wake_runner_after_quiet = wake_after_quiet

    def publish(self, key: str) -> None:
        """Wake the watchers of a session that has changed."""
        self._feed.publish(key)

    def publish_all(self) -> None:
        """Wake the watchers of every session: the state of the gateway has changed."""
        self._feed.publish_all()

    def wake_delivery(self, key: str) -> None:
        """Wake the delivery loop: the chat of a session may be owed a reply."""
        self._feed.publish(key)
        self.delivery.wake()

    def wake_runner(self, key: str) -> None:
        """Wake the runner: a session may have a turn to claim, or its running turn a message to take in."""
        self._wake_runner(key)

    def wake_runner_and_delivery(self, key: str) -> None:
        """Wake the runner and the delivery loop: a session may have a turn to claim or a reply to deliver."""
        self.wake_delivery(key)
        self._wake_runner(key)

    def wake_runner_after_quiet(self, key: str) -> None:
        """Wake the runner after the quiet period of `collect` mode."""
        self._wake_runner_after_quiet(key)

    def wake_attachments(self) -> None:
        """Wake the fetcher of files: a message may have come with files."""
        self.attachments.wake()

    def wake_commands(self) -> None:
        """Wake the command loop: a chat command waits in the inbox."""
        self.commands.wake()

    def wake_cleanup(self) -> None:
        """Wake the cleanup of commands: a turn may have ended in the middle of a shell command."""
        self.cleanup.wake()

    def wake_processes(self) -> None:
        """Wake the relay of processes: another gateway may ask about one of this machine."""
        self.processes.wake()

    def wake_expiry(self) -> None:
        """Wake the expiry of messages: a message was too old when it came, and more may follow."""
        self.expiry.wake()
