"""Every error we raise on purpose, named by its condition.

An error says what happened and, in its `hint`, what to do about it. Its branch says who must act:
`OperatorError` the person who runs the gateway, `Unavailable` nobody (try again), `SendError` the sender.
Nothing here imports anything of ours.
"""

from __future__ import annotations


class PerdureError(Exception):
    """Something went wrong that we foresaw."""

    hint: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  hint: {self.hint}" if self.hint else message

    @property
    def message(self) -> str:
        """The sentence without its hint."""
        return super().__str__()


# ── the operator must act ───────────────────────────────────────────────────────────────────────────────────


class OperatorError(PerdureError):
    """Nothing works until a person changes something."""

    exit_code = 78


class ConfigurationError(OperatorError):
    """The configuration has problems; every one of them is listed."""


class DatabaseRefused(OperatorError):
    """The database is truncated, foreign, or of a newer version; it was not written to."""


class LockHeld(OperatorError):
    """Another gateway works on this home or database."""


class BadKey(PerdureError):
    """A text is not a session key."""


class BadImport(PerdureError):
    """The import file as a whole cannot be read; nothing was imported."""


class RecordRefused(PerdureError):
    """One record of an import was not imported, for a reason found at a place in it; the others are."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


class NotFound(PerdureError):
    """Nothing has that name."""


class BadPerson(PerdureError):
    """A text names no person, or no role that one may have."""


class BadLogin(PerdureError):
    """A login cannot have that name, person, scope or end."""

    exit_code = 2


class TooManyTries(PerdureError):
    """So many wrong codes were tried that none is taken for a while."""


class StillRuns(PerdureError):
    """A command does not end, so what it belongs to is not erased yet."""


class NotTaken(PerdureError):
    """A message was understood and kept, but is not answered: its sender may not talk here."""


class GatewayNotRunning(PerdureError):
    """No gateway answers."""

    exit_code = 69


# ── the store ───────────────────────────────────────────────────────────────────────────────────────────────


class StoreError(PerdureError):
    """A write or read did not happen as asked."""


class Unavailable(StoreError):
    """The write was not done, and may be tried again."""


class StoreFull(Unavailable):
    """The write was not done: the disk is full."""

    hint = "Free some space; Perdure tries again by itself."


class StoreUnreachable(Unavailable):
    """The write was not done: the database server does not answer."""

    hint = "Start the database server or mend the network; Perdure tries again by itself."


class NotStored(StoreError):
    """An event was not stored: something failed that nobody foresaw. The platform may hand it over again."""


class ContentDamaged(StoreError):
    """The bytes of a file in the database are not those that were written, or not there any more."""


class StoreBroken(StoreError):
    """The outcome of a write is unknown: the disk failed to sync. Nothing more is written by this process."""

    hint = "Check the disk. The gateway stops, and reads what was really written when it starts again."


class NewerEntry(PerdureError):
    """The journal of one session holds an entry that this version cannot read.

    No `StoreError`: that is the fault of the whole store, and fails every transaction of a batch.
    """

    hint = "A newer Perdure wrote it: run that version or a newer one."


class IllegalMove(PerdureError):
    """A turn was asked to make a move that its state does not have."""


class TurnMoved(PerdureError):
    """This attempt no longer owns its turn: it was stopped, finished or taken over. It must stop at once."""


class TurnWaits(PerdureError):
    """The turn waits for a person; this attempt has nothing more to do."""


class RunEnded(PerdureError):
    """Another gateway declared this run dead, and may have taken over its sessions."""

    hint = "It was frozen or cut off for longer than its lease."


class Killed(BaseException):
    """The gateway is to end at once, as if its process had been killed. `perdure.testing` raises it."""


class ExitRefused(PerdureError):
    """A task wanted to end the process, or pretended that somebody had asked for it from the keyboard."""


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────


class ToolFailed(PerdureError):
    """A tool could not do what it was asked; the model reads this sentence, and may correct itself."""


class OutcomeUnknown(PerdureError):
    """A call may have taken effect, and nobody can tell: never repeated unasked."""


class StepFailed(PerdureError):
    """A step of an agent's own ran and failed, and fails alike whenever the turn is gone through again."""


class StepChanged(PerdureError):
    """A step on record is not the one that is asked for now: the code has changed since the turn began."""


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────


class ModelError(PerdureError):
    """The model provider refused or failed; the turn fails with this sentence."""


class ModelCallFailed(ModelError):
    """One call of a model gave no answer. The message tells a person why; `said` is what the provider said.

    With `again`, the same call may succeed later: after `wait` seconds, where the provider names a time. With
    `broke_off`, the provider had begun to answer, and the answer has no end.
    """

    def __init__(
        self,
        message: str,
        *,
        said: str = "",
        status: int | None = None,
        again: bool = True,
        wait: float | None = None,
        broke_off: bool = False,
    ) -> None:
        super().__init__(message)
        self.said = said
        self.status = status
        self.again = again
        self.wait = wait
        self.broke_off = broke_off


class ContextTooLong(ModelError):
    """The conversation is longer than the model can read at once."""

    def __init__(self, message: str, *, fits: int = 0) -> None:
        """`fits` is about how many tokens of the request would fit, counted as we count them; 0: nobody knows."""
        super().__init__(message)
        self.fits = fits


# ── sending ─────────────────────────────────────────────────────────────────────────────────────────────────


class SendError(PerdureError):
    """A message was not confirmed by its platform."""


class NotConnected(SendError):
    """Nothing was sent: the platform cannot be reached. Costs no attempt."""


class SendRetry(SendError):
    """Nothing was sent, and it may be tried again, at the earliest after `after` seconds."""

    def __init__(self, message: str, *, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class SendRefused(SendError):
    """Nothing was sent, and trying again would not help."""


class SendUnknown(SendError):
    """The message may or may not have been sent: the platform's answer was lost."""


# ── fetching ────────────────────────────────────────────────────────────────────────────────────────────────


class FetchFailed(PerdureError):
    """A file was not fetched, and it may be tried again."""


class FetchRefused(PerdureError):
    """A file was not fetched, and trying again would not help."""


class FileTooLarge(FetchRefused):
    """A file has more bytes than are taken."""


class AttachmentQuotaReached(FetchRefused):
    """There is no room for a file among the attachments that are kept already."""
