"""What the command line prints: its commands, the terminal chat, the supervisor, exports and imports."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.core.exit_report import signal_name


def ready(url: str) -> str:
    """The one line that a gateway prints on standard output."""
    return f"Perdure is ready: {url}"


GATEWAY_STOPPED = "The gateway has stopped."
GATEWAY_RESTARTS = "The gateway has stopped; its supervisor starts it again."
NO_SESSIONS = "There are no sessions yet."
RESUME_UNPAUSED = "Automatic resume goes on."
RESUME_NOT_PAUSED = "Automatic resume was not paused."
# What a verb on a session prints: when it was carried out, and when there was nothing to do.
VERB_OUTCOMES = {
    "resume": ("It goes on.", "There is nothing to resume."),
    "drop": ("Given up.", "There is nothing interrupted to give up."),
    "suspend": ("Suspended.", "It was suspended or closed before."),
}


def configuration_fine(home: object) -> str:
    return f"The configuration is fine. Home: {home}"


# ── arguments that do not fit together ──────────────────────────────────────────────────────────────────────

SESSION_OR_ALL = "name a session, or say --all"
PERSON_OR_SESSION = "say --person or --session, not both"
SEED_OR_SWEEP = "a sweep leaves nothing to chance: say --seed or --sweep, not both"


def pair_where(chat: str) -> str:
    return f"--chat is here or everywhere, not {chat!r}"


# ── erasing ─────────────────────────────────────────────────────────────────────────────────────────────────

CONFIRM_ERASURE = "Erase this for good? [y/N] "
NOTHING_ERASED = "Nothing was erased."
ERASED = "Erased:"


def session_to_erase(session: str, state: str, key: str, turns: int) -> str:
    return f"{session}  {state:9}  {key}  turns: {turns}"


def folder_to_erase(folder: str) -> str:
    return f"{folder}  the files of the chat, if it has no other session"


def erased_session(session: str, key: str, counts: Mapping[str, int]) -> str:
    """What was removed with a session, by the noun of each kind."""
    plural = {"reply": "replies", "process": "processes"}
    removed = [f"{n} {noun if n == 1 else plural.get(noun, noun + 's')}" for noun, n in counts.items() if n]
    return f"{session}  {key}  {', '.join(removed) or 'nothing was in it'}"


# ── reaching the gateway ────────────────────────────────────────────────────────────────────────────────────


def no_gateway_running(home: object) -> str:
    return f"no gateway is running on {home}"


START_GATEWAY_HINT = "Start one with `perdure up` or `perdure run`."


def no_gateway_answers(url: object) -> str:
    return f"no gateway answers at {url}"


START_GATEWAY_ELSEWHERE_HINT = "Start one with `perdure up`, in another terminal."


def not_a_gateway(url: object) -> str:
    return f"what answers at {url} is no gateway"


NAME_GATEWAY_HINT = "Name the gateway's home and port with PERDURE_HOME and PERDURE_WEB__PORT."


def does_not_stop(pid: int) -> str:
    return f"process {pid} does not stop"


DOES_NOT_STOP_HINT = "Look at its log; kill -9 loses nothing."

# ── the terminal chat ───────────────────────────────────────────────────────────────────────────────────────

CHAT_WELCOME = "Talk to the agent; Ctrl-D ends the conversation. Several lines: end each but the last with \\."
CHAT_INTERRUPTED = "(interrupted; it goes on by itself)"
CHAT_GATEWAY_AWAY = "(the gateway is away; waiting for it)"
CHAT_GATEWAY_BACK = "(the gateway is back)"


def chat_status(text: str) -> str:
    return f"({text})"


def chat_tool_started(tool: str) -> str:
    return f"({tool} …)"


def could_not_start(error: object) -> str:
    return f"could not be started ({error})"


def asked_for_restart(lifetime_seconds: float) -> str:
    return f"asked for a restart {_after(lifetime_seconds)}"


def ended(code: int, lifetime_seconds: float) -> str:
    """How a gateway ended; a code below zero is the signal that killed it."""
    how = f"ended with exit code {code}" if code >= 0 else f"was killed by {signal_name(-code)}"
    return f"{how} {_after(lifetime_seconds)}"


def _after(seconds: float) -> str:
    return f"after {seconds:.0f} s" if seconds >= 10 else f"after {seconds:.1f} s"


def stays_down(ending: str) -> str:
    return f"The gateway {ending}; it stays down until what it reported is mended."


def ended_while_stopping(ending: str) -> str:
    return f"The gateway {ending}, while it was stopping."


def starts_again(ending: str, deaths: int, delay_seconds: float) -> str:
    """Say that a gateway is started again, and when, if it has died several times in a row."""
    if delay_seconds:
        return (
            f"The gateway {ending}; it has died {deaths} times in a row, starting it again in {delay_seconds:g} s."
        )
    return f"The gateway {ending}; starting it again."


def sessions_exported(count: int) -> str:
    return f"{count} session{'' if count == 1 else 's'} exported."


def sessions_imported(count: int) -> str:
    return f"{_sessions_were(count)} imported."


def sessions_unchanged(count: int) -> str:
    return f"{_sessions_were(count)} here already and unchanged."


def sessions_not_imported(count: int) -> str:
    return f"{_sessions_were(count)} not imported:"


def import_problem(place: str, reason: str) -> str:
    return f"  {place}: {reason}"


WARNINGS = "Worth knowing:"


def import_warning(warning: str) -> str:
    return f"  {warning}"


def _sessions_were(count: int) -> str:
    return "1 session was" if count == 1 else f"{count} sessions were"


def not_utf8(path: object, position: int) -> str:
    return f"{path} is not text: expected UTF-8, got something else at byte {position}"


NOT_UTF8_HINT = "Give it a file that `perdure export` wrote."


def unreadable(path: object, why: object) -> str:
    return f"{path} cannot be read: {why}"


UNREADABLE_HINT = "Check the name, and that you may read it."


def nothing_of_person(person: str) -> str:
    return f"nothing of {person} is here"


NOTHING_OF_PERSON_HINT = "`perdure people` and `perdure sessions` list who is known."


DOCTOR_LEVELS = {"fine": "fine", "note": "note", "wrong": "WRONG", "danger": "DANGER"}
DOCTOR_FILES_PRIVATE = "Only their owner can read the gateway's files."
DOCTOR_OWN_WORKSPACES = "Each chat has a workspace of its own."
DOCTOR_ALL_WELL = "All is well."


def doctor_line(level: str, about: str, text: str) -> str:
    return f"{DOCTOR_LEVELS[level]:6}  {about}: {text}"


def doctor_problems(count: int) -> str:
    return f"{count} {'thing needs' if count == 1 else 'things need'} somebody."


def doctor_network_differs(wanted: str, found: str) -> str:
    return f'"{wanted}" is wanted, and "{found}" is in force: this kernel cannot limit ports (Linux 6.7 can).'


def doctor_approvals_off(*, sandboxed: bool) -> str:
    if sandboxed:
        return "No command asks, because tools.approvals is off; the sandbox alone limits what commands do."
    return (
        "Commands run without a sandbox and none of them asks, because tools.approvals is off: whoever may write "
        "to the agent can do everything that the gateway's user can. Set tools.approvals, or tools.sandbox."
    )


def doctor_no_home(home: str) -> str:
    return f"There is no home yet at {home}; the first start makes it."


def doctor_open_to_others(path: str, mode: int, wanted: str) -> str:
    return f"{path} has mode {mode:04o}, so others than its owner can use it. Run: chmod {wanted} {path}"


def doctor_shared_workspace(path: str) -> str:
    return f"All chats share one workspace, {path}: what one person's commands write, another's can read."
