"""What is too big for a message, put beside a real log and read again."""

from collections.abc import AsyncGenerator

import pytest
from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.turns import result

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.content.claim_checks import (
    MAX_OFFLOADED,
    OFFLOAD_ABOVE,
    offload_request,
    offload_result,
    whole_request,
    whole_result,
)
from pallas_bus.turnlog.content.objects import (
    PART,
    drop,
    fetch,
    objects_of,
    offload,
)
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import GATEWAY, OBJECT_PART, TURN_OBJECTS
from pallas_contracts.errors import NotFound, Rejected

BIG = "ü" * OFFLOAD_ABOVE


@pytest.fixture
async def store(bus: Connecting) -> Bus:
    """A connection to a broker that stores objects."""
    connection = await bus(GATEWAY)
    await declare(connection, TURN_OBJECTS)
    return connection


@pytest.fixture
async def small_store(bus: Connecting) -> AsyncGenerator[Bus]:
    """The same to a broker that takes little at a time."""
    with NatsServer(max_payload="64KB") as server:
        connection = await bus(GATEWAY, url=server.url)
        await declare(connection, TURN_OBJECTS)
        yield connection


async def sizes(bus: Bus, ref: TurnRef) -> list[int]:
    """The sizes of all parts that the turn has."""
    return [len(record.data) async for record in read(bus, TURN_OBJECTS.name, objects_of(ref))]


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 9 * PART + 5])
async def test_what_is_stowed_is_read_again_whatever_its_size(store: Bus, team: str, size: int) -> None:
    ref, data = TurnRef.of(turn_requested(team)), bytes(range(256)) * (size // 256 + 1)
    stowed = await offload(store, ref, "request", data[:size])
    assert stowed.parts == -(-size // PART)
    assert await fetch(store, ref, stowed) == data[:size]
    assert sum(await sizes(store, ref)) == size


async def test_parts_are_as_small_as_the_broker_wants_them(small_store: Bus, team: str) -> None:
    ref = TurnRef.of(turn_requested(team))
    stowed = await offload(small_store, ref, "request", b"x" * 200_000)
    assert max(await sizes(small_store, ref)) < 64 * 1024
    assert await fetch(small_store, ref, stowed) == b"x" * 200_000


async def test_to_stow_again_replaces_what_was_there(store: Bus, team: str) -> None:
    ref = TurnRef.of(turn_requested(team))
    await offload(store, ref, "request", b"x" * (PART + 1))
    stowed = await offload(store, ref, "request", b"y" * (PART + 1))
    assert await sizes(store, ref) == [PART, 1]
    assert await fetch(store, ref, stowed) == b"y" * (PART + 1)


async def test_what_was_dropped_is_gone_and_nothing_else(store: Bus, team: str) -> None:
    mine, other = TurnRef.of(turn_requested(team)), TurnRef.of(turn_requested(team))
    stowed = [await offload(store, ref, "request", b"z" * (PART + 1)) for ref in (mine, other)]
    await drop(store, mine)
    with pytest.raises(NotFound) as gone:
        await fetch(store, mine, stowed[0])
    assert gone.value.code == "content_expired"
    assert await fetch(store, other, stowed[1])


async def test_a_part_that_is_not_what_was_put_there_is_found_out(store: Bus, team: str) -> None:
    ref = TurnRef.of(turn_requested(team))
    stowed = await offload(store, ref, "request", b"a" * (PART + 9))
    names = {"team": ref.team, "agent": ref.agent, "turn": ref.turn_id}
    await store.put(OBJECT_PART.template.subject(**names, name="request", part="1"), b"b" * 9)
    with pytest.raises(Rejected) as damaged:
        await fetch(store, ref, stowed)
    assert damaged.value.code == "content_damaged"


async def test_a_small_request_and_a_small_answer_travel_as_they_are(store: Bus, team: str) -> None:
    request = turn_requested(team)
    assert await offload_request(store, request) is request
    assert await whole_request(store, request) is request
    said = result("hello")
    assert await offload_result(store, TurnRef.of(request), 1, said, ttl=60) is said


async def test_a_big_request_travels_light_and_is_whole_again(store: Bus, team: str) -> None:
    request = turn_requested(team, arguments={"message": BIG, "conversation_id": "c-1"}).model_copy(
        update={"correlation": "c-1", "input_responses": {"q": {"a": 1}}, "request_state": "sealed"}
    )
    light = await offload_request(store, request)
    assert len(light.model_dump_json()) < 2000
    assert light.arguments == {"conversation_id": "c-1"}
    assert (light.input_responses, light.request_state) == (None, None)
    assert await whole_request(store, light) == request
    assert light.stowed is not None
    assert b"c-1" not in await fetch(store, TurnRef.of(request), light.stowed)


async def test_a_request_that_is_too_big_without_its_arguments_is_rejected(store: Bus, team: str) -> None:
    request = turn_requested(team).model_copy(update={"correlation": BIG})
    with pytest.raises(Rejected) as refused:
        await offload_request(store, request)
    assert refused.value.code == "too_large"


async def test_a_big_answer_travels_light_and_is_whole_again(store: Bus, team: str) -> None:
    ref = TurnRef.of(turn_requested(team))
    said = result(BIG).model_copy(update={"structured": {"n": 1}, "meta": {"k": "v"}, "is_error": True})
    light = await offload_result(store, ref, 2, said, ttl=60)
    assert len(light.model_dump_json()) < 2000
    assert light.is_error
    assert await whole_result(store, ref, light) == said


async def test_an_answer_that_is_larger_than_the_platform_takes_is_rejected(store: Bus, team: str) -> None:
    with pytest.raises(Rejected) as refused:
        await offload_result(store, TurnRef.of(turn_requested(team)), 1, result("x" * MAX_OFFLOADED), ttl=60)
    assert refused.value.code == "too_large"
