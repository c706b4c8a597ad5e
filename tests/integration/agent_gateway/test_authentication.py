"""Authentication of callers: requests without a known bearer are refused where one is required, and the bearer goes no
further than the gateway."""

import asyncio
import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from tests.e2e import wire
from tests.embedded import free_port
from tests.integration.agent_gateway.bearers import (
    REQUESTS,
    SAY,
    SECRET,
    TEAM,
    TEAMS,
    TEAMS_OTHER,
    TOKENS,
    TURNS,
    Bearers,
    Sent,
    authorization,
    client,
    header_of,
    posted,
)
from tests.integration.agent_gateway.conftest import Platform, begun
from tests.integration.agent_gateway.keyed import fault, keyed, waiting
from tests.integration.agent_gateway.streams import KEY, Received, counting
from tests.integration.real_parts import Front, until
from tests.requirements import requirement
from tests.waiting import eventually, soon

from pallas_contracts.auth import AUTH_FAILURES
from pallas_contracts.turns import CancelRequested, Principal
from pallas_turns.queue import ensure_consumer

STATE_KEY = "a key that all gateways have, for tests"
LOCAL = Principal(type="peer", id="127.0.0.1")


@pytest.fixture
async def required(platform: Platform, bearers: Bearers) -> Front:
    """A gateway that requires a bearer, with a worker."""
    return await a_front(platform, "required")


async def a_front(platform: Platform, mode: str, **settings: str) -> Front:
    """Run a gateway in that mode, and the first time a worker too."""
    if not platform.folder.exists():
        await platform.worker()
    return await platform.gateway("bench", gateway_auth=mode, log_key=KEY, **settings)


async def test_every_request_without_a_bearer_is_refused_where_one_is_required(
    platform: Platform, required: Front, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    for name, request_of in REQUESTS.items():
        answer = await request_of.to(http, required.url(platform.team, "bench"))
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), name
        assert answer.json()["error"]["message"] == "Authentication required.", name
    assert not bearers.asked
    assert required.counted("mcp_auth_failures_total", reason="missing") == len(REQUESTS)


@pytest.mark.parametrize("path", ["/teams/{}/mcp/bench", "/teams/{}/rpc"])
@pytest.mark.parametrize("sent", [b"", b"{"], ids=["nothing", "its first byte"])
async def test_a_bearer_is_checked_before_the_body_has_arrived(
    platform: Platform, required: Front, bearers: Bearers, path: str, sent: bytes
) -> None:
    headers = ("authorization: Bearer unknown", "content-type: application/json", "content-length: 1000")
    async with begun(required, f"POST {path.format(platform.team)}", *headers, content=sent) as (reader, _):
        assert b" 401 " in await soon(reader.readline())
    assert [(asked.bearer, asked.uses_up) for asked in bearers.asked] == [("unknown", False)]


@pytest.mark.parametrize("given", ["--token", "PALLAS_TOKEN_FILE", None])
async def test_pallas_chat_sends_its_bearer_and_never_prints_it(
    platform: Platform, required: Front, bearers: Bearers, tmp_path: Path, given: str | None
) -> None:
    (tmp_path / "token").write_text(f"{TEAMS}\n")
    value = str(tmp_path / "token") if given == "PALLAS_TOKEN_FILE" else TEAMS
    options = ("--token", value) if given == "--token" else ()
    variables = {given: value} if given and not options else {}
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "pallas"), "chat", "say", "--message", "hello", "--json"),
        *("--url", required.url(platform.team, "bench"), *options),
        stdout=-1,
        stderr=-2,
        env=os.environ | variables,
    )
    output, _ = await soon(process.communicate(), 30)
    assert SECRET not in output.decode()
    assert {asked.bearer for asked in bearers.asked} == ({TEAMS} if given else set())
    assert ("authentication required" in output.decode()) == (given is None)


MALFORMED: dict[str, tuple[list[bytes], str]] = {
    "another scheme": ([b"Basic dTpw"], "missing"),
    "no bearer": ([b"Bearer"], "missing"),
    "empty": ([b""], "missing"),
    "two": ([f"Bearer {TEAMS}".encode(), f"Bearer {TOKENS}".encode()], "missing"),
    "too long": ([b"Bearer " + b"x" * 8193], "malformed"),
}


@pytest.mark.parametrize("mode", ["required", "optional"])
async def test_a_malformed_bearer_is_refused_without_asking_the_resolver(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient, mode: str
) -> None:
    front = await a_front(platform, mode)
    for name, (given, reason) in MALFORMED.items():
        more = [("authorization", it.decode()) for it in given]
        answer = await REQUESTS["modern list"].to(http, front.url(platform.team, "bench"), *more)
        assert (answer.status_code, answer.json()["error"]["message"]) == (401, AUTH_FAILURES[reason]), name
    assert not bearers.asked


@pytest.mark.parametrize("mode", ["required", "optional"])
async def test_a_refused_bearer_is_a_401_with_the_message_of_the_contract_in_every_mode(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient, mode: str
) -> None:
    front = await a_front(platform, mode)
    bearers.refused = {f"{SECRET}{reason}": reason for reason in AUTH_FAILURES if reason != "missing"}
    for bearer, reason in bearers.refused.items():
        for request_of in REQUESTS.values():
            answer = await request_of.to(http, front.url(platform.team, "bench"), header_of(bearer))
            assert (answer.status_code, answer.json()["error"]["message"]) == (401, AUTH_FAILURES[reason]), reason
            assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
            assert SECRET not in answer.text


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_official_client_gets_the_reason_of_a_refusal(
    platform: Platform, required: Front, era: Literal["auto", "legacy"]
) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(MCPError, match="Invalid MCP token."), flatten_subgroups=True, allow_unwrapped=True
    ):
        async with client(required.url(platform.team, "bench"), f"{SECRET}nobody", era):
            pass


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("mode", ["required", "optional"])
@requirement("A-12.1")
async def test_a_turn_carries_the_principal_of_the_bearer_and_not_the_bearer(
    platform: Platform, bearers: Bearers, caplog: pytest.LogCaptureFixture, mode: str, era: Literal["auto", "legacy"]
) -> None:
    caplog.set_level(logging.DEBUG, "agent_gateway")
    front = await a_front(platform, mode)
    received: list[bytes] = []

    async def on_message(message: Any) -> None:
        received.append(message.data + repr(message.headers).encode())

    await platform.bus.subscribe("pallas.v1.turn.>", on_message)
    await platform.bus.subscribe("$KV.>", on_message)
    await platform.bus.client.flush()
    async with client(front.url(platform.team, "bench"), TEAMS, era) as caller:
        result = await soon(caller.call_tool("say", {"text": "hello"}))
    assert not result.is_error
    claimed = await platform.claimed()
    assert claimed.principal == TEAM
    assert any(TEAM.id.encode() in each for each in received)
    assert not any(SECRET.encode() in each for each in received)
    assert SECRET not in caplog.text


@pytest.mark.parametrize(("mode", "bearer"), [("optional", None), ("off", f"{SECRET}nobody")])
async def test_a_caller_who_is_not_asked_for_a_bearer_is_known_by_its_address(
    platform: Platform, bearers: Bearers, mode: str, bearer: str | None
) -> None:
    front = await a_front(platform, mode)
    async with client(front.url(platform.team, "bench"), bearer) as caller:
        await soon(caller.call_tool("say", {}))
    assert (await platform.claimed()).principal == LOCAL
    assert not bearers.asked


async def test_without_a_resolver_every_request_with_a_bearer_is_refused(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    front = await a_front(platform, "optional")
    for name, request_of in REQUESTS.items():
        answer = await request_of.to(http, front.url(platform.team, "bench"), header_of(TEAMS))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), name
        assert "Try again" in answer.json()["error"]["message"], name
    async with client(front.url(platform.team, "bench")) as caller:
        assert not (await soon(caller.call_tool("say", {}))).is_error


PING, CALL = wire.legacy("ping", {}, "s"), wire.legacy("tools/call", SAY, "s")
VERSIONS = (("mcp-protocol-version", "2025-11-25"), *REQUESTS["modern list"].headers)
USES_UP = {
    "modern call": (REQUESTS["modern call"], True),
    "modern list": (REQUESTS["modern list"], False),
    "older call": (REQUESTS["older call"], True),
    "older ping": (posted(PING), False),
    "older notification": (REQUESTS["older notification"], False),
    "escaped method": (Sent(content=rb'{"jsonrpc":"2.0","id":1,"method":"tools\/\u0063all"}'), True),
    "two methods": (Sent(content=b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}'), True),
    "too long to look at": (posted(wire.legacy("ping", {"_meta": {"note": "x" * 70_000}}, "s")), True),
    "several": (posted(([PING[0], CALL[0]], wire.ACCEPT)), True),
    "versions that disagree": (replace(posted(CALL), headers=VERSIONS), True),
    "resumption": (REQUESTS["resumption"], False),
    "end of a session": (REQUESTS["end of a session"], False),
}


async def test_only_a_possible_tool_call_uses_up_a_per_turn_token(
    platform: Platform, required: Front, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    for name, (request_of, uses_up) in USES_UP.items():
        bearers.asked.clear()
        await request_of.to(http, required.url(platform.team, "bench"), header_of(TURNS))
        assert [(asked.bearer, asked.uses_up) for asked in bearers.asked] == [(TURNS, uses_up)], name


async def test_an_idempotency_key_belongs_to_the_principal_whichever_bearer_it_sends(
    platform: Platform, required: Front, http: httpx.AsyncClient
) -> None:
    params = {**SAY, "_meta": {"pallas/idempotency-key": "the same key"}}
    body, headers = wire.modern("tools/call", params)
    turns: list[str] = []
    for bearer in (TEAMS, TEAMS_OTHER, TOKENS):
        url, given = required.url(platform.team, "bench"), {**headers, **authorization(bearer)}
        messages = await soon(wire.answers(http, url, (body, given)))
        turns.append(messages[-1]["result"]["_meta"]["pallas/turn"])
    assert turns[0] == turns[1] != turns[2]


async def test_an_idempotency_key_belongs_to_a_user_whichever_of_its_tokens_it_sends(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    """The turn waits for a worker, and is cancelled by the other token."""
    await platform.publish()
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    front = await platform.gateway(gateway_auth="required", log_key=KEY)
    await platform.served(front)
    users = {TEAMS: ("one", "ann"), TEAMS_OTHER: ("two", "ann"), TOKENS: ("three", "bob"), TURNS: ("ann", None)}
    for bearer, (token, user) in users.items():
        bearers.held[bearer] = Principal(type="token", id=token, user=user)

    async def call(bearer: str, **meta: Any) -> dict[str, Any]:
        params = keyed("wait", {"file": "none"})
        body, headers = wire.modern("tools/call", params | {"_meta": params["_meta"] | meta})
        url = front.url(platform.team, "bench")
        return (await soon(wire.answers(http, url, (body, {**headers, **authorization(bearer)}))))[-1]["result"]

    calls = {bearer: asyncio.create_task(call(bearer)) for bearer in users}
    await until(lambda: waiting(platform, 3))
    await eventually(lambda: front.counted("pallas_turns_joined_total", team=platform.team, agent="bench") == 1)
    cancelled = await call(TEAMS_OTHER, **{"pallas/cancel": True})
    ann = {fault(each)["turn_id"] for each in (await calls[TEAMS], await calls[TEAMS_OTHER], cancelled)}
    assert fault(cancelled)["code"] == "cancelled"
    assert len(ann) == 1
    for bearer in (TOKENS, TURNS):
        assert not calls[bearer].done()
        assert fault(await call(bearer, **{"pallas/cancel": True}))["turn_id"] not in ann
        await calls[bearer]


async def test_an_event_id_belongs_to_the_principal_whichever_bearer_it_sends(
    platform: Platform, required: Front, http: httpx.AsyncClient
) -> None:
    url, received, file = required.url(platform.team, "bench"), Received(), platform.file()
    file.touch()
    async with (
        httpx.AsyncClient(timeout=20, trust_env=False, headers=authorization(TEAMS)) as team,
        counting(team, url, file) as stream,
    ):
        await soon(received.rest(stream))
    got: dict[str, int] = {}
    for bearer in (TEAMS_OTHER, TOKENS):
        given = {"accept": "text/event-stream", "last-event-id": received.ids[3], **authorization(bearer)}
        got[bearer] = (await soon(http.get(url, headers=given))).status_code
    assert got == {TEAMS_OTHER: 200, TOKENS: 400}


async def test_only_the_principal_that_was_asked_for_input_can_answer_at_any_gateway(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    fronts = [await a_front(platform, "optional", request_state_key=STATE_KEY) for _ in range(2)]

    async def ask(front: Front, given: dict[str, str], **more: Any) -> wire.Message:
        body, headers = wire.modern("tools/call", {"name": "ask", "arguments": {}, **more})
        answer = await soon(http.post(front.url(platform.team, "bench"), json=body, headers={**headers, **given}))
        [message] = [json.loads(line.removeprefix("data:")) for line in answer.text.splitlines() if '"jsonrpc"' in line]
        return message

    asked = (await ask(fronts[0], authorization(TEAMS)))["result"]
    assert asked["resultType"] == "input_required"
    answers = {"name": {"action": "accept", "content": {"name": "Harper"}}}
    back = {"inputResponses": answers, "requestState": asked["requestState"]}
    for front in fronts:
        for stranger in (authorization(TOKENS), {}):
            refusal = (await ask(front, stranger, **back))["error"]
            assert (refusal["code"], refusal["data"]) == (INVALID_PARAMS, {"reason": "invalid_request_state"})
        answered = (await ask(front, authorization(TEAMS_OTHER), **back))["result"]
        assert answered["content"] == [{"type": "text", "text": "asked once: Harper"}]


async def test_a_caller_cannot_cancel_in_the_session_of_another(
    platform: Platform, required: Front, http: httpx.AsyncClient
) -> None:
    url, params = required.url(platform.team, "bench"), {"name": "wait", "arguments": {"file": str(platform.file())}}
    params["_meta"] = {"progressToken": "t"}
    async with httpx.AsyncClient(timeout=20, trust_env=False, headers=authorization(TEAMS)) as team:
        session = await wire.shake_hands(team, url)
        async with wire.posted(team, url, wire.legacy("tools/call", params, session, request_id=7)) as stream:
            messages = stream.messages()
            await soon(anext(messages))
            body, headers = wire.legacy("notifications/cancelled", {"requestId": 7}, session, request_id=None)
            for bearer in (TOKENS, TEAMS_OTHER):
                if bearer == TEAMS_OTHER:
                    assert not platform.cancels
                assert (
                    await http.post(url, json=body, headers={**headers, **authorization(bearer)})
                ).status_code == 202
            await platform.claim(CancelRequested)


async def test_a_dedicated_port_requires_a_bearer_and_probes_do_not(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    port = free_port()
    await platform.publish("own", port=port)
    front = await platform.gateway(gateway_auth="required", agent_ports="true")
    await eventually(lambda: any(f"{platform.team}.own" in each.ports for each in platform.gateways.values()))
    listed, url = REQUESTS["modern list"], f"http://127.0.0.1:{port}/mcp"
    assert (await listed.to(http, url)).status_code == 401
    assert (await listed.to(http, url, header_of(TEAMS))).status_code == 200
    for path in ("livez", "readyz", "metrics"):
        assert (await http.get(f"{front.base}/{path}")).status_code == 200
