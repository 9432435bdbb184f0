"""The description of the HTTP API in OpenAPI 3.1, made from the lines above the methods that answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from perdure.console.answers import Problem, answer
from perdure.console.routes import JSON, PAGE, Call, call
from perdure.version import __version__

Json = dict[str, Any]

ABOUT = (
    "An LLM agent on chat platforms whose conversations survive whatever happens to the process. The page on the "
    "HTTP API tells what is meant by all this. Fields may be added: ignore those that you do not know."
)
LOGIN = "What `perdure token` shows. In a browser, the cookie of the login does the same for our own pages."


class Description:
    """Describes calls, itself among them."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._calls = [*calls, Description.give.__dict__["call"]]

    @call("GET", "/api/openapi.json", "this table for machines: OpenAPI 3.1")
    async def give(self, _: Request) -> Response:
        return answer(describe(self._calls))


def describe(calls: Iterable[Call]) -> Json:
    """The whole description."""
    calls = [*calls]
    types = [Problem, *(shape for each in calls for shape in _types(each))]
    schemas, parts = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    refs = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, Json] = {}
    for each in calls:
        paths.setdefault(each.address, {})[each.method.lower()] = _operation(each, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Perdure", "version": __version__, "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": LOGIN}},
        },
    }


def _types(each: Call) -> list[Any]:
    return [*each.body, *([] if each.answer is None else [each.answer])]


def _operation(each: Call, refs: dict[str, Any]) -> Json:
    operation: Json = {
        "operationId": each.name,
        "summary": re.sub(
            r",? (see )?\[([^\]]+)\]\([^)]*\)", lambda link: "" if link[1] else f" {link[2]}", each.gives
        ),
        "security": [] if each.login == "no" else [{"token": []}],
        "parameters": _parameters(each),
        "responses": _responses(each, refs),
    }
    if each.body:
        shapes = [refs[repr(shape)] for shape in each.body]
        schema = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
        operation["requestBody"] = {"required": True, "content": {each.takes: {"schema": schema}}}
    return operation


def _parameters(each: Call) -> list[Json]:
    text = {"type": "string"}
    inside = [
        {"name": name, "in": "path", "required": True, "schema": text | {"minLength": 1}}
        for name in re.findall(r"{(\w+)}", each.address)
    ]
    return inside + [{"name": name, "in": "query", "required": False, "schema": text} for name in each.query]


def _responses(each: Call, refs: dict[str, Any]) -> Json:
    schema = {"type": "object"} if each.answer is None else refs[repr(each.answer)]
    content = {"schema": schema} if each.kind == JSON else {}
    found: Json = {
        str(status): {"description": "as asked"}
        | ({} if 300 <= status < 400 else {"content": {each.kind: content}})
        for status in each.statuses
    }
    if each.login == "page":
        found["303"] = {"description": "leads to the login"}
    problem: Json = {JSON: {"schema": refs[repr(Problem)]}} | ({PAGE: {}} if each.kind == PAGE else {})
    return found | {"default": {"description": "why not, and what to do", "content": problem}}
