"""The OpenAPI 3.1 description of the HTTP API, generated from the route decorators."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perdure.core.logins import Scope
from perdure.version import __version__
from perdure.web.responses import ErrorResponse
from perdure.web.routes import HTML, JSON, RouteSpec, json_response, route

Json = dict[str, Any]

API_DESCRIPTION = (
    "An LLM agent on chat platforms whose conversations survive whatever happens to the process. The page on the "
    "HTTP API tells what is meant by all this. Fields may be added: ignore those that you do not know."
)
LOGIN_DESCRIPTION = (
    "What `perdure token` shows, or a token that `perdure token add` made with the scope that is named here. In a "
    "browser, the cookie of the login does the same for our own pages."
)


class DescriptionApi:
    """Serves the description of these endpoints and of itself."""

    def __init__(self, specs: Iterable[RouteSpec]) -> None:
        self._specs = [*specs, DescriptionApi.get.__dict__["route"]]

    @route("GET", "/api/openapi.json", "this table for machines: OpenAPI 3.1", scope=Scope.READ, own=True)
    async def get(self, _: Request) -> Response:
        return json_response(openapi_document(self._specs))


def openapi_document(specs: Iterable[RouteSpec]) -> Json:
    """The description of these endpoints, with the schemas of their bodies."""
    specs = [*specs]
    types = [ErrorResponse, *(body_type for each in specs for body_type in _schema_types(each))]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    refs = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, Json] = {}
    for each in specs:
        paths.setdefault(each.documented_path, {})[each.method.lower()] = _operation(each, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Perdure", "version": __version__, "description": API_DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": LOGIN_DESCRIPTION}},
        },
    }


def _schema_types(each: RouteSpec) -> list[Any]:
    return [*each.request.body, *([] if each.response.type is None else [each.response.type])]


def _operation(each: RouteSpec, refs: dict[str, Any]) -> Json:
    operation: Json = {
        "operationId": each.operation_id,
        "summary": re.sub(
            r",? (see )?\[([^\]]+)\]\([^)]*\)", lambda link: "" if link[1] else f" {link[2]}", each.summary
        ),
        "security": [] if each.scope is None else [{"token": [each.scope]}],
        "parameters": _parameters(each),
        "responses": _responses(each, refs),
    }
    if each.request.body:
        schemas = [refs[repr(body_type)] for body_type in each.request.body]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        operation["requestBody"] = {"required": True, "content": {each.request.media_type: {"schema": schema}}}
    return operation


def _parameters(each: RouteSpec) -> list[Json]:
    text = {"type": "string"}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": text | {"minLength": 1}}
        for name in re.findall(r"{(\w+)}", each.documented_path)
    ]
    return in_path + [
        {"name": name, "in": "query", "required": False, "schema": text} for name in each.request.query
    ]


def _responses(each: RouteSpec, refs: dict[str, Any]) -> Json:
    response = each.response
    schema = {"type": "object"} if response.type is None else refs[repr(response.type)]
    content = {"schema": schema} if response.media_type == JSON else {}
    responses: Json = {
        str(status): {"description": "as asked"}
        | ({} if 300 <= status < 400 else {"content": {response.media_type: content}})
        for status in response.statuses
    }
    if each.login == "page":
        responses["303"] = {"description": "leads to the login"}
    problem: Json = {JSON: {"schema": refs[repr(ErrorResponse)]}} | (
        {HTML: {}} if response.media_type == HTML else {}
    )
    return responses | {"default": {"description": "why not, and what to do", "content": problem}}
