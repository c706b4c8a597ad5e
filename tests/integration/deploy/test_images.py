"""What the images install is enough: each service starts from it alone, as in compose, and becomes ready."""

import asyncio
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.contract.tree import ROOT
from tests.deployment import image
from tests.deployment.compose import containers
from tests.deployment.services import SERVICES
from tests.integration.deploy.installed import Site
from tests.integration.real_parts import until

from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_contracts.catalog import CLI, GATEWAY
from pallas_contracts.errors import PallasError

STARTS_WITHIN = 120.0
"""Seconds: nothing is compiled ahead here, so seven services at once compile all that they import."""

MIGRATIONS = [name for name in containers() if name.endswith("-migrate")]
SEARCH = ("chat", "research", "--message", '/tool search {"query": "workspace"}')


def test_the_command_can_dump_databases_from_its_image(pythons: dict[str, Path]) -> None:
    find = "from pallas_cli.embedded.postgres import EmbeddedPostgres; print(EmbeddedPostgres.binary('pg_dump'))"
    assert subprocess.run([pythons["demo-library"], "-c", find], check=False).returncode == 0


def test_the_package_of_each_image_is_installed_alone(pythons: dict[str, Path]) -> None:
    for name in SERVICES:
        others = {package.module for package in SERVICES.values()} - {SERVICES[name].module}
        found = {path.name for path in pythons[name].parents[1].glob("lib/python3.*/site-packages/*")}
        assert SERVICES[name].module in found
        assert found & (others | {"pytest", "ruff", "pallas_cli"}) == set()


async def migrate(site: Site, pythons: dict[str, Path]) -> None:
    """Carry out the jobs that bring databases up to date."""
    for job in MIGRATIONS:
        await site.finish(job, pythons[job.removesuffix("-migrate")])


@pytest.mark.timeout(240)
async def test_services_become_ready_serve_the_demo_team_and_end_with_code_0(
    pythons: dict[str, Path], site: Site
) -> None:
    jwt = site.folder / "teams" / "secrets" / "fastagent.secrets.yaml"
    gateway = f"http://127.0.0.1:{site.port('agent-gateway')}"
    await migrate(site, pythons)

    async def finds() -> bool:
        """Whether the research agent finds something in its library."""
        command = (str(pythons["demo-library"]), "-m", "pallas_cli", *SEARCH, "--url", gateway)
        code, output = await site.ended("demo-library", command)
        return code == 0 and "libraries.md" in output

    async def tools_answer() -> bool:
        return await site.is_healthy("demo-tools", pythons["demo-tools"])

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(site.run("demo-tools", pythons["demo-tools"]))
        await until(tools_answer, STARTS_WITHIN)
        # Others end when the gateway has not declared its streams in 30 s, as on a busy machine. Compose restarts them.
        first = await stack.enter_async_context(site.run(GATEWAY, pythons[GATEWAY]))
        await first.ready(STARTS_WITHIN)
        names = [name for name in SERVICES if name != GATEWAY]
        others = [await stack.enter_async_context(site.run(name, pythons[name])) for name in names]
        running = [first, *others]
        await asyncio.gather(*(service.ready(STARTS_WITHIN) for service in others))
        healthy = [await site.is_healthy(service.instance, pythons[service.instance]) for service in running]
        assert healthy == [True] * len(SERVICES)
        assert not await finds()
        assert not jwt.exists()
        await site.finish("demo-library", pythons["demo-library"])
        await until(finds, STARTS_WITHIN)
        kept = jwt.read_text("ascii")
        await site.finish("demo-library", pythons["demo-library"])
        assert jwt.read_text("ascii") == kept
        assert jwt.stat().st_mode & 0o077 == 0
        for service in running:
            service.send(signal.SIGTERM)
        assert [await service.process.wait() for service in running] == [0] * len(SERVICES)
    assert "violation" not in (site.folder / "nats" / "nats.log").read_text("utf-8").lower()


async def test_the_broker_rejects_connections_without_a_seed(site: Site) -> None:
    access = Access(site.addresses["nats:4222"], ca=(site.folder / "secrets" / "nats-ca").read_text("ascii"))
    with pytest.raises(PallasError):
        async with connect(access, CLI, timeout=3.0):
            pass
    assert "authentication error" in (site.folder / "nats" / "nats.log").read_text("utf-8").lower()


def test_the_images_use_the_python_version_of_the_project() -> None:
    wanted = (ROOT / ".python-version").read_text("utf-8").strip()
    assert f"FROM python:{wanted}-" in image.text()
    assert wanted == f"{sys.version_info.major}.{sys.version_info.minor}"
