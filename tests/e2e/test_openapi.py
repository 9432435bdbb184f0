"""The description of the HTTP API: it has all that is there, and a gateway asked by it never stumbles.

Drives `web/openapi` and `web/api`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from support.gateway import GatewayProcess, gateway
from support.openapi_check import all_api_calls, served_description

# It kills the gateway, which is what it is for; and a stream does not end by itself.
APART = ("/api/demo/kill", "/api/chats/{chat}/events")
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]

fuzzing = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("openapi") / "home", QUEUE__CAP="1000") as process:
        yield process


@pytest.fixture(scope="module")
def http(process: GatewayProcess) -> Iterator[httpx.Client]:
    bearer = {"Authorization": f"Bearer {process.token}"}
    with httpx.Client(base_url=process.url, headers=bearer, timeout=60) as http:
        yield http


def test_description_that_is_served_is_made_from_the_routes(http: httpx.Client) -> None:
    served = http.get("/api/openapi.json").json()
    assert served == served_description()
    there = {(each.method.lower(), each.documented_path) for each in all_api_calls()}
    assert {(method, path) for path, methods in served["paths"].items() for method in methods} == there


def test_description_is_good_openapi(http: httpx.Client) -> None:
    served = http.get("/api/openapi.json").json()
    assert served["openapi"] == "3.1.0"
    names = [one["operationId"] for methods in served["paths"].values() for one in methods.values()]
    assert len({*names}) == len(names)
    for part in served["components"]["schemas"].values():
        jsonschema_rs.validator_for(part | {"components": served["components"]})


def operations() -> list[Any]:
    found: list[Any] = [*schemathesis.openapi.from_dict(served_description()).get_all_operations()]
    return [each.ok() for each in found if each.ok().path not in APART]


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.label)
def test_gateway_never_stumbles_when_asked_all_that_is_described(process: GatewayProcess, operation: Any) -> None:
    """As it is described, and otherwise: whatever comes, it is answered as described, and never by an accident."""
    bearer = {"Authorization": f"Bearer {process.token}"}
    fitting = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    odd = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @fuzzing
    @given(case=fitting | odd)
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=process.url, headers=bearer, checks=CHECKS, timeout=60)

    ask()


def test_streams_never_stumble_whatever_they_are_asked_for(process: GatewayProcess, http: httpx.Client) -> None:
    @fuzzing
    @given(chat=st.text(min_size=1, max_size=20), after=st.text(max_size=20))
    def ask(chat: str, after: str) -> None:
        path = f"/api/chats/{quote(chat, safe='').replace('.', '%2E')}/events"
        with http.stream("GET", path, params={"after": after} if after else {}) as response:
            assert response.status_code in (200, 400)

    ask()
    assert http.get("/readyz").status_code == 200
