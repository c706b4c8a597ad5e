"""Whatever happens to a conversation: every reply is what it has to be, and no agent works twice for it."""

import asyncio
import os
import threading
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager, suppress

import pytest
from prometheus_client import CollectorRegistry
from tests.integration.real_parts import a_process
from tests.integration.workspaces.chat.machine import KEYED, PLAIN, Stage, Talks
from tests.integration.workspaces.lab import environment
from tests.lives import live
from tests.postgres import PostgresServer
from tests.workspaces_world.agent import an_agent

from pallas_postgres.engine import open_engine
from workspaces.agents.start import open_agents
from workspaces.chat import replies
from workspaces.live.hub import Hub
from workspaces.metrics import make_metrics
from workspaces.mnemosyne.vault import Vault
from workspaces.settings import WorkspacesSettings
from workspaces.stored_settings import default_settings

LIVES = 200 if "PALLAS_TEST_SEED" in os.environ else 20


@contextmanager
def a_stage(database: str) -> Generator[Stage]:
    """What replicas share, in a thread of its own."""
    begun, stop = threading.Event(), asyncio.Event()
    stages = list[Stage]()

    async def live() -> None:
        given = WorkspacesSettings.from_env(environment(postgres_url=database))
        metrics, hub = make_metrics(CollectorRegistry()), Hub(database)
        engine = open_engine(database, pool=20, service="tests")
        async with AsyncExitStack() as stack:
            stack.push_async_callback(engine.dispose)
            process = a_process("workspaces")
            await stack.enter_async_context(process.running(hub.run(), "hub"))
            await hub.heard()
            opened = open_agents(given, process, Vault.of(given), engine, hub, metrics)
            agents = await stack.enter_async_context(opened)
            peers = {
                name: await stack.enter_async_context(an_agent(name, keeps_keys=name == KEYED))
                for name in (KEYED, PLAIN)
            }
            loop = asyncio.get_running_loop()
            stages.append(Stage(loop, engine, database, metrics, agents, default_settings(given), peers))
            begun.set()
            await stop.wait()
            assert not process.failed.is_set()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        assert begun.wait(60)
        yield stages[0]
    finally:
        with suppress(IndexError):
            stages[0].loop.call_soon_threadsafe(stop.set)
        thread.join(60)


@pytest.fixture
def soon_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost replica is noticed at once."""
    monkeypatch.setattr(replies, "GONE_SECONDS", 0.1)
    monkeypatch.setattr(replies, "LOOK_SECONDS", 0.05)


@pytest.mark.timeout(600)
def test_a_conversation_keeps_its_rules_in_every_order_of_events(
    postgres: PostgresServer, model: str, soon_gone: None
) -> None:
    database = asyncio.run(postgres.new_database(like=model))
    with a_stage(database) as stage:
        live(Talks, stage, lives=LIVES, steps=15)
