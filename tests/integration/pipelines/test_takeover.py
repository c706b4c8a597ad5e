"""A replica is lost in the middle of an execution: another one goes on, and calls nothing again."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.integration.pipelines.lab import NUMBER, Lab, chain
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import until
from tests.requirements import requirement
from tests.waiting import eventually, soon

from pallas_contracts.agents import Limits
from pallas_contracts.turns import Claimed, Result, TurnRequested
from pallas_turns.claims import TurnRef, claim_state
from pallas_turns.expiry import expire_content
from pallas_turns.model import Observer, Refusal, TurnEnd
from pallas_turns.queue import ACK_WAIT


@dataclass
class Gate:
    """A tool that waits until the test lets it go on."""

    reached: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    open: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.reached.release()
        await self.open.acquire()
        return {"number": arguments["number"] + 1}


@dataclass
class Two:
    """Two replicas as processes."""

    lab: Lab
    folder: Path
    stack: AsyncExitStack
    running: dict[str, Service] = field(default_factory=dict[str, Service])
    started: int = 0

    async def start(self) -> None:
        """Start one more."""
        self.started += 1
        made = a_service("pipelines", self.lab.nats_url, self.folder, f"pipelines-{self.started}", content_seconds="1")
        service = await self.stack.enter_async_context(made)
        await service.ready()
        self.running[service.instance] = service

    async def kill(self, request: TurnRequested) -> None:
        """Kill the one that has a turn."""
        claim = (await claim_state(self.lab.bus, TurnRef.of(request))).claim
        assert isinstance(claim, Claimed)
        service = self.running.pop(claim.worker)
        service.send(signal.SIGKILL)
        await service.process.wait()


@pytest.fixture
async def two(lab: Lab, tmp_path: Path) -> AsyncGenerator[Two]:
    """Two replicas that are ready."""
    async with AsyncExitStack() as stack:
        replicas = Two(lab, tmp_path, stack)
        await asyncio.gather(replicas.start(), replicas.start())
        yield replicas


class Caller(Observer):
    """A caller who leaves."""

    def caller_left(self) -> bool:
        return True


async def follow(lab: Lab, request: TurnRequested) -> "asyncio.Task[TurnEnd | Refusal]":
    calls = await lab.calls()
    return asyncio.create_task(calls.call(request, Limits(turn_timeout=60.0), Caller()))


@requirement("C-run-2")
async def test_each_replica_is_killed_and_the_content_of_the_calls_has_expired(lab: Lab, two: Two) -> None:
    gate = Gate()
    lab.counted.tool("gate", gate, answers=NUMBER)
    await lab.host(content_seconds=0.5)
    expiring = lab.bus.spawn(expire_content(lab.bus))
    request = lab.request("execute", {"source": chain(lab.counted.namespace, ["gate"] * 3), "inputs": {"x": 1}})
    following = await follow(lab, request)
    for _ in range(3):
        await soon(gate.reached.acquire(), 30.0)
        another = asyncio.create_task(two.start())
        await two.kill(request)
        gate.open.release()
        await another
    end = await soon(following, 30.0)
    expiring.cancel()
    assert isinstance(end, TurnEnd)
    assert isinstance(end.answer, Result)
    assert end.answer.structured["outputs"] == {"result": 4}
    assert end.outcome.attempt > 1
    assert lab.counted.calls == {"gate": 3}


async def test_an_execution_that_nobody_follows_goes_on_when_a_replica_starts(lab: Lab, tmp_path: Path) -> None:
    gate = Gate()
    lab.counted.tool("gate", gate, answers=NUMBER)
    await lab.host()
    async with AsyncExitStack() as stack:
        replicas = Two(lab, tmp_path, stack)
        await replicas.start()
        source = chain(lab.counted.namespace, ["gate"] * 2)
        followed = await lab.start("execute", {"source": source, "inputs": {"x": 1}})
        await soon(gate.reached.acquire(), 30.0)
        await replicas.kill(followed.request)
        gate.open.release()
        gate.open.release()
        await replicas.start()
        assert (await followed.outcome(ACK_WAIT / 2)).status == "completed"
    assert lab.counted.calls == {"gate": 2}


@requirement("C-run-3")
async def test_a_cancelled_execution_whose_replica_is_killed_leaves_no_calls_behind(lab: Lab, two: Two) -> None:
    gate = Gate()
    lab.counted.tool("gate", gate, answers=NUMBER)
    await lab.host()
    names = [f"v{n}" for n in range(64)]
    lines = [
        "in x: Int",
        *(f"{name} = {lab.counted.namespace}.gate(x)" for name in names),
        *(f"out {it}" for it in names),
    ]
    request = lab.request("execute", {"source": "\n".join(lines), "inputs": {"x": 1}})
    following = await follow(lab, request)
    await eventually(lambda: lab.counted.calls["gate"] == 64, 30.0)
    claim = (await claim_state(lab.bus, TurnRef.of(request))).claim
    assert isinstance(claim, Claimed)
    two.running[claim.worker].send(signal.SIGSTOP)
    following.cancel()

    async def is_cancelled() -> bool:
        return not isinstance((await claim_state(lab.bus, TurnRef.of(request))).claim, Claimed)

    await until(is_cancelled)
    two.running[claim.worker].send(signal.SIGKILL)
    await lab.children_end(request, "cancelled", 64)


async def test_a_draining_replica_gives_executions_back_while_their_calls_run(lab: Lab) -> None:
    gate = Gate()
    lab.counted.tool("gate", gate, answers=NUMBER)
    await lab.host()
    first = await lab.replica()
    await lab.known(first)
    source = chain(lab.counted.namespace, ["gate"] * 2)
    followed = await lab.start("execute", {"source": source, "inputs": {"x": 1}})
    await soon(gate.reached.acquire())
    await lab.known(await lab.replica())
    await soon(first.service.drain())
    gate.open.release()
    gate.open.release()
    assert (await followed.outcome()).status == "completed"
    assert followed.attempts == [1, 2]
    assert lab.counted.calls == {"gate": 2}
