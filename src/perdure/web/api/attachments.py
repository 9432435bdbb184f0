"""Attachments over HTTP: uploads, which a later message names, and downloads."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from perdure.core import texts
from perdure.core.logins import Scope
from perdure.core.messages import Attachment
from perdure.core.states import AttachmentState
from perdure.errors import AttachmentQuotaReached, FileTooLarge, NotFound
from perdure.runtime.gateway import Gateway
from perdure.store.attachments import StoredAttachment
from perdure.web.requests import ID_PATTERN, stream_body
from perdure.web.responses import HttpRefusal
from perdure.web.routes import GatewayApi, json_route, route
from perdure.web.schemas import UploadResponse

# A browser must never show a file that somebody sent as one of our pages, nor run it.
_DOWNLOAD_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-store",
}


class AttachmentApi(GatewayApi):
    @json_route(
        "POST",
        "/api/attachments",
        "takes a file for a message to come, see [below](#files): 201",
        UploadResponse,
        query=("name",),
        statuses=(201,),
        scope=Scope.CHAT,
    )
    async def upload(self, request: Request) -> UploadResponse:
        """Store a file: the body of the request is its bytes."""
        name = request.query_params.get("name", "")
        if not name.strip():
            raise HttpRefusal(400, texts.http.FILE_WITHOUT_NAME, texts.http.FILE_NAME_EXAMPLE)
        media_type = request.headers.get("content-type", "")
        body = stream_body(request, texts.http.FILE_CLOSED_EARLY)
        try:
            stored = await self._gateway.loops.uploads.receive(name, media_type, body)
        except FileTooLarge as error:
            hint = texts.http.send_at_most(texts.phrases.byte_size(self._gateway.settings.max_file_bytes))
            raise HttpRefusal(413, texts.http.file_too_large(error.message), hint) from error
        except AttachmentQuotaReached as error:
            raise HttpRefusal(507, texts.http.file_not_stored(error.message), error.hint or "") from error
        except OSError as error:
            problem = texts.http.file_not_stored(error.strerror or error)
            raise HttpRefusal(503, problem, texts.http.MAKE_ROOM) from error
        return UploadResponse(stored.id, stored.name, stored.size or 0, stored.media_type)

    @route("GET", "/api/attachments/{id}", "gives a file back", media_type="*/*", scope=Scope.READ)
    async def get(self, request: Request) -> Response:
        """Send a file as a download, which a browser saves and does not show."""
        name = request.path_params["id"]
        stored = await self._gateway.store.attachments.get(name) if ID_PATTERN.fullmatch(name) else None
        path = self._gateway.loops.attachments.find(stored.path) if stored else None
        if stored is None or path is None:
            raise NotFound(texts.http.unknown_file(name), hint=_missing_file_hint(stored))
        return FileResponse(path, headers=_DOWNLOAD_HEADERS, media_type=stored.media_type, filename=stored.name)


async def find_uploads(gateway: Gateway, ids: tuple[str, ...]) -> tuple[Attachment, ...]:
    """The uploaded files that a message names; an id that nobody uploaded is refused."""
    found = []
    for each in ids:
        stored = await gateway.store.attachments.get(each) if ID_PATTERN.fullmatch(each) else None
        if stored is None or stored.reference != stored.id:
            raise HttpRefusal(400, texts.http.not_uploaded(each), texts.files.UPLOAD_HINT)
        found.append(Attachment(stored.name, stored.id, stored.media_type, stored.size))
    return tuple(found)


def _missing_file_hint(stored: StoredAttachment | None) -> str:
    if stored is not None and stored.state is AttachmentState.FAILED:
        return texts.http.file_not_fetched(stored.problem)
    if stored is not None and stored.state is AttachmentState.REFERENCED:
        return texts.http.FILE_NOT_FETCHED_YET
    return texts.http.FILE_IDS_HINT
