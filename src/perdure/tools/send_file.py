"""The tool `send_file`, which sends a file to the chat as it is at the moment of the call.

The tool sends nothing itself. It stores a copy, and names it in its result: that puts the message into the outbox,
in the same transaction. So the tool may be repeated: before its result nobody has seen the file.
"""

from __future__ import annotations

import hashlib
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated, BinaryIO

from msgspec import Meta

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.file_names import UNKNOWN_MEDIA_TYPE, display_file_name
from perdure.core.messages import SentFile
from perdure.core.tools import Tool, Use
from perdure.errors import AttachmentQuotaReached, FileTooLarge, ToolFailed
from perdure.tools.attachments import AttachmentFiles
from perdure.tools.chat_folders import FindFolders
from perdure.tools.file_contents import open_file
from perdure.tools.function_tools import as_tool, tool
from perdure.tools.openat2 import OpenBeneath, open_beneath
from perdure.tools.threads import run_in_thread
from perdure.tools.workspace import Workspace, translate_file_errors

MAX_FILE_BYTES = 50_000_000  # what the platforms take
MAX_CAPTION_CHARACTERS = 900

Caption = Annotated[str, Meta(max_length=MAX_CAPTION_CHARACTERS, description="Words to show with the file.")]


def send_file_tool(
    find_folders: FindFolders, home: Path, max_total_bytes: int | None = None, opener: OpenBeneath = open_beneath
) -> Tool:
    """The tool `send_file`, for files of a conversation and its attachments, which have a limit together."""
    attachments = AttachmentFiles(home, max_total_bytes)

    @tool(effect=Effect.PURE)
    async def send_file(path: Annotated[str, "The path of the file."], use: Use, caption: Caption = "") -> str:
        """Send a file to the user, in this chat. It is sent as it is now, at most 50 MB."""
        workspace = Workspace(await find_folders(use.session_key), home, opener)

        def copy_file() -> SentFile:
            location = workspace.find(path, allow_attachments=True)
            name = display_file_name(location.path.name)
            with translate_file_errors(location.name), open_file(location) as source:
                return _copy_file(attachments, source, name, use.key, caption)

        sent = await run_in_thread(copy_file)
        use.send_file(sent)
        return texts.files.file_will_be_sent(sent.name, sent.size)

    return as_tool(send_file)


def _copy_file(attachments: AttachmentFiles, source: BinaryIO, name: str, key: str, caption: str) -> SentFile:
    """Store a copy under an id that is the same for every attempt of the same call."""
    attachment_id = f"att_{hashlib.sha256(key.encode()).hexdigest()[:26]}"
    try:
        saved = attachments.copy(attachment_id, name, source, MAX_FILE_BYTES)
    except (FileTooLarge, AttachmentQuotaReached) as error:
        raise ToolFailed(texts.files.file_not_sent(name, error.message)) from error
    media_type = guess_type(name)[0] or UNKNOWN_MEDIA_TYPE
    return SentFile(attachment_id, name, media_type, saved.size, saved.path, caption)
