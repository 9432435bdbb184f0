"""The gateways that share a database: list them, find one by its id, and ask it to drain."""

from __future__ import annotations

from msgspec import Struct

from perdure.core import texts
from perdure.errors import NotFound
from perdure.store.api import Store
from perdure.store.gateways import LivingGateway


class ServiceResource(Struct, frozen=True):
    """An agent on a platform, and the account there."""

    platform: str
    agent: str
    account: str


class GatewayResource(Struct, frozen=True):
    """A gateway that runs."""

    id: str
    run: str
    home: str
    version: str
    this: bool  # the one that answers
    started_at: int
    heartbeat_at: int
    draining: bool  # or asked to
    running: int  # turns
    serves: list[ServiceResource]
    receives: list[str]
    standing_by: list[str]
    text: str


class GatewayListResponse(Struct, frozen=True):
    """The gateways that share the database."""

    gateways: list[GatewayResource]


class DrainResponse(Struct, frozen=True):
    """Whether a gateway was asked to drain; otherwise it does so already."""

    id: str
    asked: bool
    said: str


async def list_gateways(store: Store, run: str, now: int) -> list[GatewayResource]:
    """Return the gateways that share the database; `run` is that of the one that answers."""
    return [_resource(each, run, now) for each in await store.gateways.living()]


async def find_gateway(store: Store, name: str) -> LivingGateway:
    """Return the running gateway of an id, or of the beginning of one."""
    found = [each for each in await store.gateways.living() if name and each.id.startswith(name)]
    exact = [each for each in found if each.id == name]
    if len(exact or found) != 1:
        raise NotFound(texts.gateways.unknown_gateway(name, len(found)), hint=texts.gateways.GATEWAY_LIST_HINT)
    return (exact or found)[0]


async def ask_to_drain(store: Store, name: str) -> DrainResponse:
    """Ask the gateway of an id to drain and stop."""
    gateway = await find_gateway(store, name)
    asked = await store.gateways.ask_to_drain(gateway.id)
    said = texts.gateways.DRAIN_ASKED if asked else texts.gateways.DRAINS_ALREADY
    return DrainResponse(gateway.id, asked, said)


def _resource(gateway: LivingGateway, run: str, now: int) -> GatewayResource:
    serves = [ServiceResource(each.platform, each.agent, each.account) for each in gateway.services]
    draining = gateway.draining or gateway.drain_asked
    return GatewayResource(
        gateway.id,
        gateway.run,
        gateway.home,
        gateway.version,
        gateway.run == run,
        gateway.started_at,
        gateway.heartbeat_at,
        draining,
        gateway.running,
        serves,
        list(gateway.receives),
        list(gateway.standing_by),
        texts.gateways.gateway_line(
            gateway.id,
            gateway.home,
            gateway.version,
            receives=gateway.receives,
            standing_by=gateway.standing_by,
            running=gateway.running,
            silent_ms=max(0, now - gateway.heartbeat_at),
            draining=draining,
            this=gateway.run == run,
        ),
    )
