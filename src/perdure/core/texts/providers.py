"""Why a provider's model gave no answer, for the person who waits for it."""

from __future__ import annotations

from perdure.core.texts import phrases

EMPTY_MESSAGE = "(an empty answer)"
KEY_REFUSED = "the model's provider refused our key. Whoever runs this gateway has to set `model.api_key`."
QUOTA_EXHAUSTED = (
    "the account with the model's provider is used up. Whoever runs this gateway has to look after it."
)
BUSY = "the model's provider has too much to do just now. Try again in a while."
TIMED_OUT = "the model did not answer in time. Try again in a while."
UNREACHABLE = "the model's provider cannot be reached. Try again in a while."
SERVER_ERROR = "the model's provider has a problem of its own. Try again in a while."
GARBLED = "the model's provider gave an answer that broke off or makes no sense. Try again in a while."
INCOMPLETE = "the model's answer broke off before its end, and was discarded. Try again in a while."
NO_FINISH_REASON = "the answer ended without a finish reason"
NO_REASON_GIVEN = "no reason was given"
STREAM_FAILED = "the provider failed while it answered"


def incomplete_call(finish: str) -> str:
    return f"the answer ended inside a tool call ({finish})"


def answer_too_long(limit: int) -> str:
    return f"the answer had no end within {limit} characters"


def timed_out_after(seconds: float) -> str:
    return f"no answer came within {seconds:g} s"


def status_line(status: int | None, said: str) -> str:
    """A provider's status and message, on one line."""
    return ": ".join(filter(None, [f"HTTP {status}" if status else "", said]))


def failed(why: str, status: int | None, said: str, requests: int) -> str:
    """The failure of a model call that is not tried again: the reason, the provider's message, and the tries."""
    details = [
        status_line(status, "" if said in why else said),
        f"Asked {phrases.times(requests)}." if requests > 1 else "",
    ]
    known = " ".join(f"{each.rstrip('.')}." for each in details if each)
    return f"{why} ({known})" if known else why


def failed_request(number: int, status: int | None, said: str, wait: int | None) -> str:
    """A failed try of a model call, for the timeline and the chat: its number, and when the next one comes."""
    known = status_line(status, said) or "no answer"
    following = "No further try" if wait is None else f"Next try in {wait / 1000:g} s"
    return f"Try {number} failed: {known.rstrip('.')}. {following}."


MODEL_NAME_HINT = (
    "Write `provider:model` in model.name, and the key in model.api_key or in the provider's usual variable."
)


def unknown_model(name: str) -> str:
    return f"the provider has no model {name!r}. Whoever runs this gateway has to set `model.name`."


def refused(said: str) -> str:
    return f"the model's provider refused the request: {phrases.clip(said, 300)}"
