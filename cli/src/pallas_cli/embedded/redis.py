"""A redis-server on loopback, as a child process.

It keeps no data across a restart: it is a cache, and a restored cache would be stale. It has one user for the services,
with a password and only the commands of `pallas_lookups`.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from pallas_cli.embedded.binaries import package_binary
from pallas_cli.private_files import private_folder, write_atomically
from pallas_cli.processes.launch import Launch
from pallas_cli.processes.probes import answers

_USER = "pallas"
_USERS = """\
user default off
user {user} on #{digest} resetchannels ~pallas:lookup:* -@all {commands}
"""
_COMMANDS = ("mget", "get", "set", "evalsha", "script|load", "info", "config|get", "time", "scan", "unlink")
"""They include commands that scripts call, because Redis checks the rights of each."""


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    """A redis-server in `folder` with this `password`."""

    folder: Path
    password: str = field(repr=False)
    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """The address for clients, with the password."""
        return f"redis://{_USER}:{self.password}@{self.host}:{self.port}"

    @staticmethod
    def binary() -> Path:
        """Return the server's binary.

        Raises:
            Refused: it is not installed.
        """
        return package_binary("pallas_redis_server", "bin/redis-server", "pallas-redis-server")

    async def launch(self) -> Launch:
        """Write the users, and return how to start the server."""
        private_folder(self.folder)
        users, digest = self.folder.absolute() / "users.acl", sha256(self.password.encode()).hexdigest()
        commands = " ".join(f"+{command}" for command in _COMMANDS)
        write_atomically(users, _USERS.format(user=_USER, digest=digest, commands=commands))
        options = {
            "--bind": self.host,
            "--port": str(self.port),
            "--dir": str(self.folder.absolute()),
            "--aclfile": str(users),
            "--appendonly": "no",
            "--save": "",
            "--daemonize": "no",
        }
        return Launch(
            command=(str(self.binary()), *(word for option in options.items() for word in option)),
            ready=answers(self.host, self.port, b"PING\r\n", b"-NOAUTH"),
        )
