"""The caller of a turn that no worker can read gets an answer, through the whole platform."""

import asyncio
import json

from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import until
from tests.waiting import soon

from pallas_bus.reads import Record, read
from pallas_contracts.catalog import TURN_QUEUE, TURN_REQUESTED
from pallas_turns.dead_letters import read_letter
from pallas_turns.queue import ensure_consumer, queue_state


async def waiting(platform: Platform) -> Record:
    """The message of the one turn that waits for the bench."""
    found: list[Record] = []

    async def look() -> bool:
        subject = TURN_REQUESTED.template.filter(team=platform.team, agent="bench")
        found.extend([record async for record in read(platform.bus, TURN_QUEUE.name, subject)])
        return bool(found)

    await until(look)
    return found[0]


async def test_the_caller_of_an_unreadable_turn_gets_an_error_and_the_message_is_kept(platform: Platform) -> None:
    await platform.publish()
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        calling = asyncio.create_task(client.call_tool("wait", {"file": "x"}))
        record = await waiting(platform)
        turn_id = json.loads(record.data)["turn_id"]
        # As if a gateway of another version had written it.
        await platform.bus.api(f"STREAM.MSG.DELETE.{TURN_QUEUE.name}", {"seq": record.seq})
        await platform.bus.put(record.subject, json.dumps({"turn_id": turn_id, "what": "a secret"}).encode())
        await platform.worker()
        result = await soon(calling)
    assert (result.meta or {})["pallas/error"] == {"code": "undecodable", "retryable": False, "turn_id": turn_id}
    found = await read_letter(platform.bus, turn_id)
    assert found is not None
    assert (found[0].turn_id, found[0].code, found[1] is not None) == (turn_id, "undecodable", True)
    assert "secret" not in f"{result} {found[0]}"

    async def gone() -> bool:
        state = await queue_state(platform.bus, platform.team, "bench")
        return not state.waiting and not state.running

    await until(gone)
