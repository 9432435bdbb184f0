"""Which parts of the system a sandboxed command sees, read-only."""

from __future__ import annotations

from pathlib import Path

ROOT_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr on most systems
SYSTEM_FOLDERS = (Path("/usr"), Path("/nix/store"))
# Of /etc, what programs need and what holds no secrets, where it is there. Each costs every command a mount.
ETC_FILES = (
    "alternatives",
    "crypto-policies",
    "fonts",
    "gitconfig",
    "group",
    "hosts",
    "ld.so.cache",
    "localtime",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "resolv.conf",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
)
DEVICE_FILES = tuple(Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom"))
# A workspace there would hide or open what the sandbox needs for itself.
RESERVED_FOLDERS = ("usr", "etc", "proc", "sys", "dev", "run", "boot", *ROOT_FOLDERS)


def shown_system_paths() -> list[Path]:
    """The folders and files of the system that exist here."""
    roots = [Path("/") / name for name in ROOT_FOLDERS if not (Path("/") / name).is_symlink()]
    return [path for path in (*SYSTEM_FOLDERS, *roots, *etc_paths()) if path.exists()]


def etc_paths() -> list[Path]:
    return [path for name in ETC_FILES if (path := Path("/etc") / name).exists()]


def is_reserved(path: Path) -> bool:
    """Whether a path is `/`, or a folder of the system or in one."""
    return len(path.parts) < 2 or path.parts[1] in RESERVED_FOLDERS
