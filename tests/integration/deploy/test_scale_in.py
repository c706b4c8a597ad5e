"""Scaling in interrupts no turn: workers that Kubernetes ends finish their turns and take no new ones."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.deployment.kubernetes import Object, pods, variables
from tests.integration.agent_worker.lab import Followed, Lab
from tests.integration.deploy.pod_end import end_pod
from tests.integration.processes import Service, a_service

from pallas_bus.streams import declare
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS
from pallas_contracts.turns import Claimed
from pallas_runtime.settings import variable
from pallas_turns.feeds import follow_turns

OF_THE_POD = ("drain_seconds", "slots")
"""The settings of a worker that come from its manifest and not from this machine."""


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Lab]:
    """A lab whose broker has what gateways declare."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        yield Lab(gateway, feeds, team, tmp_path / "team", stack)


@pytest.fixture
def pod() -> Object:
    """The pod of a worker."""
    return pods("production")["agent-worker"]


async def a_pod(lab: Lab, pod: Object, folder: Path, number: int) -> Service:
    """Start a worker with the variables of its pod."""
    variables_of = {name: variables(pod)[variable(name)] for name in OF_THE_POD}
    running = a_service(
        "agent_worker", lab.bus_url, folder, f"{lab.team}-{number}", teams=str(lab.folder), **variables_of
    )
    return await lab.stack.enter_async_context(running)


async def turns_on_each(lab: Lab, workers: list[Service]) -> dict[str, list[Followed]]:
    """Turns that wait for a file, at least two on each worker; by who runs them."""
    running: dict[str, list[Followed]] = {worker.instance: [] for worker in workers}
    while min(map(len, running.values())) < 2:
        turn = await lab.ask("wait", file=lab.file())
        running[(await turn.until(Claimed)).worker].append(turn)
        await turn.until_waiting()
        assert sum(map(len, running.values())) < 100, "one of the workers takes no turns"
    return running


def release(turns: list[Followed]) -> None:
    """Let turns go on."""
    for turn in turns:
        Path(str(turn.request.arguments["file"])).touch()


async def test_scaling_in_from_three_workers_to_one_finishes_every_turn_at_its_worker(
    lab: Lab, pod: Object, tmp_path: Path
) -> None:
    lab.describe()
    workers = [await a_pod(lab, pod, tmp_path, number) for number in range(3)]
    await asyncio.gather(*(worker.ready() for worker in workers))
    running = await turns_on_each(lab, workers)
    kept, *leaving = workers

    ends = [asyncio.create_task(end_pod(pod, worker)) for worker in leaving]
    await asyncio.gather(*(worker.not_ready() for worker in leaving))
    later = [await lab.ask("wait", file=lab.file()) for _ in range(9)]
    assert {(await turn.until(Claimed)).worker for turn in later} == {kept.instance}
    assert not any(end.done() for end in ends), "they wait for their turns"

    everything = [*later, *(turn for turns in running.values() for turn in turns)]
    release(everything)
    outcomes = [await turn.outcome() for turn in everything]
    assert {(outcome.status, outcome.attempt) for outcome in outcomes} == {("completed", 1)}
    assert await asyncio.gather(*ends) == [0, 0]
    assert kept.process.returncode is None


async def test_a_pod_beyond_its_grace_period_is_killed_and_its_turn_goes_to_another(
    lab: Lab, pod: Object, tmp_path: Path
) -> None:
    lab.describe()
    leaving = await a_pod(lab, pod, tmp_path, 0)
    await leaving.ready()
    turn = await lab.ask("wait", file=lab.file())
    await turn.until_waiting()
    impatient = {**pod, "spec": {**pod["spec"], "terminationGracePeriodSeconds": 1}}

    assert await end_pod(impatient, leaving) == -9
    await (await a_pod(lab, pod, tmp_path, 1)).ready()
    await turn.until_waiting(attempt=2, within=45.0)
    release([turn])
    assert (await turn.outcome()).status == "completed"
