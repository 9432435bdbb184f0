"""The arguments of bubblewrap: what a command sees of the machine in layer 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perdure.tools.sandbox.system_paths import ROOT_FOLDERS, SYSTEM_FOLDERS, etc_paths

AGENT_HOME = "/home/agent"  # where the agent's home is, inside
_SHARED_MEMORY_BYTES, _TMP_BYTES = 256 << 20, 1 << 30

# Never `--die-with-parent`, which would end what a command leaves running, nor `--new-session`: the keeper of an
# orphan finds its processes by their session. Without `--cap-drop`, root could remount what is read-only.
_ISOLATION = (
    "--unshare-user --unshare-all --disable-userns --uid 1000 --gid 1000 --cap-drop ALL --hostname sandbox"
)


def bubblewrap_prefix(
    program: str,
    workspace: Path,
    agent_home: Path,
    read: Sequence[Path],
    write: Sequence[Path],
    hidden: Path,
    *,
    network: bool,
) -> list[str]:
    """What stands before a command; the keeper adds the filter and the descriptor of the status.

    The environment is not here: everybody can read the arguments of a process. `hidden` is empty inside, even if
    a folder around it is shown.
    """
    return [
        program,
        *_ISOLATION.split(),
        *(["--share-net"] if network else []),
        *_system(),
        *_own_file_systems(),
        *_shown_folders(workspace, read, write, hidden),
        *("--bind", str(agent_home), AGENT_HOME),
        *("--remount-ro", "/"),
        *("--chdir", str(workspace)),
    ]


def _system() -> list[str]:
    arguments = [word for path in SYSTEM_FOLDERS for word in ("--ro-bind-try", str(path), str(path))]
    for path in (Path("/") / name for name in ROOT_FOLDERS):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()).lstrip("/"), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    arguments += ["--dir", "/etc"]
    for path in etc_paths():  # `resolv.conf` is a link to elsewhere on many systems; a link needs no mount
        real = path.resolve()
        into_system = path.is_symlink() and real.is_relative_to("/usr")
        arguments += ["--symlink" if into_system else "--ro-bind-try", str(real), str(path)]
    return arguments


def _own_file_systems() -> list[str]:
    """`/proc` with the sandbox's processes alone. As root, the settings in `/proc/sys` could be written to."""
    return [
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"),
        *("--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"),  # noqa: S108 reason: it is the sandbox's own
        *("--size", str(_TMP_BYTES), "--tmpfs", "/tmp"),  # noqa: S108 reason: it is the sandbox's own
        *("--dir", "/var/tmp", "--dir", "/run"),  # noqa: S108 reason: it is the sandbox's own
    ]


def _shown_folders(workspace: Path, read: Sequence[Path], write: Sequence[Path], hidden: Path) -> list[str]:
    """Outer folders first, so that the inner ones are laid over them; an attachment may be gone meanwhile."""
    kinds = {path: ["--ro-bind-try", str(path), str(path)] for path in read}
    kinds |= {path: ["--bind", str(path), str(path)] for path in (*write, workspace)}
    if any(hidden.is_relative_to(path) for path in kinds):
        kinds[hidden] = ["--tmpfs", str(hidden)]
    return [word for path in sorted(kinds, key=lambda path: len(path.parts)) for word in kinds[path]]
