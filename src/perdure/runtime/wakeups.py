"""Wake-ups of the loops, and changes for whoever watches a session.

A wake-up saves waiting, and nothing relies on it: every loop also looks by itself, every few seconds. Where
several gateways share a database, `runtime/wakeup_relay.py` passes wake-ups on to the gateway that they concern.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

POLL_SECONDS = 5.0  # a lost wake-up delays its loop by at most so long
STORE_RETRY_SECONDS = 1.0  # between two tries while the store takes no writes


class WakeEvent:
    """An event that a loop awaits, set by the code that has changed what the loop acts on."""

    def __init__(self, poll_seconds: float = POLL_SECONDS) -> None:
        """`poll_seconds`: how long a loop waits for a wake-up before it looks by itself."""
        self._event = asyncio.Event()
        self._poll_seconds = poll_seconds

    def wake(self) -> None:
        self._event.set()

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Return when `wake` has been called since the last wait, or, with False, after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_seconds if timeout_seconds is None else timeout_seconds):
                await self._event.wait()
        woken = self._event.is_set()  # `wake` may have come in the very tick of the timeout
        self._event.clear()
        return woken


def _wake_nobody(_: str) -> None: ...


class Feed:
    """Wakes those who watch a session when something about the session has changed."""

    def __init__(self) -> None:
        self._watchers: dict[str, set[WakeEvent]] = {}
        self.on_watched: Callable[[str], None] = _wake_nobody  # is given the key of a session that is watched anew

    @property
    def watched_keys(self) -> list[str]:
        return list(self._watchers)

    def is_watched(self, key: str) -> bool:
        return key in self._watchers

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
        self.on_watched(key)
        try:
            yield watcher
        finally:
            self._watchers[key].discard(watcher)
            if not self._watchers[key]:
                del self._watchers[key]


class Relay:
    """Passes wake-ups on to the other gateways on the same database; this one has no other gateway."""

    def note_living(self, runs: Iterable[str]) -> None:
        """Note which other runs live: where there is none, nothing is sent."""

    def wake_holder(self, key: str, loop: str) -> None:
        """Wake a loop of the gateway that holds a chat, if that is another one."""

    def publish(self, key: str) -> None:
        """Wake the watchers of a session on other gateways."""

    def stop_attempt(self, turn: str) -> None:
        """Have the attempt at a turn stopped that somebody has ended, wherever it runs."""

    def show_preview(self, key: str, turn: str, text: str) -> None:
        """Show a growing answer to those who follow its chat on other gateways."""

    def end_preview(self, turn: str) -> None:
        """Show nothing more of a growing answer: its attempt has ended."""

    def show_notice(self, key: str, text: str) -> None:
        """Show a notice to those who follow a chat on other gateways."""


def _runs_nothing(_: str) -> bool:
    return False


class Wakeups:
    """Wakes the loops of one run, each by its name, and those of the gateway that holds the chat.

    The runner is called instead of being sent an event, so that it begins to serve a session in the same tick.
    """

    def __init__(self, feed: Feed, poll_seconds: float = POLL_SECONDS) -> None:
        self.feed = feed
        self.poll_seconds = poll_seconds
        self.relay = Relay()
        self.claims = WakeEvent(poll_seconds)
        self.delivery = WakeEvent(poll_seconds)
        self.attachments = WakeEvent(poll_seconds)
        self.commands = WakeEvent(poll_seconds)
        self.cleanup = WakeEvent()
        self.expiry = WakeEvent(poll_seconds)
        self._wake_runner: Callable[[str], None] = _wake_nobody
        self._wake_runner_after_quiet: Callable[[str], None] = _wake_nobody
        self._runs_here: Callable[[str], bool] = _runs_nothing

    def attach_runner(
        self,
        wake: Callable[[str], None],
        wake_after_quiet: Callable[[str], None],
        runs_here: Callable[[str], bool],
    ) -> None:
        """Set the runner's functions that wake a session, at once and after the quiet period.

        `runs_here` says whether a turn of a session runs on this gateway, so that no other one holds the session.
        """
        self._wake_runner = wake
        self._wake_runner_after_quiet = wake_after_quiet
        self._runs_here = runs_here

    def wake_here(self, key: str, loops: Iterable[str]) -> None:
        """Wake these loops of this gateway alone; the name of a loop of a newer version is ignored."""
        events = {"delivery": self.delivery, "attachments": self.attachments, "commands": self.commands}
        for name in loops:
            if name in events:
                events[name].wake()
            elif name == "runner":
                self._wake_runner(key)
            elif name == "quiet":
                self._wake_runner_after_quiet(key)

    def wake_all_here(self) -> None:
        """Wake every loop and every watcher of this gateway: wake-ups of other gateways may have been lost."""
        for event in (self.claims, self.delivery, self.attachments, self.commands, self.expiry):
            event.wake()
        self.feed.publish_all()

    def _wake(self, key: str, loop: str) -> None:
        """Wake a loop of this gateway, and that of the gateway which holds the chat."""
        self.wake_here(key, (loop,))
        if not self._runs_here(key):
            self.relay.wake_holder(key, loop)

    def publish(self, key: str) -> None:
        """Wake the watchers of a session that has changed."""
        self.feed.publish(key)
        self.relay.publish(key)

    def publish_all(self) -> None:
        """Wake the watchers of every session: the state of the gateway has changed."""
        self.feed.publish_all()

    def wake_delivery(self, key: str) -> None:
        """Wake the delivery loop: the chat of a session may be owed a reply."""
        self.publish(key)
        self._wake(key, "delivery")

    def wake_runner(self, key: str) -> None:
        """Wake the runner: a session may have a turn to claim, or its running turn a message to take in."""
        self._wake(key, "runner")

    def wake_runner_and_delivery(self, key: str) -> None:
        """Wake the runner and the delivery loop: a session may have a turn to claim or a reply to deliver."""
        self.wake_delivery(key)
        self.wake_runner(key)

    def wake_runner_after_quiet(self, key: str) -> None:
        """Wake the runner after the quiet period of `collect` mode."""
        self._wake(key, "quiet")

    def wake_attachments(self, key: str) -> None:
        """Wake the fetcher of files: a message may have come with files."""
        self._wake(key, "attachments")

    def wake_commands(self, key: str) -> None:
        """Wake the command loop: a chat command waits in the inbox."""
        self._wake(key, "commands")

    def wake_cleanup(self) -> None:
        """Wake the cleanup of commands: a turn may have ended in the middle of a shell command."""
        self.cleanup.wake()

    def wake_expiry(self) -> None:
        """Wake the expiry of messages: a message was too old when it came, and more may follow."""
        self.expiry.wake()
