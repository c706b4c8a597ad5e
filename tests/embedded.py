"""Real servers as child processes, for tests that need them to stop, die and come back.

A server keeps its port and its store over `restart`, so clients see what they would see of a server in production.
Ready means that it has greeted on its socket; nothing here sleeps for a guessed time.
"""

import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pallas_cli.embedded.servers import EmbeddedRedis
from pallas_cli.stack.ports import is_free

_STARTS_WITHIN = 60.0
_STOPS_WITHIN = 30.0
_RETRY = 0.005
_RELOADED = "Reloaded server configuration"
"""What nats-server logs when it has read its configuration again."""
_PORTS = range(20_000, 26_000)
"""Ports outside of those that the kernel gives to callers of port 0, and of those of test stacks."""
_CONFIG = """\
listen: "127.0.0.1:{port}"
max_payload: {max_payload}
jetstream {{ store_dir: {store}, max_memory_store: 64MB, max_file_store: {size}{cipher} }}
{further}
"""


def own_share(ports: range) -> range:
    """The part of `ports` that belongs to this process of the test run."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return ports[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]


_ports = own_share(_PORTS)
_next_ports = itertools.islice(itertools.cycle(_ports), random.randrange(len(_ports)), None)


def free_port() -> int:
    """Return a loopback port without a listener, which no other caller gets until much later."""
    return next(filter(is_free, _next_ports))


def nats_binary() -> Path | None:
    """Return the nats-server of this environment or of the PATH, or None."""
    installed = Path(sys.executable).parent / "nats-server"
    found = str(installed) if installed.exists() else shutil.which("nats-server")
    return Path(found) if found else None


def nats_version() -> str:
    """The version of the embedded nats-server."""
    binary = nats_binary()
    assert binary is not None
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    return said.rpartition("v")[2].strip()


class Server:
    """A server as a child process of the test, which keeps its port over a restart. Use it as a context manager."""

    _process: subprocess.Popen[bytes] | None = None
    _polite = signal.SIGTERM
    """What asks it to end."""

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> Self:
        """Start the server and wait until it answers."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask the server to end and wait until it has. Nothing happens when it is not running."""
        self.end(self._polite)

    def kill9(self) -> None:
        """Kill the server (SIGKILL) and wait until it has ended."""
        self.end(signal.SIGKILL)

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) the server and start it on the same port."""
        self.end(signal.SIGKILL if kill else self._polite)
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, log: Path, *command: str, setup: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
        """Run its process with its output in `log`, without waiting for anything."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=setup,
            )
        return self._process

    def end(self, number: signal.Signals) -> None:
        """Send a signal and wait until the process has ended; kill it if it does not."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.kill(process.pid, number)
        try:
            process.wait(_STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


class NatsServer(Server):
    """One nats-server with JetStream on loopback. Use it as a context manager, or `start` and `close` it.

    `folder` holds its configuration, log and store of at most `store`; by default it is a temporary one that `close`
    removes. With a `monitor_port` it tells of itself there, over HTTP. `further` is more configuration; `tls` says that
    there is TLS in it, so that the server greets nobody in the open. `encrypted`: its store is, as that of `pallas up`.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int | None = None,
        max_payload: str = "8MB",
        store: str = "8GB",
        monitor_port: int | None = None,
        further: str = "",
        tls: bool = False,
        encrypted: bool = False,
    ) -> None:
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="pallas-nats-"))
        self.port = port or free_port()
        self.max_payload = max_payload
        self.size = store
        self.monitor_port = monitor_port
        self.further = further
        self._tls = tls
        self.cipher = ', cipher: aes, key: "a key of tests"' if encrypted else ""

    @property
    def url(self) -> str:
        """The URL for clients, which stays the same after a restart."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """The server's log so far."""
        path = self.folder / "nats.log"
        return path.read_text("utf-8", errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Start the server and wait until it greets.

        Raises:
            RuntimeError: there is no binary, or the server ended or stayed silent; with its log.
        """
        if (binary := nats_binary()) is None:
            raise RuntimeError("there is no nats-server: `uv sync` installs it")
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "nats.conf"
        config.write_text(self._configuration(), "utf-8")
        self.run(self.folder / "nats.log", str(binary), "--config", str(config))
        self._wait_for_greeting()
        return self

    def reload(self) -> None:
        """Have the server read its configuration again (SIGHUP), and wait until it has done so."""
        (self.folder / "nats.conf").write_text(self._configuration(), "utf-8")
        before, deadline = self.log.count(_RELOADED), time.monotonic() + _STARTS_WITHIN
        os.kill(self.pid, signal.SIGHUP)
        while self.log.count(_RELOADED) == before:
            assert time.monotonic() < deadline, "the server has not read its configuration again"
            time.sleep(_RETRY)

    def close(self) -> None:
        """End the server, and remove its folder if it is a temporary one, for which it need not end in order."""
        self.end(signal.SIGKILL if self._temporary else signal.SIGTERM)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _configuration(self) -> str:
        store = json.dumps(str(self.folder / "store"))
        monitor = f'http: "127.0.0.1:{self.monitor_port}"\n' if self.monitor_port is not None else ""
        further = monitor + self.further
        limits = {"max_payload": self.max_payload, "size": self.size, "cipher": self.cipher}
        return _CONFIG.format(port=self.port, store=store, further=further, **limits)

    def _wait_for_greeting(self) -> None:
        process = self._process
        assert process is not None
        deadline = time.monotonic() + _STARTS_WITHIN
        while process.poll() is None and time.monotonic() < deadline:
            if self._tls and accepts(self.port):
                return
            if (info := greeting(self.port)) is not None and info.get("jetstream"):
                return
            time.sleep(_RETRY)
        self.kill9()
        raise RuntimeError(f"nats-server on port {self.port} did not start:\n{self.log}")


def accepts(port: int) -> bool:
    """Whether something listens on that loopback port."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def greeting(port: int) -> dict[str, Any] | None:
    """Return the INFO with which a NATS server greets on that loopback port, or None when none does."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            line = connection.makefile("rb").readline()
    except OSError:
        return None
    return json.loads(line.removeprefix(b"INFO ")) if line.startswith(b"INFO ") else None


class RedisServer(Server):
    """One redis-server on loopback that keeps nothing on disk. `options` are added to its command."""

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._options = options

    @property
    def url(self) -> str:
        """The URL for clients, which stays the same after a restart."""
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the server and wait until it answers."""
        fixed = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder), "--save", "")
        process = self.run(self.folder / "redis.log", str(EmbeddedRedis.binary()), *fixed, *self._options)
        deadline = time.monotonic() + _STARTS_WITHIN
        while process.poll() is None and time.monotonic() < deadline:
            if self.say("PING").startswith("+PONG"):
                return self
            time.sleep(_RETRY)
        self.kill9()
        log = (self.folder / "redis.log").read_text("utf-8", errors="replace")
        raise RuntimeError(f"redis-server on port {self.port} did not start:\n{log}")

    def say(self, *words: str) -> str:
        """Send one command and return the raw answer, or an empty text if there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall((" ".join((*words, "\r\nQUIT")) + "\r\n").encode())
                return connection.makefile("rb").read().decode()
        except OSError:
            return ""
