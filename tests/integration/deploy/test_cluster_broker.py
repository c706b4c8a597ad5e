"""The brokers of `deploy/k8s` accept connections over TLS with the seed that a pod mounts, and no others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest
from deploy.make_secrets import make_secrets
from pydantic import SecretStr
from tests.deployment.kubernetes import OVERLAYS, container, pods, variables
from tests.deployment.secrets import Files
from tests.deployment.services import DEMO, SERVICES
from tests.integration.deploy.cluster_broker import Pod, brokers, secrets_of
from tests.integration.real_parts import until

from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_contracts.errors import PallasError

WITHIN = 10.0
GATEWAY, WORKER = "agent-gateway", "agent-worker"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the result of `make secrets`."""
    folder = tmp_path_factory.mktemp("checkout")
    make_secrets(folder / "deploy" / "secrets")
    return folder


@pytest.fixture(scope="module")
def secrets(checkout: Path) -> dict[str, Files]:
    """The Secrets that are made from that folder at first."""
    return secrets_of(checkout)


@pytest.fixture(scope="module", params=OVERLAYS)
async def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, secrets: dict[str, Files]
) -> AsyncGenerator[list[Pod]]:
    """The running brokers of each overlay. The last test changes their users."""
    async with brokers(request.param, tmp_path_factory.mktemp("brokers"), secrets) as started:
        yield started


def access(pod: Pod, service: str, secrets: dict[str, Files]) -> Access:
    """The address and credentials of a service, from the files that its pod mounts."""
    made = secrets["pallas"] | secrets["agent-worker"]
    return Access(pod.url, SecretStr(made[f"{service}-nats-seed"].decode()), made["nats-ca"].decode())


async def lets_in(how: Access, service: str) -> bool:
    """Whether a connection succeeds, with the broker under the name that services use."""
    name = variables(pods("local")[GATEWAY])["PALLAS_NATS_URL"].removeprefix("nats://").partition(":")[0]
    with suppress(PallasError):
        async with connect(how, service, timeout=3.0, options={"tls_hostname": name} if how.ca else {}) as bus:
            await bus.flush()
            return True
    return False


async def test_every_broker_accepts_every_service(running: list[Pod], secrets: dict[str, Files]) -> None:
    for pod in running:
        assert [name for name in SERVICES if not await lets_in(access(pod, name, secrets), name)] == []


@pytest.mark.parametrize("running", ["local"], indirect=True, scope="module")
async def test_brokers_reject_connections_without_a_seed_or_without_tls(
    running: list[Pod], secrets: dict[str, Files]
) -> None:
    known = access(running[0], GATEWAY, secrets)
    assert await lets_in(known, GATEWAY)
    refused = (Access(known.url, ca=known.ca), Access(known.url, known.seed))
    assert not any(await asyncio.gather(*(lets_in(each, GATEWAY) for each in refused)))


@pytest.mark.parametrize("running", ["production"], indirect=True, scope="module")
async def test_brokers_connect_to_each_other_over_tls_with_certificates_only(running: list[Pod]) -> None:
    for pod in running:
        cluster = (await pod.monitored("varz"))["cluster"]
        assert (cluster["tls_required"], cluster["tls_verify"]) == (True, True)
        others = {route["remote_name"] for route in (await pod.monitored("routez"))["routes"]}
        assert others == {other.folder.name for other in running} - {pod.folder.name}


async def test_brokers_accept_workers_of_a_new_team_by_themselves_and_drop_no_connection(
    running: list[Pod], secrets: dict[str, Files], checkout: Path, tmp_path: Path
) -> None:
    async with connect(access(running[0], GATEWAY, secrets), GATEWAY, timeout=3.0) as before:
        connection = before.client.client_id
        changed = secrets_of(checkout, another_team(tmp_path / "other"))
        assert not await lets_in(access(running[-1], WORKER, changed), WORKER)

        async def let_in_by_all() -> bool:
            return all([await lets_in(access(pod, WORKER, changed), WORKER) for pod in running])

        for pod in running:
            pod.mount(changed)
        await until(let_in_by_all, WITHIN)
        assert before.client.client_id == connection


@pytest.mark.parametrize("running", ["production"], indirect=True, scope="module")
async def test_a_broker_that_ends_sends_its_clients_to_another_one(
    running: list[Pod], secrets: dict[str, Files]
) -> None:
    known, others = access(running[0], GATEWAY, secrets), [pod.url for pod in running[1:]]
    everywhere = Access(",".join([known.url, *others]), known.seed, known.ca)
    async with connect(everywhere, GATEWAY, timeout=3.0, options={"dont_randomize": True}) as bus:
        moved = asyncio.Event()

        async def has_moved() -> None:
            moved.set()

        bus.on_reconnect(has_moved)
        grace = pods("production")["nats"]["spec"]["terminationGracePeriodSeconds"]
        assert await running[0].end() < grace
        assert "Closing existing clients" in (running[0].folder / "nats.log").read_text("utf-8")  # not all cut off
        async with asyncio.timeout(WITHIN):
            await moved.wait()
        await bus.flush()


def another_team(folder: Path) -> Path:
    """The demo team under another name."""
    folder.mkdir()
    agents = (DEMO / "agents.yaml").read_text("utf-8")
    (folder / "agents.yaml").write_text(agents.replace("name: demo\n", "name: other\n"), "utf-8")
    (folder / "fastagent.config.yaml").write_bytes((DEMO / "fastagent.config.yaml").read_bytes())
    return folder


@pytest.mark.parametrize("running", ["production"], indirect=True, scope="module")
async def test_a_broker_that_is_left_alone_is_not_ready_and_is_restarted_after_minutes_only(running: list[Pod]) -> None:
    left = [pod for pod in running if pod.process.returncode is None]  # one ended in the test before
    leader = (await left[0].monitored("jsz"))["meta_cluster"]["leader"]
    [stays, *_] = [pod for pod in left if pod.folder.name != leader]  # a leader believes for 20 s that it still is
    for pod in left:
        if pod is not stays:
            pod.process.kill()

    async def is_not_ready() -> bool:
        return not await stays.succeeds("readinessProbe")

    await until(is_not_ready, WITHIN)
    liveness = container(pods("production")["nats"])["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 180
