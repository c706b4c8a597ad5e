"""Broker and cache as compose runs them: its arguments, files and health checks, at addresses of this machine."""

import asyncio
import os
import shutil
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
from tests.deployment.compose import PATH, SECRETS, containers, environment, mounted_files
from tests.embedded import free_port, nats_binary
from tests.integration.real_parts import until

from pallas_cli.embedded.servers import EmbeddedRedis

_STARTS_WITHIN = 60.0


@asynccontextmanager
async def compose_redis(folder: Path, secrets: Path) -> AsyncGenerator[int]:
    """The cache, with its password. Yields its port; it is healthy."""
    os.mkdir(folder)
    port = free_port()
    here = {
        "redis-server -": f"redis-server - --bind 127.0.0.1 --port {port} --dir {folder}",
        "redis-cli": f"redis-cli -p {port}",
        SECRETS: f"{secrets}/",
    }
    path = f"{EmbeddedRedis.binary().parent}:{os.environ['PATH']}"
    kind, check = containers()["redis"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"

    async def is_healthy() -> bool:
        process = await asyncio.create_subprocess_exec("sh", "-c", moved(check, here), env={"PATH": path})
        return await process.wait() == 0

    command = [moved(word, here) for word in containers()["redis"]["command"]]
    async with running(command, {"PATH": path}, folder / "redis.log"):
        await until(is_healthy, _STARTS_WITHIN)
        yield port


@asynccontextmanager
async def compose_nats(folder: Path, made: Path) -> AsyncGenerator[int]:
    """The broker, with its configuration and the files made with the secrets. Yields its port once it is healthy."""
    binary, port, monitor = nats_binary(), free_port(), free_port()
    assert binary is not None
    here = {"/etc/nats/": f"{folder}/", "/data": str(folder / "data")}
    _mount(folder, made, here)
    words = [moved(word, here) for word in containers()["nats"]["command"]]
    place = ("--addr", "127.0.0.1", "--port", str(port), "--http_port", str(monitor))
    *_, check = containers()["nats"]["healthcheck"]["test"]

    async def is_healthy() -> bool:
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=2) as http:
            with suppress(httpx.TransportError):
                return (await http.get(check.replace("8222", str(monitor)))).is_success
        return False

    async with running([str(binary), *words, *place], environment("nats"), folder / "nats.log"):
        await until(is_healthy, _STARTS_WITHIN)
        yield port


def _mount(folder: Path, made: Path, here: Mapping[str, str]) -> None:
    folder.mkdir()
    for path in mounted_files("nats"):
        own = made / path.relative_to(PATH.parent)
        source = own if own.exists() else path
        if source.is_dir():
            shutil.copytree(source, folder / path.name)
        else:
            (folder / path.name).write_text(moved(source.read_text("utf-8"), here), "utf-8")


def moved(text: str, here: Mapping[str, str]) -> str:
    """A value of a container's settings, with the paths of this machine."""
    for there, place in here.items():
        text = text.replace(there, place)
    return text


@asynccontextmanager
async def running(command: list[str], variables_of: Mapping[str, str], log: Path) -> AsyncGenerator[Process]:
    """Run a server and end it."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env=variables_of, stdin=DEVNULL, stdout=output, stderr=STDOUT
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
