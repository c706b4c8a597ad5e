"""Dead letters on a real stream: kept once, read, forgotten, dropped."""

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError
from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.real_parts import until

from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_contracts.catalog import DEAD_LETTER, DEAD_LETTERS, GATEWAY
from pallas_contracts.errors import Rejected
from pallas_contracts.ids import new_turn_id
from pallas_contracts.turns import DeadLetter, TurnRequested
from pallas_turns.dead_letters import (
    dead_letter,
    drop_letter,
    faults_of,
    forget_original,
    keep_letter,
    read_letter,
    read_letters,
    turn_id_of,
)
from pallas_turns.queue import Delivery

BODY = b'{"team": "studio", "arguments": "a secret"}'


@pytest.fixture
async def gateway(bus: Connecting) -> Bus:
    """A connection, with the stream declared."""
    connection = await bus(GATEWAY)
    await declare(connection, DEAD_LETTERS)
    return connection


def delivered(bus: Bus, body: bytes = BODY, *, position: int = 7, turn_id: str | None = None) -> Delivery:
    """A delivery to a worker."""
    headers = {"Nats-Msg-Id": f"turn.requested:{turn_id}"} if turn_id else {}
    subject, now = "pallas.v1.turn.requested.studio.harper.somebody", datetime.now(UTC)
    return Delivery(bus, body, headers, "", 1, 0, subject, position, now)


async def kept(bus: Bus, team: str, *, seconds: float = 60.0, agent: str = "harper") -> DeadLetter:
    """A dead letter of a new turn."""
    turn_id = new_turn_id()
    delivery = delivered(bus, turn_id=turn_id)
    letter = dead_letter(delivery, turn_id, team=team, agent=agent, code="undecodable", reason="tool: Field required")
    assert await keep_letter(bus, letter, delivery, seconds=seconds) == letter
    return letter


async def listed(bus: Bus, team: str, **ids: str) -> list[tuple[str, bool]]:
    """The names of the team's dead letters, and whether their originals still exist."""
    letters = await read_letters(bus, since=datetime.now(UTC) - timedelta(minutes=5), team=team, **ids)
    return [(each.letter.letter, each.has_original) for each in letters]


async def test_a_dead_letter_is_kept_with_its_original_message(gateway: Bus, team: str) -> None:
    letter = await kept(gateway, team)
    found = await read_letter(gateway, letter.letter)
    assert found is not None
    assert found[0] == letter
    assert found[1] is not None
    assert base64.b64decode(found[1].data) == BODY
    assert found[1].headers == {"Nats-Msg-Id": f"turn.requested:{letter.turn_id}"}
    assert "secret" not in letter.model_dump_json()


async def test_keeping_a_dead_letter_again_does_not_restore_its_forgotten_original(gateway: Bus, team: str) -> None:
    letter = await kept(gateway, team)
    delivery = delivered(gateway, turn_id=letter.turn_id)
    assert await forget_original(gateway, letter.letter)
    assert await keep_letter(gateway, letter, delivery, seconds=60.0) is None
    assert await listed(gateway, team) == [(letter.letter, False)]
    assert not await forget_original(gateway, letter.letter)


async def test_a_dead_letter_is_recognised_beyond_the_window_of_duplicates(
    nats_server: NatsServer, bus: Connecting, team: str
) -> None:
    own = await bus(GATEWAY, url=nats_server.url)
    await declare(own, replace(DEAD_LETTERS, duplicate_window=0.1))
    letter = await kept(own, team)
    await forget_original(own, letter.letter)
    probe = DEAD_LETTER.template.subject(team="probe", agent="probe", letter="probe")

    async def window_is_over() -> bool:
        return not (await own.put(probe, b"{}", {"Nats-Msg-Id": f"dead.letter:{letter.letter}"})).duplicate

    await until(window_is_over)
    assert await keep_letter(own, letter, delivered(own), seconds=60.0) is None
    assert await listed(own, team) == [(letter.letter, False)]


async def test_dead_letters_are_listed_by_team_and_agent_oldest_first(gateway: Bus, team: str) -> None:
    first, other = await kept(gateway, team), await kept(gateway, team, agent="research")
    second = await kept(gateway, team)
    assert await listed(gateway, team) == [(first.letter, True), (other.letter, True), (second.letter, True)]
    assert await listed(gateway, team, agent="harper") == [(first.letter, True), (second.letter, True)]


async def test_an_original_expires_and_its_dead_letter_stays(gateway: Bus, team: str) -> None:
    letter = await kept(gateway, team, seconds=0.0)

    async def expired() -> bool:
        return await listed(gateway, team) == [(letter.letter, False)]

    await until(expired)
    assert await read_letter(gateway, letter.letter) == (letter, None)


async def test_dropping_a_dead_letter_removes_its_original_too(gateway: Bus, team: str) -> None:
    letter, stays = await kept(gateway, team), await kept(gateway, team)
    await drop_letter(gateway, letter)
    await drop_letter(gateway, letter)
    assert await read_letter(gateway, letter.letter) is None
    assert await listed(gateway, team) == [(stays.letter, True)]


async def test_a_message_too_large_to_keep_becomes_a_dead_letter_that_says_so(gateway: Bus, team: str) -> None:
    delivery = delivered(gateway, b"x" * gateway.max_payload, turn_id=new_turn_id())
    turn_id = turn_id_of(delivery)
    letter = dead_letter(delivery, turn_id, team=team, agent="harper", code="undecodable", reason="no JSON")
    stored = await keep_letter(gateway, letter, delivery, seconds=60.0)
    assert stored is not None
    assert stored.reason == "no JSON; its message is too large to be kept"
    assert await read_letter(gateway, letter.letter) == (stored, None)


async def test_a_dead_letter_without_a_turn_is_named_after_its_position_in_the_queue(gateway: Bus) -> None:
    delivery = delivered(gateway, b"junk", position=12)
    letter = dead_letter(delivery, turn_id_of(delivery), team="t", agent="a", code="undecodable", reason="no JSON")
    assert (letter.letter, letter.turn_id) == ("position-12", None)


async def test_the_turn_id_of_a_dead_letter_comes_from_the_body_or_the_message_id(gateway: Bus) -> None:
    assert turn_id_of(delivered(gateway, b'{"turn_id": "t1"}', turn_id="t2")) == "t1"
    assert turn_id_of(delivered(gateway, b'{"turn_id": 7}', turn_id="t2")) == "t2"
    assert turn_id_of(delivered(gateway, b"[" * 100_000, turn_id="t2")) == "t2"
    assert turn_id_of(delivered(gateway, b"junk", turn_id="not a token")) is None
    assert turn_id_of(delivered(gateway, b'{"turn_id": "../x"}')) is None


async def test_an_invalid_name_of_a_dead_letter_is_rejected(gateway: Bus) -> None:
    with pytest.raises(Rejected, match="letter '>' must be"):
        await read_letter(gateway, ">")
    assert await read_letter(gateway, "unknown") is None


def test_faults_name_fields_and_reasons_but_no_values() -> None:
    body = turn_requested("studio").model_dump(mode="json")
    body |= {"turn_id": "A Secret", "principal": {"type": "secret"}, "requested_at": "secret"}
    with pytest.raises(ValidationError) as refused:
        TurnRequested.model_validate(body)
    faults = faults_of(refused.value)
    assert "principal.type: Input should be 'peer'" in faults
    assert faults.count(";") == 2
    assert "secret" not in faults.lower()
    with pytest.raises(ValidationError) as refused:
        TurnRequested.model_validate_json(b"\xff secret")
    assert faults_of(refused.value).startswith("message: Invalid JSON")
