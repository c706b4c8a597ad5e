"""Hostile definitions of one team do not stop the gateway that serves all."""

import asyncio
import json
import logging
from typing import Any, Literal

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.descriptors import no_new_files
from tests.e2e import wire
from tests.embedded import accepts, free_port
from tests.hostile import SCHEMAS, definitions, doubling
from tests.integration.agent_gateway.conftest import Platform, error_of
from tests.integration.real_parts import Front
from tests.waiting import eventually, loop_lag, soon

from pallas_bus.streams import bucket_subject
from pallas_cli.stack.ports import is_free
from pallas_contracts.catalog import AGENTS

MOST_LAG = 1.0
"""Seconds of a processor that may pass before the event loop calls back."""


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("prompts/list", {}),
    ("tools/call", {"name": "get_health", "arguments": {}}),
    ("tools/call", {"name": "say", "arguments": {"text": "a" * 50, "other": [{"a": {"a": 1}}]}}),
]


async def write(platform: Platform, agent: str, data: bytes) -> None:
    """Put bytes into the catalogue, with the rights of the team's worker."""
    await platform.bus.put(bucket_subject(AGENTS, AGENTS.key.subject(team=platform.team, agent=agent)), data)


async def write_tool(platform: Platform, agent: str, schema: Any, **fields: Any) -> None:
    tool = {"name": "say", "input_schema": schema}
    definition = {"team": platform.team, "agent": agent, "title": agent, "updated_at": "2026-01-01T00:00:00Z"}
    await write(platform, agent, json.dumps({**definition, "tools": [tool], **fields}).encode())


async def ask(front: Front, http: httpx.AsyncClient, *requests: tuple[str, str, dict[str, Any]]) -> None:
    """Send requests (URL, method, params) until each is answered or is a turn. No worker has these agents."""

    async def send(url: str, method: str, params: dict[str, Any]) -> None:
        body, headers = wire.modern(method, params)
        assert (await http.post(url, json=body, headers=headers)).status_code in (200, 400, 403)

    sent = [asyncio.create_task(send(*request)) for request in requests]
    await eventually(lambda: sum(it.done() for it in sent) + front.counted("pallas_turns_in_flight") >= len(sent))
    for task in sent:
        task.cancel()
    assert [it for it in await asyncio.gather(*sent, return_exceptions=True) if isinstance(it, AssertionError)] == []


async def answers(front: Front, platform: Platform) -> None:
    """Fail unless the agent of another team is still served."""
    async with front.client(platform.team, "bench") as client:
        assert not (await soon(client.call_tool("say", {"text": "hello"}))).is_error
    assert not front.process.failed.is_set()
    assert front.process.probes.missing() == {}


@pytest.fixture
async def front(platform: Platform) -> Front:
    """A gateway that binds dedicated ports, with an agent of a worker."""
    await platform.worker()
    front = await platform.gateway(agent_ports="true")
    await platform.served(front)
    return front


async def test_no_definition_of_one_team_stops_the_agents_of_another(
    platform: Platform, front: Front, http: httpx.AsyncClient
) -> None:
    written: list[bytes] = []

    @settings(
        derandomize=True,
        deadline=None,
        max_examples=40,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.data())
    def generate(data: st.DataObject) -> None:
        written.append(data.draw(definitions(platform.team, f"h{len(written)}")))

    generate()
    for number, data in enumerate(written):
        await write(platform, f"h{number}", data)
    await platform.served(front, f"h{len(written) - 1}")

    urls = [front.url(platform.team, f"h{number}") for number in range(len(written))]
    await ask(front, http, *((url, *request) for url in urls for request in REQUESTS))
    await answers(front, platform)


async def test_no_schema_blocks_the_event_loop(platform: Platform, front: Front, http: httpx.AsyncClient) -> None:
    arguments = {"text": "ab" * 100_000, "a": {"a": {"a": [1] * 1000}}}
    with loop_lag() as lags:
        for number, schema in enumerate(SCHEMAS):
            await write_tool(platform, f"h{number}", schema)
        await platform.served(front, f"h{len(SCHEMAS) - 1}")
        urls = [front.url(platform.team, f"h{number}") for number in range(len(SCHEMAS))]
        params = {"name": "say", "arguments": arguments}
        await ask(front, http, *((url, "tools/call", params) for url in urls))
    assert max(lags) < MOST_LAG
    await answers(front, platform)


@pytest.mark.parametrize(
    ("schema", "fields", "reason"),
    [
        ({"$ref": "http://127.0.0.1:1/x"}, {}, "tool 'say': input_schema/$ref: only a $ref to a place in the same"),
        ({}, {"port": 70_000}, "port: Input should be less than or equal to 65535"),
        ({}, {"port": 22}, "port: Input should be greater than or equal to 1024"),
        ({"type": "string"}, {}, "tools.0.input_schema: type: Input should be 'object'"),
        ({}, {"prompts": [{"name": "p", "arguments": [{"name": 5}]}]}, "prompts.0.arguments.0: name: Input should be"),
        (
            {},
            {"tools": [{"name": "say", "icons": [{"src": 5}]}]},
            "tools.0.icons.0: src: Input should be a valid",
        ),
    ],
)
async def test_a_call_of_an_agent_with_an_unusable_definition_gets_the_reason(
    platform: Platform, front: Front, schema: Any, fields: dict[str, Any], reason: str
) -> None:
    await write_tool(platform, "broken", schema, **fields)
    await platform.served(front, "broken")
    async with front.client(platform.team, "broken") as client:
        result = await client.call_tool("say", {})
        assert error_of(result) == {"code": "agent_failed", "retryable": True, "retry_after_ms": 5000}
        assert reason in str(result.content)
    await answers(front, platform)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_agent_whose_tools_cannot_be_listed_has_its_health_and_answers_calls_with_the_reason(
    platform: Platform, front: Front, era: Literal["auto", "legacy"]
) -> None:
    await write_tool(platform, "broken", {}, tools=[{"name": "say", "annotations": {"readOnlyHint": "perhaps"}}])
    await platform.served(front, "broken")
    async with front.client(platform.team, "broken", era) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["get_health"]
        assert (await client.list_prompts()).prompts == []
        result = await client.call_tool("say", {})
    assert error_of(result) == {"code": "agent_failed", "retryable": True, "retry_after_ms": 5000}
    assert "tools.0.annotations: readOnlyHint: Input should be a valid boolean" in str(result.content)


async def test_a_schema_without_a_type_is_listed_in_every_era(platform: Platform, front: Front) -> None:
    await write_tool(platform, "plain", {"required": ["text"]})
    await platform.served(front, "plain")
    for era in ("auto", "legacy"):
        async with front.client(platform.team, "plain", era) as client:
            say, _ = (await client.list_tools()).tools
            assert say.input_schema == {"type": "object", "required": ["text"]}


async def test_a_port_for_which_there_is_no_descriptor_is_tried_again(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    front = await platform.gateway(agent_ports="true")
    await write_tool(platform, "early", {})
    await platform.served(front, "early")
    port = free_port()

    def refusals() -> int:
        logged = [it for it in caplog.records if it.message.startswith("dedicated port not available")]
        return [vars(it)["agent"] for it in logged].count(f"{platform.team}.late")

    with caplog.at_level(logging.INFO), no_new_files():
        await write_tool(platform, "late", {}, port=port)
        await eventually(lambda: refusals() > 0)
    await eventually(lambda: accepts(port))
    assert refusals() == 1
    await platform.worker()  # only now: without descriptors it could not read its folder, and would publish it again
    await platform.served(front)
    await answers(front, platform)


async def test_one_team_gets_some_ports_and_no_reserved_one_and_the_gateway_goes_on(platform: Platform) -> None:
    await platform.worker()
    reserved, ports = free_port(), [free_port() for _ in range(6)]
    for number, port in enumerate((reserved, *ports)):
        await write_tool(platform, f"p{number}", {}, port=port)
    settings = {"reserved_ports": f"{free_port()}, {reserved}", "max_agent_ports_per_team": "4"}
    front = await platform.gateway(agent_ports="true", **settings)
    await platform.served(front, "p6")

    def bound() -> dict[str, int]:
        held = (it.ports for it in platform.gateways.values() if it.gateway == front.process.instance)
        ours = (entry for ports in held for entry in ports.items())
        return {agent: port for key, port in ours for team, _, agent in [key.partition(".")] if team == platform.team}

    await eventually(lambda: bound() == {f"p{it}": ports[it - 1] for it in range(1, 5)})
    assert is_free(reserved)
    await platform.retire("p2")
    await eventually(lambda: "p5" in bound())
    async with front.client(platform.team, "p6") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["say", "get_health"]
    await answers(front, platform)


async def test_arguments_that_take_too_long_to_check_are_refused(platform: Platform, front: Front) -> None:
    await write_tool(platform, "slow", doubling(60))
    await platform.served(front, "slow")
    async with front.client(platform.team, "slow") as client:
        result = await client.call_tool("say", {"text": 7})
    assert error_of(result) == {"code": "invalid_arguments", "retryable": False}
    assert "there is too much in them to check it" in str(result.content)


@pytest.mark.parametrize(
    ("schema", "item", "count"),
    [
        ({"items": {}}, b"0", 5_500_000),
        ({"items": {"properties": {"x": {}}}}, b"{}", 2_000_000),
        ({"items": {}}, b"[" * 100 + b"]" * 100, 40_000),
    ],
)
async def test_arguments_of_millions_of_values_are_refused_and_the_loop_goes_on(
    platform: Platform, front: Front, http: httpx.AsyncClient, schema: Any, item: bytes, count: int
) -> None:
    await write_tool(platform, "large", {"properties": {"a": schema}})
    await platform.served(front, "large")
    body, headers = wire.modern("tools/call", {"name": "say", "arguments": {"a": ["here"]}})
    headers["content-type"] = "application/json"
    content = json.dumps(body).encode().replace(b'"here"', b",".join([item] * count))
    with loop_lag() as lags:
        answer = await http.post(front.url(platform.team, "large"), content=content, headers=headers)
    assert max(lags) < MOST_LAG
    assert "more than 200,000 values" in answer.text
    await answers(front, platform)
