"""Complete turns on a broker with rights for each service: nothing is denied, over TLS too."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.embedded import NatsServer
from tests.integration.broker.guarded import ALPHA, BETA, TEAMS, Guarded, start, worker
from tests.integration.processes import a_service
from tests.integration.real_parts import Front, a_gateway, a_worker, until

from pallas_bus.access import Access, make_seed
from pallas_bus.connection import Bus, connect
from pallas_bus.streams import declare
from pallas_cli.broker_config.users import WorkerTeams, read_workers
from pallas_cli.broker_config.write import TLS, BrokerFolder
from pallas_contracts.catalog import CLI, GATEWAY, MONITOR, REGISTRY, TURN_QUEUE, TURN_REQUESTED, WORKER
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_turns.dead_letters import read_letters
from pallas_turns.history.turns import TurnHistory, read_turns
from pallas_turns.queue import ensure_consumer


@pytest.fixture
def alone(tmp_path: Path) -> Generator[Guarded]:
    """A broker for this test alone."""
    guarded = start(tmp_path)
    yield guarded
    guarded.server.close()


@asynccontextmanager
async def everything(guarded: Guarded, folder: Path) -> AsyncGenerator[tuple[Front, Bus]]:
    """A gateway, a worker for each team, the registry and the monitor, and an operator's connection."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        url = guarded.server.url
        front = await enter(a_gateway(url, nats_seed=guarded.seed(GATEWAY)))
        for team in TEAMS:
            await enter(a_worker(url, guarded.teams[team], nats_seed=guarded.seed(worker(team))))
        for module, service, settings in (
            ("health_monitor", MONITOR, {"teams": str(guarded.teams[ALPHA]), "probe_interval": "0.2"}),
            ("registry", REGISTRY, {"public_url": front.base}),
        ):
            process = await enter(a_service(module, url, folder, service, nats_seed=guarded.seed(service), **settings))
            await process.ready()
        yield front, await enter(connect(guarded.access(CLI), CLI))


async def test_turns_of_two_teams_complete_and_nothing_is_denied(alone: Guarded, tmp_path: Path) -> None:
    async with everything(alone, tmp_path) as (front, people):
        for team in TEAMS:
            async with front.client(team, "bench") as client:
                result = await client.call_tool("say", {"text": "hello"})
                assert not result.is_error
                large = await client.call_tool("say", {"text": "x" * 400_000})
                assert not large.is_error
        undecodable = TURN_REQUESTED.template.subject(team=ALPHA, agent="bench", caller="x", turn="x")
        await people.put(undecodable, b"no request")

        async def kept() -> bool:
            return bool(await read_letters(people, since=utc_now().replace(year=2020)))

        await until(kept)
        turns = await read_turns(people)
        assert [turn.state for turn in turns] == ["completed"] * 4
    assert alone.violations == []


async def test_a_turn_of_a_lost_worker_is_executed_by_another_with_the_rights_of_one_team(
    alone: Guarded, tmp_path: Path
) -> None:
    settings = {"nats_seed": alone.seed(worker(ALPHA)), "teams": str(alone.teams[ALPHA])}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        front = await enter(a_gateway(alone.server.url, nats_seed=alone.seed(GATEWAY)))
        people = await enter(connect(alone.access(CLI), CLI))
        first = await enter(a_service("agent_worker", alone.server.url, tmp_path, "first", **settings))
        await first.ready()
        client = await enter(front.client(ALPHA, "bench"))

        async def attempts() -> list[TurnHistory]:
            return await read_turns(people)

        file = tmp_path / "go-on"
        call = asyncio.create_task(client.call_tool("wait", {"file": str(file)}))

        async def runs() -> bool:
            return any(turn.state == "running" for turn in await attempts())

        await until(runs)
        first.process.kill()
        second = await enter(a_service("agent_worker", alone.server.url, tmp_path, "second", **settings))
        await second.ready()

        async def again() -> bool:
            return any(len(turn.attempts) == 2 for turn in await attempts())

        await until(again)
        file.touch()
        assert not (await call).is_error
    assert alone.violations == []


async def test_after_a_reload_a_rotated_seed_is_accepted_and_the_old_one_rejected(alone: Guarded) -> None:
    workers = read_workers([[path] for path in alone.teams.values()], {})
    old = alone.access(REGISTRY)
    async with connect(alone.access(worker(BETA)), WORKER) as bystander:
        alone.folder.seeds.rotate(REGISTRY)
        alone.folder.write_users(workers)
        alone.server.reload()

        async def let_in(access: Access, within: float = 10.0) -> bool:
            try:
                async with connect(access, REGISTRY, timeout=within):
                    return True
            except Unavailable:
                return False

        await until(lambda: let_in(alone.access(REGISTRY)))
        assert await let_in(old)
        alone.folder.seeds.path(REGISTRY).with_name("registry.seed.old").unlink()
        alone.folder.write_users(workers)
        alone.server.reload()

        async def shut_out() -> bool:
            return not await let_in(old, 0.5)

        await until(shut_out)
        assert await let_in(alone.access(REGISTRY))
        assert bystander.breaks == 0


async def test_an_agent_added_to_a_folder_is_hosted_after_a_reload(alone: Guarded) -> None:
    """The broker knows the name of its consumer only after the reload. The worker retries until then."""
    async with (
        connect(alone.access(GATEWAY), GATEWAY) as owner,
        connect(alone.access(worker(ALPHA)), "agent-worker", timeout=0.3) as bus,
    ):
        await declare(owner, TURN_QUEUE)
        with pytest.raises(Unavailable):
            await ensure_consumer(bus, ALPHA, "newcomer", max_concurrency=None)
        alone.folder.write_users([WorkerTeams({ALPHA: ["bench", "newcomer"]}), WorkerTeams({BETA: ["bench"]})])
        alone.server.reload()

        async def made() -> bool:
            try:
                await ensure_consumer(bus, ALPHA, "newcomer", max_concurrency=None)
            except Unavailable:
                return False
            return True

        await until(made)
        assert bus.breaks == 0


@pytest.fixture
def encrypted(tmp_path: Path) -> Generator[tuple[NatsServer, str]]:
    """A broker that accepts TLS only, and the certificate of its CA."""
    folder = BrokerFolder(tmp_path)
    folder.write_tls(["127.0.0.1"])
    with NatsServer(tmp_path, further=f"include {TLS}", tls=True) as server:
        yield server, (tmp_path / "tls" / "ca.pem").read_text("ascii")


async def test_services_connect_over_tls_to_a_broker_with_a_trusted_certificate(
    encrypted: tuple[NatsServer, str], tmp_path: Path
) -> None:
    server, ca = encrypted
    async with a_gateway(server.url, nats_ca=ca) as front:
        assert front.gateway.calls.bus.connected
    file = tmp_path / "ca"
    file.write_text(ca, "ascii")
    async with (
        a_gateway(server.url, nats_ca=ca),
        a_service("health_monitor", server.url, tmp_path, "monitor", nats_ca_file=str(file)) as monitor,
    ):
        await monitor.ready()


async def test_a_broker_with_an_untrusted_certificate_is_refused(
    encrypted: tuple[NatsServer, str], tmp_path: Path
) -> None:
    server, _ = encrypted
    other = BrokerFolder(tmp_path / "other")
    other.write_tls(["127.0.0.1"])
    wrong = (tmp_path / "other" / "tls" / "ca.pem").read_text("ascii")
    with pytest.raises(Unavailable, match="SSLCertVerificationError"):
        async with connect(Access(server.url, ca=wrong), GATEWAY, timeout=2.0):
            pass


async def test_a_client_that_requires_tls_refuses_a_broker_without_it(nats_server: NatsServer, tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)
    folder.write_tls(["127.0.0.1"])
    ca = (tmp_path / "tls" / "ca.pem").read_text("ascii")
    with pytest.raises(Unavailable):
        async with connect(Access(nats_server.url, SecretStr(make_seed()), ca), GATEWAY, timeout=1.0):
            pass
