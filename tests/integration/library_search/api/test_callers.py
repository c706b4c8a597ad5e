"""Who may call, which questions the resolver gets, and that unreadable documents look like missing ones."""

import json
import logging
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from tests.integration.library_search.lab import Era, Search, StandIn, Truth
from tests.requirements import requirement

from pallas_contracts.auth import AUTH_FAILURES
from pallas_contracts.errors import PallasError, Rejected

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "x"}}}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


async def post(search: Search, body: Any = CALL, **headers: str) -> httpx.Response:
    """Send one message without an MCP client."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=20) as http:
        return await http.post(search.url, content=content, headers=ACCEPT | headers)


async def test_a_refused_bearer_is_a_401_with_only_the_message_of_the_contract(
    search: Search, callers: StandIn
) -> None:
    for reason, message in AUTH_FAILURES.items():
        counted = search.measured("mcp_auth_failures_total", reason=reason)
        callers.refused["bad"] = reason
        refused = await post(search, Authorization="Bearer bad")
        assert refused.status_code == 401
        assert refused.json() == {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
        parameters = f' error="invalid_token", error_description="{message}"' if reason != "missing" else ""
        assert refused.headers["www-authenticate"] == f"Bearer{parameters}"
        # The resolver has refused, so it counts.
        assert search.measured("mcp_auth_failures_total", reason=reason) == counted


@pytest.mark.parametrize("failure", [PallasError("a bug"), Rejected("a bug", code="undecodable")])
async def test_an_error_of_the_resolver_is_a_503_and_no_refusal(
    search: Search, callers: StandIn, failure: PallasError
) -> None:
    callers.failing["ann"] = failure
    answered = await post(search, Authorization="Bearer ann")
    assert (answered.status_code, answered.headers["retry-after"]) == (503, "1")


async def test_a_request_without_a_bearer_is_refused_without_asking_the_resolver(
    search: Search, callers: StandIn
) -> None:
    given: list[dict[str, str]] = [{}, *({"Authorization": value} for value in ("", "Bearer", "Basic YTpi"))]
    counted = search.measured("mcp_auth_failures_total", reason="missing")
    for headers in given:
        refused = await post(search, **headers)
        assert (refused.status_code, refused.json()["error"]["message"]) == (401, "Authentication required.")
        assert refused.headers["www-authenticate"] == "Bearer"
    assert callers.asked == []
    assert search.measured("mcp_auth_failures_total", reason="missing") == counted + len(given)


@ERAS
async def test_the_official_client_gets_the_reason_of_a_refusal(search: Search, callers: StandIn, era: Era) -> None:
    callers.refused["old"] = "expired"
    why = pytest.RaisesExc(MCPError, match="Token has expired")
    with pytest.RaisesGroup(why, flatten_subgroups=True):
        async with search.client("old", era) as client:
            await client.list_tools()


async def test_a_bearer_that_is_too_long_or_sent_twice_is_refused_without_asking_the_resolver(
    search: Search, callers: StandIn
) -> None:
    counted = search.measured("mcp_auth_failures_total", reason="malformed")
    long = await post(search, Authorization="Bearer " + "x" * 8193)
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        headers = [("Authorization", "Bearer a"), ("Authorization", "Bearer b"), *ACCEPT.items()]
        twice = await http.post(search.url, json=CALL, headers=headers)
    for refused in (long, twice):
        assert (refused.status_code, refused.json()["error"]["message"]) == (401, "Invalid MCP token.")
    assert callers.asked == []
    assert search.measured("mcp_auth_failures_total", reason="malformed") == counted + 2


@ERAS
async def test_each_request_is_resolved_and_only_a_tool_call_uses_up_the_bearer(
    search: Search, callers: StandIn, era: Era
) -> None:
    callers.libraries["ann"] = ()
    async with search.client("ann", era) as client:
        await client.list_tools()
        before = len(callers.asked)
        await client.call_tool("list_libraries", {})
    assert before >= 2
    assert [asked.uses_up for asked in callers.asked] == [False] * before + [True]


async def test_a_disguised_tool_call_still_uses_up_the_bearer(search: Search, callers: StandIn) -> None:
    callers.libraries["ann"] = ()
    bodies = [
        b'{"jsonrpc":"2.0","id":1,"method":"tools\\/call","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping"}',
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"} trailing',
    ]
    for body in bodies:
        await post(search, body, Authorization="bearer ann")
    assert [asked.uses_up for asked in callers.asked] == [True] * len(bodies)


@requirement("A-3.3.2", "A-6.4.9")
@ERAS
async def test_a_caller_without_libraries_reads_nothing_and_gets_no_error(
    search: Search, truth: Truth, callers: StandIn, era: Era
) -> None:
    await truth.publish("created", "animals")
    document = await search.document("animals", "cats.txt", "Cats sleep.")
    callers.libraries["nobody"] = ()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "cats"}),
        ("search", {"query": "cats", "libraries": ["animals"]}),
        ("list_libraries", {}),
        ("list_collections", {}),
        ("list_items", {"library": "animals"}),
    ]
    for tool, arguments in calls:
        answered = await search.call("nobody", tool, era, **arguments)
        assert [value for value in answered.values() if value] == []
    async with search.client("nobody", era) as client:
        assert (await client.call_tool("get_document", {"document": document})).is_error


@ERAS
async def test_an_unreadable_document_gets_the_same_bytes_as_a_missing_one(
    search: Search, truth: Truth, callers: StandIn, era: Era
) -> None:
    await truth.publish("created", "animals")
    await truth.publish("created", "secret")
    callers.libraries |= {"ann": ("animals",), "bob": ("secret",)}
    document = await search.document("secret", "a.txt", "Cats rule.")
    asked = [("get_document", {"document": document}), ("get_chunk", {"chunk": f"{document}:0", "after": 3})]

    async def answers(bearer: str) -> list[bytes]:
        async with search.client(bearer, era) as client:
            return [(await client.call_tool(*each)).model_dump_json().encode() for each in asked]

    assert b"Cats rule" in b"".join(await answers("bob"))
    hidden = await answers("ann")
    assert (await search.admin.delete(f"/admin/api/documents/secret/{document}")).status_code == 204
    assert hidden == await answers("ann") == await answers("bob")
    for odd in ("", " ", "x", document.upper(), f"{document}:0", f"{document}:01", f"{document}:99999999", "%00"):
        async with search.client("bob", era) as client:
            for tool, field in (("get_document", "document"), ("get_chunk", "chunk")):
                if odd:
                    assert (await client.call_tool(tool, {field: odd})).model_dump_json().encode() in hidden


@requirement("A-3.3.1")
async def test_answers_depend_only_on_the_libraries_of_the_caller(
    search: Search, truth: Truth, callers: StandIn
) -> None:
    await truth.publish("created", "animals")
    await search.document("animals", "cats.txt", "Cats sleep.")
    callers.libraries |= {"one": ("animals",), "other": ("animals", "unknown")}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "cats"}),
        ("list_libraries", {}),
        ("list_items", {}),
    ]
    for tool, arguments in calls:
        assert await search.call("one", tool, **arguments) == await search.call("other", tool, **arguments)
    callers.libraries["one"] = ()
    assert (await search.call("one", "search", query="cats"))["results"] == []


async def test_neither_bearers_nor_queries_are_logged(
    search: Search, callers: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    callers.libraries["very-secret-bearer"] = ()
    await search.call("very-secret-bearer", "search", query="what nobody may know")
    await post(search, Authorization="Bearer another-secret-bearer")
    own = [record for record in caplog.records if not record.name.startswith(("http", "mcp.client"))]
    shown = "\n".join(str(vars(record)) for record in own)
    for secret in ("very-secret", "another-secret", "nobody may know"):
        assert secret not in shown


async def test_only_posts_to_the_endpoint_are_served(search: Search) -> None:
    async with httpx.AsyncClient(base_url=search.base, trust_env=False, verify=False) as http:
        for method in ("GET", "DELETE"):
            answer = await http.request(method, "/mcp", headers={"Authorization": "Bearer x"})
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert (await http.post("/", json=CALL)).status_code == 404
        assert (await http.post("/mcp/", json=CALL)).status_code == 401
    large = await post(search, b" " * (1024 * 1024 + 1), Authorization="Bearer x")
    assert large.status_code == 413


async def test_an_unknown_host_or_origin_is_refused(search: Search, callers: StandIn) -> None:
    callers.libraries["ann"] = ()
    assert (await post(search, Authorization="Bearer ann", Host="evil.example")).status_code == 421
    assert (await post(search, Authorization="Bearer ann", Origin="https://evil.example")).status_code == 403
