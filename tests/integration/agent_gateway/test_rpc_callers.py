"""Callers of `/rpc` are identified by bearer or signature, and use only the agents that are for them."""

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver
from http_message_signatures.algorithms import ED25519
from jwt.algorithms import OKPAlgorithm
from tests.integration.agent_gateway.bearers import TEAM, TEAMS, TOKENS, TURNS, Bearers, authorization
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.rpc import Message, Rpc, execute
from tests.requirements import requirement
from tests.waiting import soon

from pallas_contracts.agents import Allow
from pallas_contracts.turns import Claimed

KEY = Ed25519PrivateKey.generate()
SIGNERS = json.dumps({"keys": [{"kid": "orchestrator", **OKPAlgorithm.to_jwk(KEY.public_key(), as_dict=True)}]})


@pytest.fixture
async def rpc(platform: Platform, bearers: Bearers, http: httpx.AsyncClient) -> Rpc:
    """`/rpc` of a gateway that wants to know its callers, with a worker."""
    await platform.worker()
    front = await platform.gateway("bench", gateway_auth="required", signers=SIGNERS)
    return Rpc(http, front, platform.team)


@requirement("D-7.1")
async def test_a_call_without_a_known_bearer_is_refused(rpc: Rpc) -> None:
    for headers, message in (
        ({}, "Authentication required."),
        ({"authorization": "Basic x"}, "Authentication required."),
        (authorization("unknown"), "Invalid MCP token."),
    ):
        refused = await rpc.send(execute("bench", "say"), **headers)
        error = {"code": -32003, "message": message}
        assert (refused.status_code, refused.json()) == (401, {"jsonrpc": "2.0", "id": None, "error": error})
        assert refused.headers["www-authenticate"].startswith("Bearer")


async def test_a_call_with_a_bearer_is_its_owners(rpc: Rpc, platform: Platform) -> None:
    assert "result" in await rpc.answer(execute("bench", "say"), **authorization(TEAMS))
    claim = await platform.claimed()
    assert claim.principal == TEAM


@requirement("D-7.2")
async def test_an_agent_for_others_is_answered_byte_for_byte_like_one_that_does_not_exist(
    rpc: Rpc, platform: Platform
) -> None:
    def request() -> Message:
        return execute("secret", "wait")

    before = await rpc.send(request(), **authorization(TOKENS))
    await platform.publish("secret", allow=Allow(teams=(TEAM.id,)))
    await platform.served(rpc.front, "secret")
    after = await rpc.send(request(), **authorization(TOKENS))
    assert (after.status_code, after.content) == (before.status_code, before.content) == (200, before.content)
    assert after.headers.get("content-length") == before.headers.get("content-length")
    known = await rpc.answer(execute("secret", "fly"), **authorization(TEAMS))
    assert known["error"]["data"]["known"] == ["wait"]


@requirement("D-8.2")
async def test_the_document_has_the_agents_of_this_caller_only(rpc: Rpc, platform: Platform) -> None:
    await platform.publish("secret", allow=Allow(teams=(TEAM.id,)))
    await platform.served(rpc.front, "secret")
    listed = dict[str, set[str]]()
    for bearer in (TEAMS, TOKENS):
        answer = await rpc.answer({"method": "rpc.discover"}, **authorization(bearer))
        listed[bearer] = {agent["agent_id"] for agent in answer["result"]["x-agents"]}
        assert ("secret" in json.dumps(answer)) == (bearer == TEAMS)
    assert listed[TEAMS] - listed[TOKENS] == {"secret"}


async def test_a_per_turn_token_is_used_up_by_one_call_and_not_accepted_for_more(rpc: Rpc, bearers: Bearers) -> None:
    call = execute("bench", "say")
    assert "result" in await rpc.answer(call, **authorization(TURNS))
    refused = await rpc.answer([call, call], **authorization(TURNS))
    assert (refused["error"]["code"], "per-turn token" in refused["error"]["data"]["reason"]) == (-32600, True)
    [answer] = await rpc.answer([{"jsonrpc": "2.0", "method": "x"}, call], **authorization(TURNS))
    assert "result" in answer
    await rpc.answer({"method": "rpc.discover"}, **authorization(TURNS))
    assert [question.uses_up for question in bearers.asked] == [True, True, True, False]


async def test_a_method_that_is_escaped_uses_up_a_per_turn_token_too(rpc: Rpc, bearers: Bearers) -> None:
    body = json.dumps(execute("bench", "say")).replace("agent.execute", "agent.e\\u0078ecute").encode()
    headers = {"content-type": "application/json", **authorization(TURNS)}
    assert "result" in (await rpc.http.post(rpc.url, content=body, headers=headers)).json()
    assert [question.uses_up for question in bearers.asked] == [True]


async def test_bearers_that_cannot_be_checked_now_are_503(platform: Platform, http: httpx.AsyncClient) -> None:
    front = await platform.gateway(gateway_auth="required")
    refused = await Rpc(http, front).send(execute("bench", "say"), **authorization(TEAMS))
    assert (refused.status_code, refused.json()["error"]["code"], refused.headers["retry-after"]) == (503, -32001, "1")


def signed(rpc: Rpc, message: Message | list[Message], **headers: str) -> httpx.Request:
    body = json.dumps(message).encode()
    named = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    request = httpx.Request("POST", rpc.url, content=body, headers=named)
    keys = MappingKeyResolver(public_keys={}, private_keys={"orchestrator": KEY})
    signer = HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=keys)
    covered = ("@method", "@target-uri", "content-digest")
    signer.sign(request, key_id="orchestrator", covered_component_ids=covered, body=body)
    return request


@requirement("D-7.1")
async def test_a_signature_stands_in_for_a_bearer(rpc: Rpc, platform: Platform) -> None:
    answer = (await soon(rpc.http.send(signed(rpc, execute("bench", "say"))))).json()
    assert answer["result"] == "nothing (attempt 1)"
    claim = await platform.claimed()
    assert claim.principal is not None
    assert (claim.principal.type, claim.principal.id) == ("token", "key:orchestrator")


async def test_an_agent_may_be_for_the_owner_of_a_key(rpc: Rpc, platform: Platform) -> None:
    await platform.publish("secret", allow=Allow(tokens=("key:orchestrator",)))
    await platform.served(rpc.front, "secret")
    answer = (await soon(rpc.http.send(signed(rpc, execute("secret", "fly"))))).json()
    assert answer["error"]["data"]["known"] == ["wait"]


async def test_a_signed_request_that_is_sent_again_joins_the_same_turns(rpc: Rpc, platform: Platform) -> None:
    file = platform.file()
    request = signed(rpc, [execute("bench", "effect", {"file": str(file)}) for _ in range(2)])
    first = asyncio.create_task(rpc.http.send(request))
    await platform.claim(Claimed, number=1)
    file.touch()
    answers = (await soon(first)).json()
    assert (await soon(rpc.http.send(request))).json() == answers
    assert len({answer["meta"]["turn_id"] for answer in answers}) == 2
    assert file.with_suffix(".effects").read_text() == "1\n1\n"


async def test_a_signature_that_does_not_hold_is_401_and_counted(rpc: Rpc) -> None:
    request = signed(rpc, execute("bench", "say"))
    changed = httpx.Request("POST", rpc.url, content=request.content + b" ", headers=request.headers)
    changed.headers["content-length"] = str(len(changed.content))
    for wrong in (changed, signed(rpc, execute("bench", "say"), **authorization(TEAMS))):
        refused = await soon(rpc.http.send(wrong))
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, -32003)
        assert "The signature of this request is not accepted: " in refused.json()["error"]["message"]
    assert rpc.front.counted("mcp_auth_failures_total", reason="signature") == 2


async def test_signatures_are_ignored_like_bearers_where_callers_are_not_identified(
    rpc: Rpc, platform: Platform
) -> None:
    front = await platform.gateway("bench", signers=SIGNERS)
    here = replace(rpc, front=front)
    assert "result" in (await soon(rpc.http.send(signed(here, execute("bench", "say"), signature="x")))).json()
    claim = await platform.claimed()
    assert claim.principal is not None
    assert claim.principal.type == "peer"
