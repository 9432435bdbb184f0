"""Tells public IP addresses from private ones, and looks host names up.

`fetch_url` and the proxy of sandboxed commands go by the same rule. This module loads the standard library alone:
the proxy runs beside a keeper, without the package.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

IpAddress = IPv4Address | IPv6Address

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
_KERNEL_SECONDS = 5.0  # for an answer about a route
_GET_ROUTE, _NEW_ROUTE, _REQUEST, _DESTINATION, _LOCAL_ROUTE = 26, 24, 1, 1, 2  # of the kernel's routing messages


def is_public(address: IpAddress) -> bool:
    """Whether this is an address of the public internet, and not a private one in another notation."""
    if address.version == 6 and address not in _GLOBAL_IPV6:
        return False  # among others those that hold an IPv4 address: ::ffff:…, ::…, 64:ff9b::…
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    return address.is_global and not (special or address.is_private or address.is_link_local)


def is_of_this_machine(address: IpAddress) -> bool:
    """Whether what is sent to an address stays on this machine; nothing is sent to find out."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        return _has_local_route(address, family)
    except (AttributeError, OSError):  # another system, or one that keeps routes secret
        return _can_be_bound(address, family)


def _has_local_route(address: IpAddress, family: int) -> bool:
    """Whether the kernel says so of its route, which also knows further addresses and ranges of an interface."""
    target = address.packed
    attribute = struct.pack("=HH", 4 + len(target), _DESTINATION) + target
    route = struct.pack("=8BI", family, 8 * len(target), 0, 0, 0, 0, 0, 0, 0) + attribute
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as asking:
        asking.settimeout(_KERNEL_SECONDS)
        asking.send(struct.pack("=IHHII", 16 + len(route), _GET_ROUTE, _REQUEST, 1, 0) + route)
        answer = asking.recv(4096)
    return bool(struct.unpack_from("=H", answer, 4)[0] == _NEW_ROUTE and answer[23] == _LOCAL_ROUTE)


def _can_be_bound(address: IpAddress, family: int) -> bool:
    """Whether a socket can have the address: only one of this machine can, unless the system allows it to all."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.bind((str(address), 0))
    except OSError:
        return False
    return True


def is_elsewhere_in_public(address: IpAddress) -> bool:
    """Whether this is a public address, and not one that leads back to this machine."""
    return is_public(address) and not is_of_this_machine(address)


def look_up(host: str, port: int) -> list[IpAddress]:
    """The addresses of a host; `OSError` if there are none."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):  # always this machine, whatever DNS says
        return [IPv4Address("127.0.0.1"), IPv6Address("::1")]
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host!r} is no name of a host") from error
    return list(dict.fromkeys(ip_address(answer[4][0]) for answer in answers))
