"""The images' packages, installed once, and the servers that compose starts before the services."""

import os
import subprocess
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from deploy.make_secrets import make_secrets
from tests.contract.tree import ROOT
from tests.deployment import image
from tests.deployment.compose import containers
from tests.deployment.services import SERVICES
from tests.embedded import free_port
from tests.integration.deploy.installed import Site, install, kept_folder
from tests.integration.deploy.servers import compose_nats, compose_redis
from tests.postgres import PostgresServer

from pallas_cli.embedded.postgres import EmbeddedPostgres

IMAGES = (*SERVICES, "demo-tools", "demo-library")
"""A container of each image."""


@pytest.fixture(scope="session")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The Python of each image, by a container. Pallas's packages are installed again, since their folder differs."""
    sources, folder = tmp_path_factory.mktemp("src"), kept_folder()
    image.copy_sources(sources)
    return {name: install(name, sources, folder) for name in IMAGES}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """The secrets of a new deployment."""
    make_secrets(tmp_path / "secrets")
    return tmp_path / "secrets"


@pytest.fixture
def postgres(tmp_path: Path, secrets: Path) -> Generator[str]:
    """A Postgres, prepared by the script with which compose prepares a new cluster; its host and port."""
    with PostgresServer(tmp_path / "postgres") as server:
        _make_databases(server.url, secrets)
        yield server.url.partition("@")[2].partition("/")[0]


def _make_databases(url: str, secrets: Path) -> None:
    script = (ROOT / "deploy" / "postgres-init.sh").read_text("utf-8").replace("/run/secrets", str(secrets))
    address = urlsplit(url)
    programs = EmbeddedPostgres.binary("psql").parent
    variables_of = os.environ | {
        "PGHOST": address.hostname or "",
        "PGPORT": str(address.port),
        "PGUSER": address.username or "",
        "PGPASSWORD": address.password or "",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    subprocess.run(["bash", "-c", script], env=variables_of, check=True, capture_output=True, timeout=30)


@pytest.fixture
async def site(tmp_path: Path, secrets: Path, postgres: str) -> AsyncGenerator[Site]:
    """Broker, cache and database as compose prepares them, at addresses of this machine."""
    async with (
        compose_nats(tmp_path / "nats", tmp_path) as nats,
        compose_redis(tmp_path / "redis", secrets) as redis,
    ):
        servers = {"nats:4222": f"127.0.0.1:{nats}", "redis:6379": f"127.0.0.1:{redis}", "postgres:5432": postgres}
        others = {f"{name}:8080": f"127.0.0.1:{free_port()}" for name in (*SERVICES, "demo-tools")}
        site = Site(tmp_path, {**servers, **others, "/teams/": f"{tmp_path}/teams/"})
        _prepare(site, secrets)
        yield site


def _prepare(site: Site, secrets: Path) -> None:
    for secret in secrets.glob("*-url"):
        site.move(secret)
    for container in containers():
        site.mount(container, below="/teams/")
