"""Changes are published as events, in order and once, and logged under the names of the contract."""

import asyncio
import json
import logging
import uuid

import pytest
from nats.aio.msg import Msg
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.team_lifecycle.lab import ADMIN, TEAMS, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer
from tests.requirements import requirement
from tests.waiting import Collected, eventually

from pallas_contracts.auth import LifecycleChanged


@pytest.fixture
def lifecycle(own_lifecycle: Lifecycle) -> Lifecycle:
    """A service of this test alone: its first event is the first of the stream."""
    return own_lifecycle


@pytest.fixture
async def published_events(nats_server: NatsServer, bus: Connecting) -> Collected[LifecycleChanged]:
    """The events of the stream `CHANGES` in the order of arrival, each once."""
    listener = await bus("test", url=nats_server.url)
    collected = Collected[LifecycleChanged]()

    async def on_message(message: Msg) -> None:
        event = LifecycleChanged.model_validate_json(message.data)
        assert message.subject == f"pallas.v1.lifecycle.{event.kind}.{event.action}"
        assert (message.headers or {})["Nats-Msg-Id"] == f"lifecycle.changed:{event.number}"
        if event.number not in [known.number for known in collected.items]:
            collected.add(event)

    await listener.subscribe("pallas.v1.lifecycle.>", on_message)
    await listener.client.flush()
    return collected


@requirement("A-13.4.2", "A-8.1.3")
async def test_each_change_of_a_team_has_an_event_and_a_log_line_with_the_request_id(
    published_events: Collected[LifecycleChanged], lifecycle: Lifecycle, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    team_id = str(uuid.uuid4())
    path = f"{TEAMS}{team_id}/"
    calls = [
        ("POST", TEAMS, {"id": team_id, "name": "Kottos"}),
        ("PUT", f"{path}workspaces/", {"workspace_ids": ["ws"]}),
        ("POST", f"{path}rotate/", None),
        ("DELETE", path, None),
    ]
    for number, (method, url, body) in enumerate(calls):
        headers = {"X-Request-ID": f"request-{number}"}
        answer = await lifecycle.daedalus.request(method, url, json=body, headers=headers)
        assert answer.headers["x-request-id"] == f"request-{number}"
    events = [event for event in await published_events.count(5) if event.kind == "team"]
    wanted = ["provisioned", "workspaces_updated", "rotated", "deleted"]
    assert [(event.action, event.correlation) for event in events] == [
        (action, f"request-{number}") for number, action in enumerate(wanted)
    ]
    assert {(event.id, event.actor) for event in events} == {(team_id, "daedalus-service")}
    assert events[1].data == {"name": "Kottos", "active": True, "workspace_ids": ["ws"]}
    lines = {record.message: vars(record) for record in caplog.records if record.message.startswith("pallas_team_")}
    assert list(lines) == [
        "pallas_team_provisioned",
        "pallas_team_workspaces_updated",
        "pallas_team_rotated",
        "pallas_team_deleted",
    ]
    assert [line["correlation"] for line in lines.values()] == [event.correlation for event in events]
    assert {line["team"] for line in lines.values()} == {team_id}


async def test_the_request_id_is_the_trace_id_or_a_generated_one_when_the_caller_sends_none(
    lifecycle: Lifecycle,
) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    traced = await lifecycle.daedalus.get(TEAMS, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert traced.headers["x-request-id"] == trace
    generated = [(await lifecycle.stranger.get(TEAMS)).headers["x-request-id"] for _ in range(2)]
    assert len({*generated}) == 2
    injected = await lifecycle.daedalus.get(TEAMS, headers={"X-Request-ID": "x y"})
    assert injected.headers["x-request-id"] != "x y"


async def test_a_request_that_changes_nothing_publishes_no_event(
    published_events: Collected[LifecycleChanged], lifecycle: Lifecycle
) -> None:
    team_id, _ = await lifecycle.team()
    for _ in range(3):
        await lifecycle.attach(team_id, "b", "a")
        assert (await lifecycle.daedalus.post(TEAMS, json={"id": team_id, "name": "x"})).status_code == 200
    await lifecycle.user("last")
    events = await published_events.until(lambda events: bool(events) and events[-1].kind == "user")
    assert [event.action for event in events] == ["added", "provisioned", "workspaces_updated", "created"]


async def test_event_numbers_of_two_replicas_are_in_order_without_a_gap(
    published_events: Collected[LifecycleChanged], lifecycle: Lifecycle, addresses: dict[str, str]
) -> None:
    async with a_lifecycle(**addresses) as replica:
        await asyncio.gather(*(one.team() for one in [lifecycle, replica] * 10))
        events = await published_events.count(21)
        await eventually(lambda: lifecycle.measured("pallas_lifecycle_unsent_events") == 0)
    assert [event.number for event in events] == list(range(1, 22))
    audit = (await lifecycle.admin.get(f"{ADMIN}/changes?limit=1000")).json()["items"]
    assert [change["number"] for change in audit] == list(range(1, 22))


async def test_an_event_names_the_admin_and_the_user_acted_for(
    published_events: Collected[LifecycleChanged], lifecycle: Lifecycle
) -> None:
    await lifecycle.user("ann", "bob")
    await lifecycle.library("lib", owner="ann")
    await lifecycle.grant("lib", "bob", "reader", by="ann")
    events = await published_events.until(lambda events: bool(events) and events[-1].kind == "membership")
    assert (events[-1].actor, events[-1].action, events[-1].id) == ("admin for ann", "granted", "lib/bob/reader")


@requirement("A-13.3.1", "A-13.3.2")
async def test_events_log_lines_and_the_database_contain_no_secret(
    published_events: Collected[LifecycleChanged],
    lifecycle: Lifecycle,
    caplog: pytest.LogCaptureFixture,
    postgres: PostgresServer,
    addresses: dict[str, str],
) -> None:
    caplog.set_level(logging.DEBUG)
    team_id, jwt = await lifecycle.team()
    rotated = (await lifecycle.daedalus.post(f"{TEAMS}{team_id}/rotate/")).json()["jwt"]
    await lifecycle.user("ann")
    await lifecycle.library("lib", owner="ann")
    token = (await lifecycle.token("ann", "lib")).json()["token"]
    turn_key = (await lifecycle.admin.post(f"{ADMIN}/keys", json={"purpose": "turn"})).json()["secret"]
    assert len(bytes.fromhex(turn_key)) == 32
    wrong = ("daedalus-service", "a wrong passphrase")
    assert (await lifecycle.stranger.get(TEAMS, auth=wrong)).status_code == 401
    assert (await lifecycle.token("ann", "lib", name=f"{token}\n", by="ann")).status_code == 422
    await published_events.count(7)
    tables = ("teams", "tokens", "signing_keys", "changes", "users")
    kept = str([await postgres.say(f"select * from {table}", addresses["postgres_url"]) for table in tables])
    shown = "\n".join(
        [*(event.model_dump_json() for event in published_events.items), *map(_record_as_text, caplog.records)]
    )
    for secret in (jwt, rotated, token, turn_key, wrong[1], "correct horse", "battery staple"):
        assert secret not in shown
        assert secret not in kept
    for listing in ("keys", "tokens", "teams/", "changes"):
        listed = (await lifecycle.admin.get(f"{ADMIN}/{listing}")).text
        assert not [secret for secret in (jwt, rotated, token, turn_key) if secret in listed]


def _record_as_text(record: logging.LogRecord) -> str:
    return json.dumps({name: str(value) for name, value in vars(record).items()}) + record.getMessage()
