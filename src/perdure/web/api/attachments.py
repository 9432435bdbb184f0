"""Files over HTTP: sent ahead of the message that names them, and given back."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response

from perdure.core import texts
from perdure.core.messages import Attachment
from perdure.errors import FileTooLarge, NotFound
from perdure.runtime.gateway import Gateway
from perdure.store.attachments import StoredAttachment
from perdure.web.responses import ID_PATTERN, HttpRefusal
from perdure.web.routes import json_route, route
from perdure.web.schemas.chats import UploadResponse

# Whatever somebody sent is never shown as a page of ours, and runs nothing.
_DOWNLOAD_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-store",
}


class AttachmentApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @json_route(
        "POST",
        "/api/attachments",
        "takes a file for a message to come, see [below](#files): 201",
        UploadResponse,
        query=("name",),
        statuses=(201,),
    )
    async def upload(self, request: Request) -> UploadResponse:
        """Take a file in: the body is its bytes."""
        name = request.query_params.get("name", "")
        if not name.strip():
            raise HttpRefusal(400, "the file has no name", "Send it to /api/attachments?name=notes.txt, say.")
        kind = request.headers.get("content-type", "")
        try:
            stored = await self._gateway.loops.uploads.receive(name, kind, _stream_body(request))
        except FileTooLarge as error:
            most = texts.phrases.byte_size(self._gateway.settings.max_file_bytes)
            raise HttpRefusal(413, f"{error.message}, and no more is taken", f"Send at most {most}.") from error
        except OSError as error:
            words = f"the file could not be kept: {error.strerror or error}"
            raise HttpRefusal(503, words, "Make room on the gateway's disk, and send it again.") from error
        return UploadResponse(stored.id, stored.name, stored.size or 0, stored.media_type)

    @route("GET", "/api/attachments/{id}", "gives a file back", media_type="*/*")
    async def get(self, request: Request) -> Response:
        """Give a file back, always as one to be saved."""
        name = request.path_params["id"]
        stored = await self._gateway.store.attachments.get(name) if ID_PATTERN.fullmatch(name) else None
        place = self._gateway.loops.attachments.find(stored.path) if stored else None
        if stored is None or place is None:
            raise NotFound(f"there is no file {name[:60]!r}", hint=_missing_file_hint(stored))
        return FileResponse(place, headers=_DOWNLOAD_HEADERS, media_type=stored.media_type, filename=stored.name)


async def find_uploads(gateway: Gateway, ids: tuple[str, ...]) -> tuple[Attachment, ...]:
    """The files that a message names: each was uploaded, and is still here."""
    found = []
    for each in ids:
        stored = await gateway.store.attachments.get(each) if ID_PATTERN.fullmatch(each) else None
        if stored is None or stored.reference != stored.id:
            raise HttpRefusal(400, f"attachments: {each[:60]!r} was not uploaded", texts.attachments.UPLOAD_HINT)
        found.append(Attachment(stored.name, stored.id, stored.media_type, stored.size))
    return tuple(found)


def _missing_file_hint(stored: StoredAttachment | None) -> str:
    if stored is not None and stored.state == "failed":
        return f"It could not be fetched: {stored.problem}."
    if stored is not None and stored.state == "referenced":
        return "It has not been fetched yet; ask again in a moment."
    return "Messages list the ids of their files."


async def _stream_body(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect as error:
        raise HttpRefusal(400, "the connection closed before the file was whole", "Send it again.") from error
