"""Passes wake-ups on to the other gateways on the same PostgreSQL database, and takes theirs.

Hints are collected while the last ones are being sent, and go out together, after the commits that they tell of.
While no other run lives, none is sent. Which gateway shows a chat to somebody, each gateway tells the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import aclosing

from msgspec import Struct

from perdure.core.address import split_session_key
from perdure.core.hints import (
    AnyHint,
    ChangeHint,
    Hint,
    NoticeHint,
    PreviewHint,
    StopHint,
    StoppedHint,
    WakeHint,
    WatchHint,
    add_piece,
    batches,
    decode_hint,
    encode_hint,
    preview_pieces,
)
from perdure.errors import BadKey
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.backoff import Backoff
from perdure.runtime.clocks import boot_seconds
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import STORE_RETRY_SECONDS, Relay, WakeEvent
from perdure.store.hints import AddressedHint, HintChannel

log = Log("wakeup_relay")

COALESCE_SECONDS = 0.005  # between two sendings, in which hints are collected
RENEW_SECONDS = 5.0  # between two hints that a chat is still shown to somebody
FORGET_SECONDS = 3 * RENEW_SECONDS  # after which somebody who says nothing does not watch any more
MAX_PREVIEWS = 256  # growing answers of other gateways whose pieces are remembered
MAX_PENDING = 10_000  # hints of one kind that wait while the database is away; more are left to polling


class Watchers:
    """Which chats other runs show to somebody, each until it was not said again for a while."""

    def __init__(self) -> None:
        self._until: dict[str, dict[str, float]] = {}  # by key and run

    def add(self, hint: WatchHint) -> list[str]:
        """Note what a run watches; return the keys of which it has seen nothing yet."""
        until = boot_seconds() + FORGET_SECONDS
        new = [key for key in hint.keys if hint.fresh or hint.run not in self._until.get(key, ())]
        for key in hint.keys:
            self._until.setdefault(key, {})[hint.run] = until
        return new

    def of(self, key: str) -> list[str]:
        """Return the runs that watch a key."""
        return list(self._until.get(key, ()))

    def forget(self, living: Iterable[str]) -> None:
        """Forget dead runs, and what was not said again."""
        now, runs = boot_seconds(), set(living)
        for key, found in list(self._until.items()):
            left = {run: until for run, until in found.items() if run in runs and until > now}
            if left:
                self._until[key] = left
            else:
                del self._until[key]


class RelayedPreview(Struct, eq=False):
    """The growing answer of an attempt that runs here, and how much of it the others have."""

    key: str
    text: str
    sent: str = ""


class PendingHints:
    """Hints that wait to be sent, each once."""

    def __init__(self) -> None:
        self.wakes: dict[str, set[str]] = {}  # loops, by key
        self.stops: set[str] = set()  # turns
        self.changes: set[str] = set()  # keys
        self.previews: set[str] = set()  # turns
        self.direct: list[tuple[str, Hint]] = []  # with the run, or "" for all

    def add(self, run: str, hint: Hint) -> None:
        if len(self.direct) < MAX_PENDING:
            self.direct.append((run, hint))


class WakeupRelay(Relay):
    """The hints of one run: those that it sends, and those that it hears."""

    def __init__(self, run: GatewayRun, channel: HintChannel) -> None:
        self._run = run
        self._channel = channel
        self._feed = run.wakeups.feed
        self._feed.on_watched = self._watch
        self._others: set[str] = set()  # living runs
        self._watchers = Watchers()
        self._pending = PendingHints()
        self._due = WakeEvent(RENEW_SECONDS)
        self._previews: dict[str, RelayedPreview] = {}  # by turn
        self._heard_previews: OrderedDict[str, str] = OrderedDict()  # by turn
        self._failures = FailureLog(log)
        # Set by whoever stops attempts: the turn and the run that asks; the turn that no longer runs elsewhere.
        self.on_stop: Callable[[str, str], None] = lambda turn, run: None
        self.on_stopped: Callable[[str], None] = lambda turn: None

    # ── what this run tells others ──────────────────────────────────────────────────────────────────────────

    def note_living(self, runs: Iterable[str]) -> None:
        before, self._others = self._others, set(runs)
        self._watchers.forget(self._others)
        if self._others - before:
            self._watch_all(fresh=False)

    def is_alive(self, run: str) -> bool:
        """Say whether another run lives, as far as this one knows."""
        return run in self._others

    def wake_holder(self, key: str, loop: str) -> None:
        if self._others and len(self._pending.wakes) < MAX_PENDING:
            self._pending.wakes.setdefault(key, set()).add(loop)
            self._due.wake()

    def publish(self, key: str) -> None:
        if self._watchers.of(key):
            self._pending.changes.add(key)
            self._due.wake()

    def stop_attempt(self, turn: str) -> None:
        if self._others and len(self._pending.stops) < MAX_PENDING:
            self._pending.stops.add(turn)
            self._due.wake()

    def show_preview(self, key: str, turn: str, text: str) -> None:
        if self._others:
            self._previews.setdefault(turn, RelayedPreview(key, text)).text = text
            self._send_preview(turn)

    def _send_preview(self, turn: str) -> None:
        if self._watchers.of(self._previews[turn].key):
            self._pending.previews.add(turn)
            self._due.wake()

    def end_preview(self, turn: str) -> None:
        self._previews.pop(turn, None)

    def show_notice(self, key: str, text: str) -> None:
        for run in self._watchers.of(key):
            self.tell(run, NoticeHint(key, text))

    def tell(self, run: str, hint: Hint) -> None:
        """Send a hint to one run, or with "" to all of them."""
        self._pending.add(run, hint)
        self._due.wake()

    def _watch(self, key: str) -> None:
        if self._others:
            self.tell("", WatchHint(self._run.id, (key,)))

    def _watch_all(self, *, fresh: bool) -> None:
        for keys in batches(self._feed.watched_keys):
            self.tell("", WatchHint(self._run.id, keys, fresh))

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────

    async def send(self) -> None:
        """Send the hints that wait, again and again, and say regularly what is watched here."""
        backoff, renewed_at = Backoff(first_seconds=STORE_RETRY_SECONDS), boot_seconds()
        while True:
            await self._due.wait()
            if self._others and boot_seconds() - renewed_at >= RENEW_SECONDS:
                renewed_at = boot_seconds()
                self._watch_all(fresh=False)
            hints = self._take_pending()
            if not hints:
                continue
            sending = self._channel.send(self._run.id, hints)
            delay = await self._failures.delay_after("hints_not_sent", sending, backoff)
            await asyncio.sleep(delay or COALESCE_SECONDS)

    def _take_pending(self) -> list[AddressedHint]:
        """Return what is to be sent. Pieces of a preview come before the change that ends the preview."""
        pending, self._pending = self._pending, PendingHints()
        found: list[AddressedHint | None] = [
            *(_address(piece, run=run) for turn in pending.previews for run, piece in self._pieces(turn)),
            *(_address(hint, run=run) for run, hint in pending.direct),
            *(_address(WakeHint(key, tuple(sorted(loops))), key=key) for key, loops in pending.wakes.items()),
            *(_address(StopHint(turn), turn=turn) for turn in pending.stops),
            *(_address(ChangeHint(keys), run=run) for run, keys in self._changes(pending)),
        ]
        return [each for each in found if each is not None]

    def _pieces(self, turn: str) -> list[tuple[str, PreviewHint]]:
        preview = self._previews.get(turn)
        if preview is None:
            return []
        pieces = list(preview_pieces(preview.key, turn, preview.sent, preview.text))
        preview.sent = preview.text
        return [(run, piece) for run in self._watchers.of(preview.key) for piece in pieces]

    def _changes(self, pending: PendingHints) -> list[tuple[str, tuple[str, ...]]]:
        by_run: dict[str, list[str]] = {}
        for key in pending.changes:
            for run in self._watchers.of(key):
                by_run.setdefault(run, []).append(key)
        return [(run, some) for run, keys in by_run.items() for some in batches(keys)]

    # ── hearing ─────────────────────────────────────────────────────────────────────────────────────────────

    async def listen(self) -> None:
        """Hear the hints of others. After each new connection everything is looked at once."""
        backoff = Backoff(first_seconds=STORE_RETRY_SECONDS)
        while True:
            delay = await self._failures.delay_after("hints_not_heard", self._hear(), backoff)
            await asyncio.sleep(delay)

    async def _hear(self) -> None:
        async with aclosing(self._channel.listen(self._run.id)) as payloads:
            async for payload in payloads:
                if payload is None:
                    await self._begin_hearing()
                elif (hint := decode_hint(payload)) is not None:
                    await self._failures.contain("hint_not_followed", self._follow(hint))

    async def _begin_hearing(self) -> None:
        """Look at everything once, and tell the others that this run lives, and what it shows."""
        living = await self._run.store.run_services.living_runs()
        self.note_living(each.id for each in living if each.id != self._run.id)
        log.info("hints_heard", run=self._run.id, others=len(self._others))
        self._heard_previews.clear()
        self.tell("", WatchHint(self._run.id))
        self._watch_all(fresh=True)
        self._run.wakeups.wake_all_here()

    async def _follow(self, hint: AnyHint) -> None:
        match hint:
            case WakeHint():
                self._run.wakeups.wake_here(hint.key, hint.loops)
            case ChangeHint():
                for key in hint.keys:
                    self._feed.publish(key)
            case WatchHint():
                await self._note_watcher(hint)
            case StopHint():
                self.on_stop(hint.turn, hint.run)
            case StoppedHint():
                self.on_stopped(hint.turn)
            case PreviewHint():
                await self._show_piece(hint)
            case NoticeHint():
                await self._show_notice(hint)

    async def _note_watcher(self, hint: WatchHint) -> None:
        """Note what another run shows; when our own words come back, the others have them, too: look once more."""
        if hint.run == self._run.id:
            for key in hint.keys if hint.fresh else ():
                self._feed.publish(key)
            return
        if hint.run not in self._others and not await self._begins_to_live(hint.run):
            return
        new = set(self._watchers.add(hint))
        for turn, preview in self._previews.items():
            if preview.key in new:
                preview.sent = ""
                self._send_preview(turn)

    async def _begins_to_live(self, run: str) -> bool:
        """Say whether an unknown run lives on our database; it then learns at once what is shown here."""
        found = await self._run.store.runs.get(run)
        if found is None or found.ended_at is not None:
            return False
        self._others.add(run)
        self._watch_all(fresh=False)
        return True

    async def _show_piece(self, piece: PreviewHint) -> None:
        known = self._heard_previews.pop(piece.turn, "")
        text, adapter = add_piece(known, piece), self._adapter(piece.key)
        if adapter is not None and text is not None:
            self._heard_previews[piece.turn] = text
            while len(self._heard_previews) > MAX_PREVIEWS:
                self._heard_previews.popitem(last=False)
            await adapter.glimpse(split_session_key(piece.key)[1], piece.turn, text)

    async def _show_notice(self, hint: NoticeHint) -> None:
        adapter = self._adapter(hint.key)
        if adapter is not None:
            await adapter.notice(split_session_key(hint.key)[1], hint.text)

    def _adapter(self, key: str) -> Adapter | None:
        """Return the adapter on which a chat is followed live; None: nobody follows the chat here."""
        try:
            platform = split_session_key(key)[1].platform
        except BadKey:
            return None
        adapter = self._run.connections.connected.get(platform)
        return (
            adapter if adapter is not None and adapter.capabilities.live and self._feed.is_watched(key) else None
        )


def _address(hint: Hint, *, run: str = "", key: str = "", turn: str = "") -> AddressedHint | None:
    """Return the encoded hint with its address; None: it does not fit, and is left to polling."""
    payload = encode_hint(hint)
    return None if payload is None else AddressedHint(payload, run, key, turn)
