"""The sandbox of commands: what is in force, what remains reachable, and why it could not be better."""

from __future__ import annotations

from collections.abc import Sequence

_LAYERS = {
    "bwrap": "Commands run in a sandbox: bubblewrap, Landlock and seccomp",
    "landlock": "Commands run in a lesser sandbox: Landlock and seccomp, without namespaces",
    "off": "Commands run without a sandbox, and every one of them asks",
}
_NETWORKS = {
    "web": "web ports only",
    "public": "web ports of public addresses only, through a proxy",
    "none": "no network",
    "full": "the whole network",
}
_NAMES = {"bwrap": "bubblewrap", "landlock": "Landlock"}


def in_force(layer: str, network: str, reason: str) -> str:
    """One sentence about the sandbox, for operators."""
    reach = f"; {_NETWORKS[network]}" if layer != "off" else ""
    return f"{_LAYERS[layer]}{reach}.{f' {reason}' if reason else ''}"


SWITCHED_OFF = "It is switched off by tools.sandbox."
EVERY_COMMAND_ASKS = "commands run without a sandbox here, so each of them needs approval"
OTHER_SYSTEM = "it needs Linux on x86_64 or aarch64"
NO_BUBBLEWRAP = "the program bwrap is not installed"


def old_landlock(abi: int, needed: int) -> str:
    have = f"has version {abi} of it" if abi else "has none"
    return f"the kernel {have}, and version {needed} is needed (Linux 6.2)"


def unavailable(layer: str, problem: str) -> str:
    return f"{_NAMES[layer]} cannot be used: {problem.strip().rstrip('.')}."


def failed(code: int) -> str:
    return f"a trial ended with {code}"


def hint(mode: str) -> str:
    if mode == "bwrap":
        return (
            "Install it (apt-get install bubblewrap) and let this user make user namespaces, or set tools.sandbox "
            'to "auto", which takes the next best.'
        )
    return 'Use a newer kernel, or set tools.sandbox to "auto", which takes the next best.'


PUBLIC_NEEDS_BUBBLEWRAP = (
    'tools.sandbox_network is "public", which needs bubblewrap: without it no command can be given a network of '
    "its own."
)
PUBLIC_HINT = (
    'Set tools.sandbox to "auto" or "bwrap" and install bubblewrap (apt-get install bubblewrap); or set '
    'tools.sandbox_network to "web", which shuts the gateway\'s own port, to "none", or to "full".'
)
SHOWS_THE_HOME_HINT = (
    "Set tools.directory, tools.sandbox_read and tools.sandbox_write to folders that are apart from the gateway's "
    'home and from the system, or give up the sandbox: tools.sandbox = "off".'
)


def shows_the_home(path: str, layer: str) -> str:
    how = " and Landlock cannot leave a part of a folder out" if layer == "landlock" else ""
    return f"commands would see {path}, which shows the gateway's own home with its secrets{how}."


MISSING_HINT = "Make it, or take it out of tools.sandbox_read and tools.sandbox_write."


def missing(path: str) -> str:
    return f"sandboxed commands are to see {path}, which does not exist."


def reserved(path: str) -> str:
    return f"commands would write to {path}, which is a folder of the system."


# ── what the model is told ──────────────────────────────────────────────────────────────────────────────────

_MODEL_NETWORKS = {
    "web": "of the network they reach TCP ports {ports} only, not servers of their own on other ports",
    "public": (
        "of the network they reach TCP ports {ports} of public addresses only, through an HTTP proxy that "
        "$https_proxy names, which looks names up and answers 403 for every other address; servers of their own "
        "can be reached on 127.0.0.1"
    ),
    "none": "they have no network",
    "full": "they reach the network",
}


def for_model(layer: str, network: str, ports: Sequence[int]) -> str:
    """What the model is told of the sandbox: what its commands see and reach, and that it cannot change it."""
    if layer == "off":
        return "Your shell commands run without a sandbox, so a person must approve each of them."
    reach = _MODEL_NETWORKS[network].format(ports=", ".join(str(port) for port in ports))
    rest = "a home and a /tmp of their own" if layer == "bwrap" else "a home of their own, with $TMPDIR; not /tmp"
    return (
        "Your shell commands run in a sandbox that neither you nor they can switch off or change: they can write "
        f"to the workspace, and have {rest}; the system is read-only, other files and processes are out of reach, "
        f"and {reach}."
    )


# ── what the proxy of `public` answers ──────────────────────────────────────────────────────────────────────

# In the order of a command, because the proxy knows no sentences: its process loads little.
PROXY_SENTENCES = {
    "no_listener": "The proxy of the sandbox cannot listen in it: {problem}.\n",
    "port": "{host}:{port} is refused: commands here reach TCP ports 22, 53, 80 and 443 only.",
    "address": "{host} ({address}) is refused: it is not elsewhere on the public internet.",
    "unknown_host": "{host} is not known: its name leads to no address.",
    "unreachable": "{host} could not be reached: {problem}.",
    "request": "This is a proxy: it takes CONNECT host:port, or a request for an http:// address.",
    "busy": "Too many connections at once. Close some of them first.",
}


# ── what remains open ───────────────────────────────────────────────────────────────────────────────────────


def reachable(layer: str, network: str, abi: int, ports: Sequence[int]) -> list[str]:
    """What commands can reach all the same, for operators."""
    if layer == "off":
        return ["everything that the gateway's user can reach, the login token included"]
    found = ["what is in the workspace, which they can change and delete"]
    if network == "web":
        listed = ", ".join(str(port) for port in ports)
        found += [f"every address on TCP ports {listed}, local ones and cloud metadata included", "UDP"]
    if network == "public":
        listed = ", ".join(str(port) for port in ports)
        found.append(f"every public address on TCP ports {listed}, through a proxy; not this machine's own")
    if network == "full":
        found.append("the whole network, with the gateway's own port")
    if abi < 6:
        found.append(
            "abstract sockets of other programs" if layer == "bwrap" else "signals to processes of this user"
        )
    if layer == "landlock":
        found += [
            "the list of processes",
            "modes and times of files that belong to this user, by `chmod` and `touch`",
        ]
    return found


NO_CONTROL_GROUPS = "this process is in none of version 2"
NO_CONTROLLERS = "it has not both controllers, pids and memory"
GROUP_HAS_PROCESSES = "it has processes of its own"


def not_delegated(group: str) -> str:
    return f"{group} is not delegated; under systemd, set Delegate=yes and DelegateSubgroup=gateway"


def control_group_unusable(group: str, problem: str) -> str:
    return f"{group} cannot be used: {problem}"


def limits(
    layer: str, memory: int, processes: int, file_size: int, *, root: bool, no_control_group: str
) -> list[str]:
    """The limits of commands, and what holds commands to them; `no_control_group` says why no group does."""
    if layer == "off":
        return ["none: commands run without a sandbox"]
    size = f"file size: {file_size} MB for each file, by a limit on writing"
    if not no_control_group:
        return [
            f"memory: {memory} MB for all processes of a command together, by a control group",
            f"processes: {processes} of a command at a time, by a control group",
            size,
        ]
    count = "processes: NOT limited, because the kernel does not hold root to a limit on its processes"
    return [
        f"memory: {memory} MB for each process, by a limit on its data; their sum is not limited",
        count if root else f"processes: {processes} at a time, by a limit on this user",
        size,
        f"control groups, which limit a command as a whole, are not used: {no_control_group}",
    ]


# By which programs tell that they met a limit: words of the C library, Python, C++, Go, node, Rust, Java, shells.
_MEMORY_WORDS = (
    "cannot allocate memory",
    "memoryerror",
    "bad_alloc",
    "out of memory",
    "memory exhausted",
    "memory allocation of",
    "outofmemoryerror",
)
_PROCESS_WORDS = (
    "cannot fork",
    "fork: retry",
    "fork failed",
    "resource temporarily unavailable",
    "can't start new thread",
    "unable to create native thread",
)


def limit_hint(output: str, memory: int, processes: int) -> str:
    """What to say after the output of a failed command that seems to have met a limit; else an empty text."""
    said = output.lower()
    if any(word in said for word in _MEMORY_WORDS):
        return f"[A process here may use {memory} MB of memory at most: tools.sandbox_memory.]"
    if any(word in said for word in _PROCESS_WORDS):
        return f"[Commands here may have {processes} processes at most: tools.sandbox_processes.]"
    return ""
