"""Tells public IP addresses from private ones, and resolves host names to permitted addresses."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from perdure.core import texts
from perdure.errors import ToolFailed
from perdure.tools.threads import run_in_thread

IpAddress = IPv4Address | IPv6Address
AddressCheck = Callable[[IpAddress], bool]

_GLOBAL_IPV6 = ip_network("2000::/3")  # all global unicast addresses
_NOT_PUBLIC = (
    # Older versions of Python take these for global, though they lead inside or through a translator.
    ip_network("192.0.0.0/24"),  # for protocols; some clouds serve secrets there
    ip_network("192.88.99.0/24"),  # relays to 6to4
    ip_network("168.63.129.16/32"),  # the host of a machine in Azure
    ip_network("2001::/23"),  # for protocols, Teredo among them
    ip_network("2001:db8::/32"),  # for examples
    ip_network("2002::/16"),  # 6to4: any address of IPv4, also a private one
    ip_network("3fff::/20"),  # for examples
)


def is_public(address: IpAddress) -> bool:
    """Whether this is an address of the public internet, and not a private one in another notation."""
    if address.version == 6 and address not in _GLOBAL_IPV6:
        return False  # among others those that hold an IPv4 address: ::ffff:…, ::…, 64:ff9b::…
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    return address.is_global and not (special or address.is_private or address.is_link_local)


async def resolve(host: str, port: int, permits: AddressCheck) -> list[IpAddress]:
    """The addresses of a host; `ToolFailed` if one of them is not permitted.

    A single forbidden address is enough: otherwise a name with a public and a private address would lead inside
    whenever the public one does not answer.
    """
    found = await run_in_thread(lambda: _addresses(host, port))
    for address in found:
        if not permits(address):
            raise ToolFailed(texts.tool_calls.fetch_not_public(host, str(address)))
    return found


def _addresses(host: str, port: int) -> list[IpAddress]:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):  # always this machine, whatever DNS says
        return [IPv4Address("127.0.0.1"), IPv6Address("::1")]
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolFailed(texts.tool_calls.fetch_unknown_host(host)) from error
    return list(dict.fromkeys(ip_address(answer[4][0]) for answer in answers))
