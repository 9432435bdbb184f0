"""The seccomp filters of sandboxed commands, assembled by hand: which system calls are refused, and with what.

A filter is a program of the kernel's classic BPF. There are two: one for the command and for bubblewrap around it,
and one for the command alone, with the calls that bubblewrap needs to make the sandbox.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from typing import NamedTuple

_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16  # in `struct seccomp_data`
_X32_BIT = 0x40000000  # of the numbers of a second set of calls, on x86_64

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16  # address families
_STREAM, _DATAGRAM = 1, 2
_PROTOCOLS = (0, 6, 17)  # the usual one, TCP, UDP; not MPTCP, which Landlock does not see
_FAST_OPEN = 0x20000000  # a flag with which sending connects
_NAMESPACES = 0x7E020080  # CLONE_NEW*
_CLONE_NAMESPACES = _NAMESPACES & ~0xFF  # of `clone`, the lowest byte is a signal
_TERMINAL_REQUESTS = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX, which type into a terminal
_SET_UID_BIT = 0o4000
_FILE_TYPE, _DEVICES = 0o170000, (0o020000, 0o060000)

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value
CallNumbers = tuple[int | None, int | None]  # on x86_64 and on aarch64; None where there is no such call
Rule = tuple[CallNumbers, list[Instruction]]


class Architecture(NamedTuple):
    """How the kernel numbers its calls."""

    audit: int
    column: int  # in the tables below


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 0), "aarch64": Architecture(0xC00000B7, 1)}

_REFUSED: dict[str, CallNumbers] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_UNKNOWN: dict[str, CallNumbers] = {  # whoever uses them goes on without them
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_MOUNTING: dict[str, CallNumbers] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
_SOCKET, _IOCTL, _CLONE, _CLONE3, _UNSHARE = (41, 198), (16, 29), (56, 220), (435, 435), (272, 97)
# With the place of the argument that is looked at.
_SENDING = (((44, 206), 3), ((46, 211), 2), ((307, 269), 3))  # sendto, sendmsg, sendmmsg
_CHMOD = (((90, None), 1), ((91, 52), 1), ((268, 53), 2), ((452, 452), 2))
_MKNOD = (((133, None), 1), ((259, 33), 2))


def outer_filter(machine: str, *, path_sockets: bool, internet: bool) -> bytes:
    """What is refused to a command and to bubblewrap around it; sockets of paths and the internet may be too."""
    rules = _refuse(_REFUSED, errno.EPERM) + _refuse(_UNKNOWN, errno.ENOSYS)
    rules.append((_SOCKET, _socket_rule(path_sockets=path_sockets, internet=internet)))
    rules.append((_IOCTL, _values_rule(1, 0xFFFFFFFF, _TERMINAL_REQUESTS)))
    rules += [(numbers, _bits_rule(place, _FAST_OPEN)) for numbers, place in _SENDING]
    rules += [(numbers, _bits_rule(place, _SET_UID_BIT)) for numbers, place in _CHMOD]
    rules += [(numbers, _values_rule(place, _FILE_TYPE, _DEVICES)) for numbers, place in _MKNOD]
    return b"".join(struct.pack("HBBI", *each) for each in _assemble(machine, rules))


def inner_filter(machine: str) -> bytes:
    """What is refused to a command alone: mounts, and namespaces of its own."""
    rules = _refuse(_MOUNTING, errno.EPERM)
    rules += [(_UNSHARE, _bits_rule(0, _NAMESPACES)), (_CLONE, _bits_rule(0, _CLONE_NAMESPACES))]
    # The flags of `clone3` are in memory, where no filter looks; the C library takes `clone` instead.
    rules += _refuse({"clone3": _CLONE3}, errno.ENOSYS)
    return b"".join(struct.pack("HBBI", *each) for each in _assemble(machine, rules))


def _refuse(calls: dict[str, CallNumbers], number: int) -> list[Rule]:
    return [(numbers, [_return(_FAIL | number)]) for numbers in calls.values()]


def _socket_rule(*, path_sockets: bool, internet: bool) -> list[Instruction]:
    """Allow sockets of routing, perhaps of paths, and perhaps of the internet: TCP and UDP, nothing else."""
    refused = [_return(_FAIL | errno.EAFNOSUPPORT)]
    protocol = [_load(2), *_one_of(_PROTOCOLS, refused, [_return(_ALLOW)])]
    kind = [_load(1), (_AND, 0, 0, 0xF), *_one_of((_STREAM, _DATAGRAM), refused, protocol)]
    local = (_UNIX, _NETLINK) if path_sockets else (_NETLINK,)
    allowed = [each for family in local for each in _if_equal(family, [_return(_ALLOW)])]
    return [_load(0), *allowed, *(_one_of((_INET, _INET6), refused, kind) if internet else refused)]


def _bits_rule(place: int, mask: int) -> list[Instruction]:
    """Refuse the call if its argument has one of these bits."""
    return [_load(place), (_IF_ANY_BIT, 0, 1, mask), _return(_FAIL | errno.EPERM), _return(_ALLOW)]


def _values_rule(place: int, mask: int, values: tuple[int, ...]) -> list[Instruction]:
    """Refuse the call if its masked argument is one of these values."""
    refused = [_return(_FAIL | errno.EPERM)]
    return [_load(place), (_AND, 0, 0, mask), *_one_of(values, [_return(_ALLOW)], refused)]


def _one_of(values: tuple[int, ...], otherwise: list[Instruction], then: list[Instruction]) -> list[Instruction]:
    """Go on with `then` if the loaded value is one of these."""
    last = len(values) - 1
    jumps = [(_IF_EQUAL, last - at + len(otherwise), 0, value) for at, value in enumerate(values)]
    return [*jumps, *otherwise, *then]


def _if_equal(value: int, then: list[Instruction]) -> list[Instruction]:
    return [(_IF_EQUAL, 0, len(then), value), *then]


def _load(place: int) -> Instruction:
    """Load the lower half of an argument; the kernel ignores the upper half of all that are looked at here."""
    return (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * place)


def _return(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def _assemble(machine: str, rules: Iterable[Rule]) -> list[Instruction]:
    """A program that refuses calls of another architecture, then follows the rule of a call, or allows it."""
    architecture = ARCHITECTURES[machine]
    foreign = _return(_FAIL | errno.ENOSYS)
    program: list[Instruction] = [(_LOAD, 0, 0, _AT_ARCHITECTURE)]
    program += [(_IF_EQUAL, 1, 0, architecture.audit), foreign, (_LOAD, 0, 0, _AT_NUMBER)]
    program += [(_IF_AT_LEAST, 0, 1, _X32_BIT), foreign]
    for numbers, body in rules:
        number = numbers[architecture.column]
        program += _if_equal(number, body) if number is not None else []
    return [*program, _return(_ALLOW)]
