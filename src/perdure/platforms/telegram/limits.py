"""The limits of Telegram's Bot API."""

from __future__ import annotations

MAX_MESSAGE_UNITS = 4096  # of a text, in UTF-16
MAX_CAPTION_UNITS = 1024  # of the text beneath a file, in UTF-16
MAX_FILE_BYTES = 50_000_000  # of one file that a bot sends
MAX_PHOTO_BYTES = 10_000_000  # of a picture that is shown; a larger one is sent as a document
MAX_CALLBACK_BYTES = 64  # that a button carries
MAX_SHARED_ROW_CHARS = 18  # of a button's label that shares its row: ours, so that it can be read on a phone
