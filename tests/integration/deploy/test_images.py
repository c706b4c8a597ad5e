"""What the images install is enough: each service starts from it alone, as compose tells it to, and becomes ready."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from deploy.make_secrets import make_secrets
from tests.contract.tree import ROOT
from tests.deployment import image
from tests.deployment.compose import containers
from tests.deployment.services import SERVICES
from tests.embedded import NatsServer, RedisServer
from tests.integration.deploy.installed import Site, install
from tests.postgres import PostgresServer

from pallas_cli.embedded.postgres import EmbeddedPostgres

STARTS_WITHIN = 120.0
"""Seconds: nothing is compiled ahead here, so seven services at once compile all that they import."""

MIGRATIONS = [name for name in containers() if name.endswith("-migrate")]


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The Python of each service's image."""
    sources, folder = tmp_path_factory.mktemp("src"), tmp_path_factory.mktemp("app")
    image.copy_sources(sources)
    return {name: install(name, sources, folder) for name in SERVICES}


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    """Broker, cache and database as compose prepares them, at addresses of this machine."""
    make_secrets(tmp_path / "secrets")
    with (
        NatsServer() as nats,
        RedisServer(tmp_path / "redis") as redis,
        PostgresServer(tmp_path / "postgres") as postgres,
    ):
        _make_databases(postgres, tmp_path / "secrets")
        addresses = {
            "nats://nats:4222": nats.url,
            "redis:6379": redis.url.partition("//")[2],
            "postgres:5432": postgres.url.partition("@")[2].partition("/")[0],
            "/teams/team": str(ROOT / "teams" / "demo"),
        }
        for secret in (tmp_path / "secrets").glob("*-url"):
            _move(secret, addresses)
        yield Site(tmp_path, addresses)


def _move(secret: Path, addresses: dict[str, str]) -> None:
    """Let an address in a secret lead to this machine, whose Redis asks for no password."""
    text = secret.read_text("ascii")
    for there, here in addresses.items():
        text = text.replace(there, here)
    if secret.name == "redis-url":
        text = f"redis://{text.partition('@')[2]}"
    secret.chmod(0o600)
    secret.write_text(text, "ascii")


def _make_databases(postgres: PostgresServer, secrets: Path) -> None:
    """Run the script with which compose prepares a new cluster."""
    script = (ROOT / "deploy" / "postgres-init.sh").read_text("utf-8").replace("/run/secrets", str(secrets))
    _, _, address = postgres.url.partition("@")
    host, _, port = address.partition("/")[0].partition(":")
    programs = EmbeddedPostgres.binary("psql").parent
    told = os.environ | {
        "PGHOST": host,
        "PGPORT": port,
        "PGUSER": "postgres",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    subprocess.run(["bash", "-c", script], env=told, check=True, capture_output=True, timeout=30)


def test_a_package_is_installed_alone(pythons: dict[str, Path]) -> None:
    for name, python in pythons.items():
        others = {package.module for package in SERVICES.values()} - {SERVICES[name].module}
        found = {path.name for path in python.parents[1].glob("lib/python3.*/site-packages/*")}
        assert SERVICES[name].module in found
        assert found & (others | {"pytest", "ruff", "pallas_cli"}) == set()


@pytest.mark.timeout(240)
async def test_every_service_becomes_ready_and_ends_when_told_to(pythons: dict[str, Path], site: Site) -> None:
    for job in MIGRATIONS:
        await site.finish(job, pythons[job.removesuffix("-migrate")])
    async with AsyncExitStack() as stack:
        running = [await stack.enter_async_context(site.run(name, python)) for name, python in pythons.items()]
        await asyncio.gather(*(service.ready(STARTS_WITHIN) for service in running))
        for service in running:
            assert await site.is_healthy(service.instance, pythons[service.instance], service.port)
            service.send(signal.SIGTERM)
        assert [await service.process.wait() for service in running] == [0] * len(SERVICES)


def test_the_images_python_is_that_of_the_project() -> None:
    wanted = (ROOT / ".python-version").read_text("utf-8").strip()
    assert f"FROM python:{wanted}-" in image.text()
    assert wanted == f"{sys.version_info.major}.{sys.version_info.minor}"
