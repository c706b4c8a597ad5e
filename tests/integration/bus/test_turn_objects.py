"""Content that is too big for a message is offloaded to a real broker and read back."""

from collections.abc import AsyncGenerator

import pytest
from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.turns import result

from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY, OBJECT_PART, TURN_OBJECTS
from pallas_contracts.errors import NotFound, Rejected
from pallas_turns.claims import TurnRef
from pallas_turns.content import (
    MAX_OFFLOADED,
    OFFLOAD_ABOVE,
    PART,
    drop,
    fetch,
    objects_of,
    offload,
    offload_request,
    offload_result,
    whole_request,
    whole_result,
)

BIG = "ü" * OFFLOAD_ABOVE


@pytest.fixture
async def store(bus: Connecting) -> Bus:
    """A connection to a broker that stores objects."""
    connection = await bus(GATEWAY)
    await declare(connection, TURN_OBJECTS)
    return connection


@pytest.fixture
async def small_store(bus: Connecting) -> AsyncGenerator[Bus]:
    """A connection to a broker with a small message limit."""
    with NatsServer(max_payload="64KB") as server:
        connection = await bus(GATEWAY, url=server.url)
        await declare(connection, TURN_OBJECTS)
        yield connection


async def sizes(bus: Bus, ref: TurnRef) -> list[int]:
    """The sizes of all parts that the turn has."""
    return [len(record.data) async for record in read(bus, TURN_OBJECTS.name, objects_of(ref))]


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 9 * PART + 5])
async def test_offloaded_content_of_any_size_is_read_back(store: Bus, team: str, size: int) -> None:
    ref, data = TurnRef.of(turn_requested(team)), bytes(range(256)) * (size // 256 + 1)
    stowed = await offload(store, ref, "request", data[:size])
    assert stowed.parts == -(-size // PART)
    assert await fetch(store, ref, stowed) == data[:size]
    assert sum(await sizes(store, ref)) == size


async def test_offloaded_parts_fit_the_message_limit_of_the_broker(small_store: Bus, team: str) -> None:
    ref = TurnRef.of(turn_requested(team))
    stowed = await offload(small_store, ref, "request", b"x" * 200_000)
    assert max(await sizes(small_store, ref)) < 64 * 1024
    assert await fetch(small_store, ref, stowed) == b"x" * 200_000


async def test_offloading_again_replaces_the_earlier_content(store: Bus, team: str) -> None:
    ref = TurnRef.of(turn_requested(team))
    await offload(store, ref, "request", b"x" * (PART + 1))
    stowed = await offload(store, ref, "request", b"y" * (PART + 1))
    assert await sizes(store, ref) == [PART, 1]
    assert await fetch(store, ref, stowed) == b"y" * (PART + 1)


async def test_dropping_offloaded_content_removes_only_that_content(store: Bus, team: str) -> None:
    mine, other = TurnRef.of(turn_requested(team)), TurnRef.of(turn_requested(team))
    stowed = [await offload(store, ref, "request", b"z" * (PART + 1)) for ref in (mine, other)]
    await drop(store, mine)
    with pytest.raises(NotFound) as until_content_gone:
        await fetch(store, mine, stowed[0])
    assert until_content_gone.value.code == "content_expired"
    assert await fetch(store, other, stowed[1])


async def test_a_corrupt_part_is_detected(store: Bus, team: str) -> None:
    ref = TurnRef.of(turn_requested(team))
    stowed = await offload(store, ref, "request", b"a" * (PART + 9))
    names = {"team": ref.team, "agent": ref.agent, "turn": ref.turn_id}
    await store.put(OBJECT_PART.template.subject(**names, name="request", part="1"), b"b" * 9)
    with pytest.raises(Rejected) as damaged:
        await fetch(store, ref, stowed)
    assert damaged.value.code == "content_damaged"


async def test_small_requests_and_answers_are_not_offloaded(store: Bus, team: str) -> None:
    request = turn_requested(team)
    assert await offload_request(store, request) is request
    assert await whole_request(store, request) is request
    answer = result("hello")
    assert await offload_result(store, TurnRef.of(request), 1, answer, ttl=60) is answer


async def test_a_big_request_is_offloaded_and_restored(store: Bus, team: str) -> None:
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


async def test_a_big_answer_is_offloaded_and_restored(store: Bus, team: str) -> None:
    ref = TurnRef.of(turn_requested(team))
    answer = result(BIG).model_copy(update={"structured": {"n": 1}, "meta": {"k": "v"}, "is_error": True})
    light = await offload_result(store, ref, 2, answer, ttl=60)
    assert len(light.model_dump_json()) < 2000
    assert light.is_error
    assert await whole_result(store, ref, light) == answer


async def test_an_answer_over_the_size_limit_is_rejected(store: Bus, team: str) -> None:
    with pytest.raises(Rejected) as refused:
        await offload_result(store, TurnRef.of(turn_requested(team)), 1, result("x" * MAX_OFFLOADED), ttl=60)
    assert refused.value.code == "too_large"
