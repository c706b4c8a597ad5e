"""Packages installed as the image installs them, and their containers run as compose runs them, without Docker.

Files are linked, not copied, and so is the bytecode that the tests' own environment has of the same files: that saves
minutes and changes no package. What others made stays for the next run, with its bytecode, until the lock or the way of
installing changes; Pallas' own is always new.
"""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.contract.tree import ROOT
from tests.deployment import image
from tests.deployment.compose import PATH, SECRETS, containers, environment
from tests.integration.deploy.bytecode import link_bytecode
from tests.integration.processes import Service

_QUICKER = {"UV_LINK_MODE": "hardlink", "UV_COMPILE_BYTECODE": "0"}
_KEPT = Path(sys.prefix) / "images"
_OF_THE_MACHINE = ("PATH", "HOME", "LANG", "TMPDIR")


def uv() -> str:
    """The uv on the PATH, else that of the project folder."""
    return os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".tools/uv/bin/uv")


def kept_folder() -> Path:
    """Where the environments of images are kept, for this lock and this way of installing alone."""
    way = repr((image.install_command("any"), image.build_environment())).encode()
    digest = hashlib.sha256((ROOT / "uv.lock").read_bytes() + way).hexdigest()[:12]
    folder = _KEPT / digest
    for other in set(_KEPT.glob("*")) - {folder}:
        shutil.rmtree(other, ignore_errors=True)
    return folder


def install(container: str, sources: Path, folder: Path) -> Path:
    """Install the package of a container into its own folder, and return its Python."""
    package = containers()[container]["build"]["args"]["PACKAGE"]
    _, *words = image.install_command(package)
    variables_of = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")
    }
    place = {"UV_PROJECT_ENVIRONMENT": str(folder / container)}
    subprocess.run(
        [uv(), *words],
        cwd=sources,
        env=variables_of | image.build_environment() | _QUICKER | place,
        check=True,
        capture_output=True,
        timeout=100,
    )
    link_bytecode(folder / container)
    return folder / container / "bin" / "python"


@dataclass(frozen=True)
class Site:
    """Where containers are run: a folder for their logs and secrets, and other addresses than those in compose."""

    folder: Path
    addresses: Mapping[str, str]

    def variables_of(self, container: str, **other: str) -> dict[str, str]:
        """The variables of a container, with secrets and addresses of this site."""
        given = {name: self._here(value) for name, value in environment(container).items()}
        machine = {name: os.environ[name] for name in _OF_THE_MACHINE if name in os.environ}
        return machine | given | other

    def move(self, secret: Path) -> None:
        """Let an address in a secret be that of this site."""
        text = self._here(secret.read_text("ascii"))
        secret.chmod(0o600)
        secret.write_text(text, "ascii")

    def mount(self, container: str, *, below: str) -> None:
        """Put what a container mounts below a folder where this site has it; links stay links."""
        for volume in containers()[container].get("volumes", []):
            source, target, *_ = volume.split(":")
            here = Path(self._here(target))
            if target.startswith(below) and not here.exists():
                if source.startswith("."):
                    shutil.copytree(PATH.parent / source, here, symlinks=True)
                else:
                    here.mkdir(parents=True)

    def port(self, container: str) -> int:
        """Where a container listens here."""
        return int(self.addresses[f"{container}:8080"].rpartition(":")[2])

    def _here(self, value: str) -> str:
        for there, here in {SECRETS: f"{self.folder}/secrets/", **self.addresses}.items():
            value = value.replace(there, here)
        return value

    def _command(self, container: str, python: Path) -> list[str]:
        words = [str(python), "-m", *map(self._here, containers()[container]["command"])]
        own = {"0.0.0.0": "127.0.0.1", "8080": str(self.port(container))} if "--port" in words else {}
        return [own.get(word, word) for word in words]

    async def finish(self, container: str, python: Path) -> None:
        """Run a container that ends by itself."""
        code, output = await self.ended(container, self._command(container, python))
        assert code == 0, output

    async def ended(self, container: str, command: Sequence[str]) -> tuple[int | None, str]:
        """Run a command as a container does. Returns its exit code and output."""
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, env=self.variables_of(container), stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    async def is_healthy(self, container: str, python: Path) -> bool:
        """Carry out the health check of a container."""
        _, program, *words = containers()[container]["healthcheck"]["test"]
        assert program == "python"
        port = str(self.port(container))
        check = await asyncio.create_subprocess_exec(
            python, *(word.replace("8080", port) for word in words), stderr=DEVNULL
        )
        return await check.wait() == 0

    @asynccontextmanager
    async def run(self, container: str, python: Path) -> AsyncGenerator[Service]:
        """Run the container of a service, on its port of loopback."""
        port, log = self.port(container), self.folder / f"{container}.log"
        # Agents' own ports may be somebody else's here.
        variables_of = self.variables_of(
            container, PALLAS_HOST="127.0.0.1", PALLAS_PORT=str(port), PALLAS_AGENT_PORTS="false"
        )
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *self._command(container, python),
                cwd=self.folder,
                env=variables_of,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=errors,
            )
        try:
            yield Service(container, port, log, process)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
