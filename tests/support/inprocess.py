"""Runs a gateway inside the test's event loop, for simulated platforms."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from perdure.runtime.gateway import Gateway
from perdure.testing import SimulatedPlatform, gateways
from perdure.testing.simulated_platform import SimulatedAdapter


def make_gateway(home: Path, *platforms: SimulatedPlatform, **options: Any) -> Gateway:
    return gateways.make_gateway(home, _adapters(platforms), **options)


def serving(home: Path, *platforms: SimulatedPlatform, **options: Any) -> AbstractAsyncContextManager[Gateway]:
    """Run a gateway for these platforms, and stop it in an orderly way at the end."""
    return gateways.serving(home, _adapters(platforms), **options)


def crashing_at_the_end(
    home: Path, *platforms: SimulatedPlatform, **options: Any
) -> AbstractAsyncContextManager[Gateway]:
    """Run a gateway for these platforms, and crash it at the end, as if killed."""
    return gateways.crashing_at_the_end(home, _adapters(platforms), **options)


def _adapters(platforms: tuple[SimulatedPlatform, ...]) -> list[SimulatedAdapter]:
    return [platform.adapter() for platform in platforms]
