"""Checks responses of the HTTP API against its OpenAPI description."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

from perdure.config import load_settings
from perdure.runtime.gateway import Gateway
from perdure.web.app import route_providers
from perdure.web.auth.login import Authenticator
from perdure.web.auth.origin import HostNames
from perdure.web.openapi import openapi_document
from perdure.web.routes import RouteSpec, collect_routes

JSON = "application/json"


@cache
def all_api_calls() -> list[RouteSpec]:
    """Return all calls of a gateway with the default settings."""
    gateway = Gateway(load_settings(Path("/nowhere"), {}))
    return [
        each
        for each, _ in collect_routes(
            *route_providers(gateway, Authenticator(gateway, "token", HostNames((), loopback=True)), demo=True)
        )
    ]


@cache
def served_description() -> dict[str, Any]:
    # As a client reads the document: with lists, not tuples.
    served: dict[str, Any] = json.loads(json.dumps(openapi_document(all_api_calls())))
    return served


def check_response(response: httpx.Response) -> None:
    """Fail unless the description contains the response. A hook for HTTP clients."""
    if response.headers.get("content-type") != JSON or response.request.method == "HEAD":
        return
    response.read()
    method, path = response.request.method.lower(), response.request.url.raw_path.decode().partition("?")[0]
    validator = _validator(method, path, str(response.status_code))
    problems = [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(response.json())]
    assert not problems, f"{method} {path}, {response.status_code}: {problems}, in {response.text[:500]}"


@cache
def _validator(method: str, path: str, status: str) -> jsonschema_rs.Validator:
    operation = _operation(method, path)
    answers = operation.get("responses", {})
    found = answers.get(status) or answers.get("default")
    schema = found["content"][JSON]["schema"] if found else {"$ref": "#/components/schemas/ErrorResponse"}
    return jsonschema_rs.validator_for(schema | {"components": served_description()["components"]})


def _operation(method: str, path: str) -> dict[str, Any]:
    """Return the operation at a path, or None, in which case the response must be an error."""
    for template, methods in served_description()["paths"].items():
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path) and method in methods:
            found: dict[str, Any] = methods[method]
            return found
    return {}
