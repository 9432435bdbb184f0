"""`/background`: begins, lists and commands background sessions, whose answers come to the chat that asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from perdure.core import texts
from perdure.core.address import background_session_key
from perdure.core.commands import BackgroundRequest, is_background_verb, read_background_request
from perdure.core.messages import Inbound
from perdure.core.texts.explanation import TURN_STATES
from perdure.runtime.gateway_run import GatewayRun
from perdure.store import answers
from perdure.store.authorisation import Authorisation
from perdure.store.background_sessions import begin_background_session
from perdure.store.chat_commands import ChatCommand
from perdure.store.inbox import MAX_POSITION

RunByName = Callable[[ChatCommand, str, str], Awaitable[None]]

BACKGROUND_USAGE = "/background [TEXT | stop N]"


class BackgroundCommand:
    """Begins background sessions, lists them, and passes commands on to the session of a number."""

    def __init__(
        self,
        run: GatewayRun,
        max_sessions: int,
        authorisation: Authorisation,
        run_by_name: RunByName,
    ) -> None:
        """`run_by_name` carries out another command, by its name and its arguments."""
        self._store = run.store
        self._clock = run.clocks.wall
        self._wakeups = run.wakeups
        self._max_sessions = max_sessions  # that may be unfinished in one chat
        self._authorisation = authorisation
        self._run_by_name = run_by_name

    async def run(self, command: ChatCommand, arguments: str) -> None:
        request = read_background_request(arguments)
        if request is not None:
            await self._run_on_session(command, request)
        elif is_background_verb(arguments):
            await self._answer(command, texts.chat_commands.usage(BACKGROUND_USAGE, arguments))
        elif arguments:
            await self._begin_session(command, arguments)
        else:
            await self._answer(
                command,
                "\n".join(await self.status_lines(command.key)) or texts.chat_commands.NO_BACKGROUND_SESSION,
            )

    async def status_lines(self, key: str) -> list[str]:
        """Return the lines of `/status` about the unfinished background sessions of a chat."""
        going = await self._store.background_sessions.unfinished(key)
        return [
            texts.chat_commands.background_status_line(one.number, TURN_STATES[one.state], one.text)
            for one in going
        ]

    async def _begin_session(self, command: ChatCommand, text: str) -> None:
        now, files = self._clock(), command.attachments
        said = Inbound(command.address, command.message, command.sender, text, attachments=files)
        begin = begin_background_session(command.key, said, f"background:{command.id}", self._max_sessions)
        number = await self._store.chat_commands.execute(command, begin, self._begun_text, now)
        if number is not None:
            self._wakeups.wake_runner(background_session_key(command.key, number))

    def _begun_text(self, number: int | None) -> str:
        return (
            texts.chat_commands.background_too_many(self._max_sessions)
            if number is None
            else texts.chat_commands.background_started(number)
        )

    async def _run_on_session(self, command: ChatCommand, request: BackgroundRequest) -> None:
        """Carry out a command on the background session of a number; the chat gets the answer."""
        key = background_session_key(command.key, request.number)
        if not await self._store.background_sessions.exists(key):
            await self._answer(command, texts.chat_commands.background_unknown(request.number))
            return
        there = replace(command, key=key, bound=None, position=MAX_POSITION)
        if request.verb == "answer":
            await self._answer_question(there, request.argument)
        else:
            await self._run_by_name(there, request.verb, "all" if request.verb == "stop" else request.argument)
        self._wakeups.wake_runner(key)

    async def _answer_question(self, command: ChatCommand, text: str) -> None:
        now = self._clock()
        command = replace(command, refusal=self._authorisation.refuse_answer(command.key, command.sender))
        answering = answers.answer_question(command.key, command.sender, text)
        await self._store.chat_commands.execute(command, answering, texts.chat_commands.background_answered, now)

    async def _answer(self, command: ChatCommand, text: str) -> None:
        await self._store.chat_commands.answer(command, text, self._clock())
