"""Prompts and summaries for models, answers of the offline model, and what went wrong with a model or an agent."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.texts import phrases, questions

SYSTEM_PROMPT = (
    "You are a capable and friendly assistant in a chat. Answer briefly and plainly, in the language of the "
    "person you talk with. Use your tools when they help, and tell what you did with them. When you do not "
    "know something, or could not do it, say so."
)
CLARIFY = (
    "Asks the person you talk with, and waits for the answer, for days if need be. Use it when you cannot go on "
    "sensibly without knowing something that only they can tell."
)
SHELL = (
    "Runs a shell command in the workspace and returns its output and exit code. It goes on even if the gateway "
    "is restarted. `timeout` is in seconds; a command that takes longer is ended."
)
SHELL_BACKGROUND = (
    "Return at once with the id of a process that goes on by itself, also when this turn has ended. The tool "
    "`process` looks after it. Without a timeout it is never ended."
)
SHELL_NOTIFY = "In the background: tell you when it has ended, in a turn of its own."
SHELL_WATCH = (
    "In the background: texts, or simple regular expressions, to watch its output for. You are told of lines that "
    "have one of them, at most every 15 seconds; give only what is rare."
)
PROCESS = (
    "Looks after processes that `shell` has begun in the background. `list` shows those of this chat; `poll` how "
    "one is doing, with the end of its output; `log` its output from an offset on; `wait` waits for its end; "
    "`write` gives it something to read; `kill` ends it. Once you have seen the end, you are not told of it again."
)


EMPTY_SUMMARY = "the model's summary was empty, or had no end. /new begins a fresh conversation."
COMPACTION_TRANSCRIPT_REFUSED = (
    "the model refused to read even a small part of it. /new begins a fresh conversation."
)
COMPACTION_SYSTEM_PROMPT = (
    "You sum up conversations between a user and an assistant that uses tools, so that the assistant can go on "
    "with the summary instead of the original."
)


def compaction_request(transcript: str) -> str:
    return (
        "Sum up the conversation below. Keep what the user wants, what was decided, found and done, names, paths, "
        f"numbers and open points. Write the summary only.\n\n<conversation>\n{transcript}\n</conversation>"
    )


def summary_note(text: str) -> str:
    return f"[Gateway note: The conversation so far is too long to be shown. In short: {text}]"


CONVERSATION_TOO_LONG = "this conversation has grown longer than the model can read. /new begins a fresh one."


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


def compaction_failed(why: str) -> str:
    return f"the conversation has grown too long for the model, and could not be summed up: {why}"


OFFLINE_GREETING = (
    "Hello! I am the offline model: I run scripts, not thoughts, so that you can try Perdure without a key.\n"
    "Send me lines such as these, and kill the gateway while they run:\n"
    "    step research 2s\n"
    "    once send-invoice 2s\n"
    "    parallel: a, b, c\n"
    "    run: sleep 20; echo it ran on\n"
    "    ask: Which way? | Left | Right\n"
    "    say: All done."
)


def offline_attachments_received(lines: Sequence[str]) -> str:
    """The offline model's words about a message's files; empty if there are none."""
    return (
        "\n".join(["I am the offline model, so I only look at the labels. You sent me:", *lines]) if lines else ""
    )


OFFLINE_SUMMARY = "The offline model keeps no summaries: it reads its script from the message itself."
OFFLINE_PARALLEL_USAGE = "`parallel:` wants names, such as: parallel: a, b, c"
OFFLINE_DONE = "Done."


def offline_flood_usage(size: str) -> str:
    return f"`flood:` wants a number of characters, such as: flood: 5000 (it got {size!r})"


EMPTY_MESSAGE = "(an empty answer)"
PROVIDER_KEY_REFUSED = (
    "the model's provider refused our key. Whoever runs this gateway has to set `model.api_key`."
)
PROVIDER_QUOTA_EXHAUSTED = (
    "the account with the model's provider is used up. Whoever runs this gateway has to look after it."
)
PROVIDER_BUSY = "the model's provider has too much to do just now. Try again in a while."
PROVIDER_TIMED_OUT = "the model did not answer in time. Try again in a while."
PROVIDER_UNREACHABLE = "the model's provider cannot be reached. Try again in a while."
PROVIDER_SERVER_ERROR = "the model's provider has a problem of its own. Try again in a while."
PROVIDER_GARBLED = "the model's provider gave an answer that broke off or makes no sense. Try again in a while."
PROVIDER_INCOMPLETE = "the model's answer broke off before its end, and was discarded. Try again in a while."
NO_FINISH_REASON = "the answer ended without a finish reason"


def incomplete_call(finish: str) -> str:
    return f"the answer ended inside a tool call ({finish})"


def answer_too_long(limit: int) -> str:
    return f"the answer had no end within {limit} characters"


def provider_timed_out_after(seconds: float) -> str:
    return f"no answer came within {seconds:g} s"


def provider_status_line(status: int | None, said: str) -> str:
    """A provider's status and message, on one line."""
    return ": ".join(filter(None, [f"HTTP {status}" if status else "", said]))


def provider_failed(why: str, status: int | None, said: str, requests: int) -> str:
    """The failure of a model call that is not tried again: the reason, the provider's message, and the tries."""
    details = [
        provider_status_line(status, "" if said in why else said),
        f"Asked {phrases.times(requests)}." if requests > 1 else "",
    ]
    known = " ".join(f"{each.rstrip('.')}." for each in details if each)
    return f"{why} ({known})" if known else why


def failed_request(number: int, status: int | None, said: str, wait: int | None) -> str:
    """A failed try of a model call, for the timeline and the chat: its number, and when the next one comes."""
    known = provider_status_line(status, said) or "no answer"
    following = "No further try" if wait is None else f"Next try in {wait / 1000:g} s"
    return f"Try {number} failed: {known.rstrip('.')}. {following}."


MODEL_NAME_HINT = (
    "Write `provider:model` in model.name, and the key in model.api_key or in the provider's usual variable."
)


def unknown_model(name: str) -> str:
    return f"the provider has no model {name!r}. Whoever runs this gateway has to set `model.name`."


def provider_refused(said: str) -> str:
    return f"the model's provider refused the request: {phrases.clip(said, 300)}"


CALL_AGAIN_HINT = "Mend that, and make the call again."
DEFERRED_TOOL_NOT_RUN = "not run: this tool wants to wait for an approval or a result from elsewhere, and cannot."
NESTED_CALL_NOT_RUN = "not run: a tool can be called by the model only, not from inside of another tool."


def call_again(why: str) -> str:
    """The result of a call that a model is asked to make again."""
    return f"{why}\n\n{CALL_AGAIN_HINT}"


STEP_INTERRUPTED = "it was cut off"


def step_outcome_unknown(call: str, why: str) -> str:
    doubt = f"{call}: {why.rstrip('.')}, and nobody can tell whether it took effect."
    return f"{doubt} I did not repeat it. Look whether it did, and then write again."


def step_error(error: BaseException) -> str:
    """The error of a failed step, as it is journalled."""
    said = phrases.clip(str(error), 2000)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def step_failed(step: str, why: str) -> str:
    return f"the step {step!r} failed: {why}"


def result_too_large(size: int, limit: int) -> str:
    return f"it ran, but its result is {size} bytes long; at most {limit} are kept. Return less, such as a name."


def result_not_json(kind: str, error: BaseException) -> str:
    return f"it ran, but its result, of the type {kind}, cannot be kept as JSON: {error}"


def step_changed(was: str, now: str) -> str:
    return (
        f"when this began it went by {was}, and now it would go by {now}. The agent has changed meanwhile, or "
        "does not do the same when it begins anew. What was done stays done; write again to begin afresh."
    )


def question_step(text: str, options: Sequence[str]) -> str:
    return f"asking {questions.format_question(text, options)!r}"


def deferred_results(tools: Sequence[str]) -> str:
    return f"the agent wants to wait for results from elsewhere ({', '.join(tools)}), and cannot."
