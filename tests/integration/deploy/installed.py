"""Packages installed as the image installs them, and their containers run as compose runs them, without Docker.

Files are linked, not copied, and nothing is compiled ahead: that saves minutes and changes no package.
"""

import asyncio
import os
import shutil
import subprocess
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.contract.tree import ROOT
from tests.deployment import image
from tests.deployment.compose import SECRETS, containers, environment
from tests.embedded import free_port
from tests.integration.processes import Service

_QUICKER = {"UV_LINK_MODE": "hardlink", "UV_COMPILE_BYTECODE": "0"}
_OF_THE_MACHINE = ("PATH", "HOME", "LANG", "TMPDIR")


def uv() -> str:
    """The uv of whoever runs the tests, else that of the project folder."""
    return os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".tools/uv/bin/uv")


def install(container: str, sources: Path, folder: Path) -> Path:
    """Install the package of a container into a folder of its own, and return the Python that has it."""
    package = containers()[container]["build"]["args"]["PACKAGE"]
    _, *words = image.install_command(package)
    told = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")}
    place = {"UV_PROJECT_ENVIRONMENT": str(folder / container)}
    subprocess.run(
        [uv(), *words],
        cwd=sources,
        env=told | image.build_environment() | _QUICKER | place,
        check=True,
        capture_output=True,
        timeout=100,
    )
    return folder / container / "bin" / "python"


@dataclass(frozen=True)
class Site:
    """Where containers are run: a folder for their logs and secrets, and other addresses than those in compose."""

    folder: Path
    addresses: Mapping[str, str]

    def told(self, container: str, **other: str) -> dict[str, str]:
        """The variables of a container, with secrets and addresses of this site."""
        given = {name: self._here(value) for name, value in environment(container).items()}
        machine = {name: os.environ[name] for name in _OF_THE_MACHINE if name in os.environ}
        return machine | given | other

    def _here(self, value: str) -> str:
        for there, here in {SECRETS: f"{self.folder}/secrets/", **self.addresses}.items():
            value = value.replace(there, here)
        return value

    async def finish(self, container: str, python: Path) -> None:
        """Run a container that ends by itself."""
        process = await asyncio.create_subprocess_exec(
            python, "-m", *containers()[container]["command"], cwd=self.folder, env=self.told(container)
        )
        assert await process.wait() == 0

    async def is_healthy(self, container: str, python: Path, port: int) -> bool:
        """Carry out the health check of a container that listens on `port` here."""
        _, program, *words = containers()[container]["healthcheck"]["test"]
        assert program == "python"
        check = await asyncio.create_subprocess_exec(python, *(word.replace("8080", str(port)) for word in words))
        return await check.wait() == 0

    @asynccontextmanager
    async def run(self, container: str, python: Path) -> AsyncGenerator[Service]:
        """Run the container of a service, on a free port of loopback."""
        port, log = free_port(), self.folder / f"{container}.log"
        # Agents' own ports may be somebody else's here.
        told = self.told(container, PALLAS_HOST="127.0.0.1", PALLAS_PORT=str(port), PALLAS_AGENT_PORTS="false")
        command = (python, "-m", *containers()[container]["command"])
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command, cwd=self.folder, env=told, stdin=DEVNULL, stdout=DEVNULL, stderr=errors
            )
        try:
            yield Service(container, port, log, process)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
