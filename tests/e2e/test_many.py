"""Many concurrent calls at any replica: conversations do not mix, and gateways and workers are interchangeable."""

import asyncio
import json
import signal
from contextlib import ExitStack

import pytest
from tests.e2e.calls import Answer, Line, call
from tests.e2e.lab import Era, Lab
from tests.e2e.turns import Turns
from tests.requirements import requirement
from tests.waiting import Collected, soon

from pallas_contracts.turns import Claimed, TurnClaim

CONVERSATIONS = 50
SLOW = '/tool long_task {"seconds": 2, "steps": 20}\n/say finished'


@requirement("P-2.11", "K-use-1")
async def test_fifty_concurrent_conversations_never_mix(lab: Lab, era: Era) -> None:
    async def converse(number: int) -> list[dict[str, str]]:
        """Make three turns, each with the history of those before, as a chat does."""
        history: list[dict[str, str]] = []
        async with lab.client("plain", era, replica=number % 2) as client:
            for turn in range(3):
                text = f"/say conversation {number} turn {turn}\n/history"
                answer = await call(client, "plain", text, history=history, conversation_id=f"c{number}")
                mine, seen = answer.text.split("\n", 1)
                assert mine == f"conversation {number} turn {turn}"
                assert json.loads(seen) == history
                history += [{"role": "user", "content": text}, {"role": "assistant", "content": mine}]
        return history

    histories = await asyncio.gather(*(converse(number) for number in range(CONVERSATIONS)))
    for number, history in enumerate(histories):
        assert len(history) == 6
        assert all(f"conversation {number} " in row["content"] for row in history)


@pytest.mark.one_era
async def test_progress_goes_to_its_own_call(lab: Lab, era: Era) -> None:
    agents = ["plain", "seer", "reader", "maker"] * 5

    async def ask(agent: str) -> tuple[str, Answer]:
        async with lab.client(agent, era) as client:
            return agent, await call(client, agent, "/sleep 0.1")

    for agent, answer in await asyncio.gather(*map(ask, agents)):
        assert [line for line in answer.messages if line and "queued" not in line] == [f"{agent} step 1 (llm)"]


@requirement("K-shape-2")
async def test_turns_are_executed_by_all_workers(lab: Lab, turns: Turns) -> None:
    def workers(claims: list[TurnClaim]) -> set[str]:
        return {message.claim.worker for message in claims if isinstance(message.claim, Claimed)}

    async with lab.client("plain") as client:

        async def ask_on() -> None:
            while True:
                await asyncio.gather(*(call(client, "plain", "/sleep 0.2") for _ in range(20)))

        asking = asyncio.create_task(ask_on())
        await turns.claims.until(lambda claims: len(workers(claims)) == 2, 30)
        asking.cancel()
        await asyncio.wait({asking})
    ids = [message.turn_id for message in turns.claims.items if isinstance(message.claim, Claimed)]
    assert len(ids) == len(set(ids)), "and each by one of them"


@requirement("K-shape-1", "K-shape-3")
@pytest.mark.one_era
async def test_the_log_has_the_events_of_a_turn_in_order_from_claim_to_outcome(
    lab: Lab, turns: Turns, era: Era
) -> None:
    async with lab.client("maker", era) as client:
        answer = await call(client, "maker", '/tool add {"a": 2, "b": 3}')
    address, _ = await turns.claimed("maker")
    assert address.turn_id == answer.turn
    kinds = [type(message).__name__ for message in await turns.story(address)]
    assert kinds[0] == "Claimed"
    assert kinds[-2:] == ["Result", "TurnOutcome"]
    assert [kind for kind in kinds if kind.startswith(("Step", "Tool"))] == [
        "Step",
        "Step",
        "ToolStarted",
        "ToolCompleted",
        "Step",
    ]


async def test_a_stopping_gateway_finishes_the_turns_it_follows(lab: Lab, era: Era) -> None:
    lines_received = Collected[Line]()
    async with lab.client("maker", era, replica=1) as client:
        await client.list_tools()  # otherwise the client lists tools after its first result, when the gateway has ended
        calling = asyncio.create_task(call(client, "maker", SLOW, lines_received.add))
        await lines_received.until(lambda lines: any("step 1 of 20" in (line.message or "") for line in lines))
        pid = lab.stack.ready()["pids"]["agent-gateway"][1]
        with lab.replaced("agent-gateway", pid, signal.SIGTERM):
            answer = await soon(calling, 30)
    assert answer.text.endswith("finished")


@requirement("P-0.4")
@pytest.mark.parametrize("service", ["agent-worker", "agent-gateway", "registry", "health-monitor", "nats-server"])
@pytest.mark.one_era
async def test_a_restart_of_a_service_does_not_affect_conversations(lab: Lab, era: Era, service: str) -> None:
    history = [{"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": "Hello Ada."}]
    with ExitStack() as all_at_once:
        for pid in lab.stack.ready()["pids"][service]:
            all_at_once.enter_context(lab.replaced(service, pid, signal.SIGKILL))
    async with lab.client("plain", era) as client:
        answer = await call(client, "plain", "/history", history=history)
    assert json.loads(answer.text) == history
