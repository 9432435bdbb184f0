"""Why a model of a provider gave no answer, for the person who waits for it."""

from __future__ import annotations

from perdure.core.notes.words import clipped, times

TOO_LONG = "this conversation has grown longer than the model can read. /new begins a fresh one."


def instructions_too_long(window: int, prompt: int, tools: int, count: int) -> str:
    return (
        f"the model reads about {window} tokens at once, and what it must read before any message does not fit: "
        f"the system prompt has about {prompt}, the descriptions of {count} tools have about {tools}. Whoever "
        "runs this gateway has to choose a model with a larger context, fewer tools (`agent.tools`) or a shorter "
        "`agent.system_prompt`."
    )


def message_too_long(window: int, message: int, instructions: int) -> str:
    return (
        f"this message is too long for the model: it has about {message} tokens. The model reads about {window} "
        f"at once, and its instructions take about {instructions} of them. Send it again in shorter parts."
    )


def summary_failed(why: str) -> str:
    return f"the conversation has grown too long for the model, and could not be summed up: {why}"


MODEL_KEY_REFUSED = "the model's provider refused our key. Whoever runs this gateway has to set `model.api_key`."


MODEL_QUOTA = "the account with the model's provider is used up. Whoever runs this gateway has to look after it."


MODEL_BUSY = "the model's provider has too much to do just now. Try again in a while."


MODEL_SILENT = "the model did not answer in time. Try again in a while."


MODEL_UNREACHABLE = "the model's provider cannot be reached. Try again in a while."


MODEL_BROKEN = "the model's provider has a problem of its own. Try again in a while."


MODEL_GARBLED = "the model's provider gave an answer that broke off or makes no sense. Try again in a while."


MODEL_BROKE_OFF = "the model's answer broke off before its end, and was discarded. Try again in a while."


NO_FINISH = "the answer ended without a finish reason"


def half_a_call(finish: str) -> str:
    return f"the answer ended inside a tool call ({finish})"


def endless_answer(limit: int) -> str:
    return f"the answer had no end within {limit} characters"


def no_answer_within(seconds: float) -> str:
    return f"no answer came within {seconds:g} s"


def provider_said(status: int | None, said: str) -> str:
    """The status and the words of a provider, on one line."""
    return ": ".join(filter(None, [f"HTTP {status}" if status else "", said]))


def model_failed(why: str, status: int | None, said: str, requests: int) -> str:
    """The failure of a model call that is not made again: why, what the provider said, and what was tried."""
    details = [
        provider_said(status, "" if said in why else said),
        f"Asked {times(requests)}." if requests > 1 else "",
    ]
    known = " ".join(f"{each.rstrip('.')}." for each in details if each)
    return f"{why} ({known})" if known else why


def failed_try(number: int, status: int | None, said: str, wait: int | None) -> str:
    """A failed try of a model call, for whoever watches: which try it was, and when the next one comes."""
    known = provider_said(status, said) or "no answer"
    following = "No further try" if wait is None else f"Next try in {wait / 1000:g} s"
    return f"Try {number} failed: {known.rstrip('.')}. {following}."


MODEL_HINT = (
    "Write `provider:model` in model.name, and the key in model.api_key or in the provider's usual variable."
)


def no_such_model(name: str) -> str:
    return f"the provider has no model {name!r}. Whoever runs this gateway has to set `model.name`."


def model_refused(said: str) -> str:
    return f"the model's provider refused the request: {clipped(said, 300)}"
