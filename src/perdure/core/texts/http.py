"""Why the HTTP API or the login refuses a request, and the hints that say what to send instead."""

from __future__ import annotations

from collections.abc import Iterable

# ── bodies ──────────────────────────────────────────────────────────────────────────────────────────────────

SEND_LESS = "Send less at a time."
SEND_AGAIN = "Send it again."
MESSAGE_CLOSED_EARLY = "the connection closed before the message was whole"
FILE_CLOSED_EARLY = "the connection closed before the file was whole"
BODY_DOES_NOT_FIT = "the body does not fit"
BODY_IS_NO_MESSAGE = "the body is not a message"
BODY_HAS_NO_WORDS = "the body has no new words"
BLANK_TEXT = "text: expected something to answer, got nothing but blanks"
BAD_ANSWER = "answer: expected some words, and no NUL (U+0000) in them"
MESSAGE_EXAMPLE = 'Send JSON such as {"id": "1", "text": "hello"}, with an id of your own for every new message.'
EDIT_EXAMPLE = 'Send JSON such as {"text": "hello"}.'
ANSWER_EXAMPLE = 'Send JSON such as {"answer": "Left"}.'
APPROVAL_EXAMPLE = 'Send JSON such as {"approve": true}.'
PERSON_EXAMPLE = 'Send JSON such as {"code": "ABCD-EFGH", "role": "member"}; docs/people.md has the others.'


def body_too_large(most: int) -> str:
    return f"the body is larger than {most} bytes"


def body_too_slow(seconds: float) -> str:
    return f"the body came too slowly: nothing, or not all of it, within {seconds:g} s"


def contains_nul(name: str) -> str:
    return f"{name}: expected characters other than NUL (U+0000), got one"


def message_id_length(length: int) -> str:
    return f"id: expected 1 to 200 characters, got {length}"


def person_text_limits(most: int) -> str:
    return f"expected texts of at most {most} characters, none of them NUL"


# ── names, cursors and filters ──────────────────────────────────────────────────────────────────────────────

BAD_CHAT_NAME = "the name of the chat cannot be used"
CHAT_NAME_FORM = "Use 1 to 200 characters, none of them a control character."
LISTS_HAVE_IDS = "The lists have the ids."
NO_NUL_IN_NAMES = "No name holds the character U+0000."
GIVE_NAMED_CURSOR = "Give the one that the page before named."
GIVE_NEXT_OF_PAGE = "Give the `next` of the page before."
GIVE_NEXT_OF_OUTPUT = "Give the `next` of the answer before."
GIVE_PLACE = "Give the `place` of the last one seen."
GIVE_MESSAGE = "Give the id or position of one."
GIVE_EVENT_OR_NONE = "Send the id of an event, or none at all."
GIVE_EVENT_OF_CHAT = "Send the id of an event of this chat."


def unknown_id(noun: str, given: str) -> str:
    return f"no {noun} is named {given[:80]!r}"


def unknown_session(given: str) -> str:
    return f"no session is named {given!r}"


def bad_cursor(after: str, noun: str) -> str:
    return f"after={after[:60]!r} is no id of a {noun}"


def bad_decision_cursor(after: str) -> str:
    return f"after={after[:60]!r} is no place"


def bad_person_cursor(after: str) -> str:
    return f"after={after[:60]!r} is nobody's place"


def bad_message_cursor(after: str) -> str:
    return f"after={after[:60]!r} names no message of this chat"


def bad_offset(given: str) -> str:
    return f"offset={given[:60]!r} is no place in the output"


def bad_event_id(given: str) -> str:
    return f"Last-Event-ID {given[:60]!r} is none of ours"


def event_of_another_chat(cursor: str) -> str:
    return f"Last-Event-ID {cursor!r} is not of this chat"


def unknown_filter(name: str, given: str) -> str:
    return f"{name}={given[:60]!r} is not known"


def one_of(words: Iterable[str]) -> str:
    return f"Give one of: {', '.join(words)}."


def unknown_delivery_state(given: str) -> str:
    return f"{given[:60]!r} is no state of a reply"


def delivery_states(states: Iterable[str]) -> str:
    return f"The states are: {', '.join(states)}."


# ── verbs ───────────────────────────────────────────────────────────────────────────────────────────────────

_PAST_TENSE = {"resend": "resent", "drop": "dropped"}


def unknown_verb(verb: str) -> str:
    return f"there is no verb {verb!r}"


def verbs(known: Iterable[str]) -> str:
    return f"The verbs are: {', '.join(known)}."


def outbox_verb_refused(state: str, verb: str) -> str:
    return f"a reply that is {state} cannot be {_PAST_TENSE[verb]}"


# ── messages, files, questions and processes ────────────────────────────────────────────────────────────────

WAIT_FOR_ANSWERS = "Wait until some are answered; then send it with a new id."
MESSAGE_ERASED = "a message of this id was here, and was erased"
SEND_WITH_NEW_ID = "Send it with a new id."
MESSAGE_HAS_BEGUN_HINT = "It has begun, or was answered, dropped or deleted. Write a new message instead."
MESSAGE_UNKNOWN_HINT = "Name it by the id that you gave it when you wrote it."
FILE_WITHOUT_NAME = "the file has no name"
FILE_NAME_EXAMPLE = "Send it to /api/attachments?name=notes.txt, say."
MAKE_ROOM = "Make room on the gateway's disk, and send it again."
FILE_NOT_FETCHED_YET = "It has not been fetched yet; ask again in a moment."
FILE_NOT_HERE = "This gateway does not have it. If another one has, it copies it when it runs; ask again then."
FILE_IDS_HINT = "Messages list the ids of their files."
MAYBE_ANSWERED = "It may have been answered already."
MAYBE_DECIDED = "It may have been decided already."
PROCESS_IDS_HINT = "GET /api/processes lists them."
PROCESS_LIST_HINT = "The list of processes has those that there are."


def file_too_large(problem: str) -> str:
    return f"{problem}, and no more is taken"


def send_at_most(size: str) -> str:
    return f"Send at most {size}."


def file_not_stored(problem: object) -> str:
    return f"the file could not be kept: {problem}"


def unknown_file(name: str) -> str:
    return f"there is no file {name[:60]!r}"


def file_not_fetched(problem: str | None) -> str:
    return f"It could not be fetched: {problem}."


def not_uploaded(name: str) -> str:
    return f"attachments: {name[:60]!r} was not uploaded"


def no_open_question(name: str) -> str:
    return f"no question {name[:80]!r} waits for an answer"


def no_open_approval(name: str) -> str:
    return f"nothing named {name[:80]!r} waits for approval"


def unknown_process(name: str) -> str:
    return f"no process is named {name!r}"


# ── every path ──────────────────────────────────────────────────────────────────────────────────────────────

PATHS_HINT = "docs/http.md lists what there is."
ALLOWED_METHODS_HINT = "see docs/http.md"
CRASHED = "something went wrong inside the gateway"
READ_AGAIN = "Ask again in a moment."
WRITE_AGAIN = "Nothing was stored; send it again."


def unknown_path(path: str) -> str:
    return f"there is nothing at {path}"


def method_not_allowed(method: str) -> str:
    return f"{method} is not possible here"


def allowed_methods(allowed: str) -> str:
    return f"Allowed: {allowed}."


def unknown_webhook(path: str) -> str:
    return f"no platform posts to {path}"


def crash_details(error: str) -> str:
    return f"The gateway's log has the details ({error})."


def not_ready(phase: str) -> str:
    return f"the gateway is {phase}"


NEEDED = "a login token is needed"
HEADER_HINT = "Send the header `Authorization: Bearer …`; `perdure token` shows it."
REFUSED = "This token is not valid."
LINK_HINT = "Open the link that the gateway printed at its start, or give what `perdure token` shows."
TOO_MANY_WRONG_TOKENS = "Too many wrong tokens came from your address."
CROSS_SITE = "this request was made by another site, or does not say by whom"
CROSS_SITE_HINT = (
    "Use the gateway's own pages. A program sends the header `Authorization: Bearer …`; `perdure token` shows it."
)
UNKNOWN_HOST_HINT = (
    "Open it as localhost or by its address. If another name is meant to lead here, add it to `web.names` in the "
    "configuration."
)


def retry_later(seconds: int) -> str:
    return f"Try again in {seconds} second{'' if seconds == 1 else 's'}, with what `perdure token` shows."


def unknown_host(host: str) -> str:
    return f"{host[:80]!r} is no name of this gateway"
