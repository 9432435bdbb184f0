"""The methods of the Bot API that a gateway calls, on the state of the emulator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from perdure.testing.telegram.faults import NOT_MODIFIED, QUERY_TOO_OLD, BotApiRefusal, bad_request
from perdure.testing.telegram.state import SentMessage, TelegramState
from perdure.testing.telegram.texts import parse_caption, parse_text
from perdure.testing.telegram.webhook_poster import WebhookPoster

Params = dict[str, Any]

MAX_COMMANDS = 100
MAX_UPLOAD_BYTES = 50 * 1024 * 1024
MAX_PHOTO_BYTES = 10 * 1024 * 1024
MAX_DOWNLOAD_BYTES = 20 * 1024 * 1024
MAX_CALLBACK_BYTES = 64  # bytes of a button's callback data
CHAT_ACTIONS = frozenset(
    [
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    ]
)


class BotMethods:
    """The methods by name: each takes its parameters, and returns its result or raises `BotApiRefusal`."""

    def __init__(self, state: TelegramState) -> None:
        self.state = state
        self.webhook_poster = WebhookPoster(state.updates)
        self.commands: list[dict[str, Any]] = []
        self.actions: list[tuple[int, str]] = []  # chats, and the chat actions of the bot there
        self.answers: list[Params] = []  # texts shown to people after a button press
        self._known: dict[str, Callable[[Params], Any]] = {
            method.__name__.lstrip("_").replace("_", ""): method
            for method in (
                self._get_me,
                self._set_webhook,
                self._delete_webhook,
                self._get_webhook_info,
                self._set_my_commands,
                self._send_chat_action,
                self._send_message,
                self._edit_message_text,
                self._answer_callback_query,
                self._get_file,
                self._send_photo,
                self._send_document,
                self._send_voice,
            )
        }

    def find(self, name: str) -> Callable[[Params], Any] | None:
        return self._known.get(name.lower())

    def _get_me(self, _: Params) -> Any:
        return self.state.bot

    def _set_webhook(self, params: Params) -> Any:
        url, secret = params.get("url", ""), params.get("secret_token", "")
        if url and not url.startswith("https://"):
            raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,256}", secret):
            raise bad_request("secret token contains unallowed characters")
        if params.get("allowed_updates") is not None:
            self.state.allowed = params["allowed_updates"]
        self.webhook_poster.set_webhook(url, secret)
        return True

    @property
    def webhook(self) -> str:
        return self.webhook_poster.url

    def _get_webhook_info(self, _: Params) -> Any:
        return self.webhook_poster.info()

    def _delete_webhook(self, params: Params) -> Any:
        self.webhook_poster.set_webhook("", "")
        if params.get("drop_pending_updates"):
            self.state.updates.clear()
        return True

    def _set_my_commands(self, params: Params) -> Any:
        commands = params.get("commands") or []
        if len(commands) > MAX_COMMANDS:
            raise bad_request("BOT_COMMANDS_TOO_MUCH")
        for each in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", each["command"]):
                raise bad_request("BOT_COMMAND_INVALID")
            if not 1 <= len(each["description"]) <= 256:
                raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
        self.commands = commands
        return True

    def _send_chat_action(self, params: Params) -> Any:
        chat = self.state.writable_chat(params.get("chat_id"), params.get("message_thread_id"))
        if params.get("action") not in CHAT_ACTIONS:
            raise bad_request("wrong parameter action in request")
        self.actions.append((chat["id"], params["action"]))
        return True

    def _send_message(self, params: Params) -> Any:
        state, thread = self.state, params.get("message_thread_id")
        chat = state.writable_chat(params.get("chat_id"), thread)
        text, entities = parse_text(params)
        reply, buttons = self._replied_message(chat["id"], params), _buttons(params)
        message = state.envelope(chat["id"], state.bot, None if thread is None else int(thread))
        message |= {"text": text} | ({"entities": entities} if entities else {})
        message |= {"reply_to_message": _without_reply(reply)} if reply else {}
        message |= {"reply_markup": {"inline_keyboard": buttons}} if buttons else {}
        state.messages[chat["id"], message["message_id"]] = message
        answered = reply["message_id"] if reply else None
        state.sent.append(
            SentMessage(
                chat["id"],
                message["message_id"],
                text,
                message.get("message_thread_id"),
                answered,
                entities,
                buttons,
            )
        )
        return message

    def _send_photo(self, params: Params) -> Any:
        name, content = _uploaded_file(params, "photo")
        if len(content) > MAX_PHOTO_BYTES:
            raise bad_request("file is too big")
        if name.endswith(".broken.png"):
            raise bad_request("IMAGE_PROCESS_FAILED")
        file = {**self.state.upload(content, name), "width": 800, "height": 600}
        file.pop("file_name")
        return self._send_file(params, "photo", [file], name, content)

    def _send_document(self, params: Params) -> Any:
        name, content = _uploaded_file(params, "document")
        return self._send_file(params, "document", self.state.upload(content, name), name, content)

    def _send_voice(self, params: Params) -> Any:
        name, content = _uploaded_file(params, "voice")
        file = {**self.state.upload(content, name), "duration": 1, "mime_type": "audio/ogg"}
        file.pop("file_name")
        return self._send_file(params, "voice", file, name, content)

    def _send_file(self, params: Params, kind: str, shown: Any, name: str, content: bytes) -> Any:
        state, thread = self.state, params.get("message_thread_id")
        chat = state.writable_chat(params.get("chat_id"), thread)
        caption, entities = parse_caption(params)
        reply = self._replied_message(chat["id"], params)
        message = state.envelope(chat["id"], state.bot, None if thread is None else int(thread)) | {kind: shown}
        message |= ({"caption": caption} if caption else {}) | ({"caption_entities": entities} if entities else {})
        message |= {"reply_to_message": _without_reply(reply)} if reply else {}
        state.messages[chat["id"], message["message_id"]] = message
        answered = reply["message_id"] if reply else None
        thread = message.get("message_thread_id")
        sent = SentMessage(chat["id"], message["message_id"], caption, thread, answered, entities)
        sent.file = (kind, name, content)
        state.sent.append(sent)
        return message

    def _replied_message(self, chat: int, params: Params) -> dict[str, Any] | None:
        """Return the message that is replied to, if it exists."""
        wanted = params.get("reply_parameters")
        if not wanted:
            return None
        found = self.state.messages.get((chat, int(wanted["message_id"])))
        if found is None and not wanted.get("allow_sending_without_reply"):
            raise bad_request("message to be replied not found")
        return found

    def _edit_message_text(self, params: Params) -> Any:
        state, chat = self.state, self.state.writable_chat(params.get("chat_id"))
        message = state.messages.get((chat["id"], int(params.get("message_id") or 0)))
        if message is None:
            raise bad_request("message to edit not found")
        if message["from"]["id"] != state.bot["id"]:
            raise bad_request("message can't be edited")
        text, entities = parse_text(params)
        buttons = _buttons(params)
        sent = next(
            each for each in state.sent if (each.chat, each.message) == (chat["id"], message["message_id"])
        )
        if (sent.text, sent.entities, sent.buttons) == (text, entities, buttons):
            raise NOT_MODIFIED
        sent.before = [*sent.before, sent.text]
        sent.text, sent.entities, sent.buttons = text, entities, buttons
        for name in ("entities", "reply_markup"):
            message.pop(name, None)
        message |= {"text": text, "edit_date": message["date"]} | ({"entities": entities} if entities else {})
        message |= {"reply_markup": {"inline_keyboard": buttons}} if buttons else {}
        return message

    def _answer_callback_query(self, params: Params) -> Any:
        if params.get("callback_query_id") not in self.state.queries:
            raise QUERY_TOO_OLD
        if len(params.get("text") or "") > 200:
            raise bad_request("MESSAGE_TOO_LONG")
        self.state.queries.discard(params["callback_query_id"])
        self.answers.append(params)
        return True

    def _get_file(self, params: Params) -> Any:
        reference = params.get("file_id")
        if reference not in self.state.files:
            raise bad_request("invalid file_id")
        size = len(self.state.files[reference])
        if size > MAX_DOWNLOAD_BYTES:
            raise bad_request("file is too big")
        name = f"documents/{reference}"
        return {"file_id": reference, "file_unique_id": f"u-{reference}", "file_size": size, "file_path": name}


def _uploaded_file(params: Params, field: str) -> tuple[str, bytes]:
    """Return the name and the content of the uploaded file, given inline or by the name of another part."""
    given = params.get(field)
    if isinstance(given, str) and given.startswith("attach://"):
        given = params.get(given.removeprefix("attach://"))
    if not isinstance(given, tuple):
        raise bad_request(f"there is no {field} in the request")
    name, content = given
    if not content:
        raise bad_request("file must be non-empty")
    if len(content) > MAX_UPLOAD_BYTES:
        raise BotApiRefusal(413, "Request Entity Too Large")
    return name, content


def _without_reply(message: dict[str, Any]) -> dict[str, Any]:
    """Remove the nested reply: Telegram shows the message that is replied to, without its own reply."""
    return {name: value for name, value in message.items() if name != "reply_to_message"}


def _buttons(params: Params) -> list[list[dict[str, Any]]]:
    markup = params.get("reply_markup") or {}
    rows: list[list[dict[str, Any]]] = markup.get("inline_keyboard") or []
    for button in (button for row in rows for button in row):
        if not button.get("text"):
            raise bad_request('can\'t parse inline keyboard button: Field "text" must be of type String')
        if not 1 <= len(button.get("callback_data", "").encode()) <= MAX_CALLBACK_BYTES:
            raise bad_request("BUTTON_DATA_INVALID")
    return rows
