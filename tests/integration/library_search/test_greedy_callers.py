"""The requests of one caller do not slow down the others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp_types import CallToolResult
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from tests.integration.library_search.lab import Search, StandIn, Truth, a_search, structured
from tests.postgres import for_asyncpg
from tests.waiting import eventually, soon, within

import library_search.app
from pallas_postgres.engine import ping

POOL = 6


@asynccontextmanager
async def blocked(url: str) -> AsyncGenerator[None]:
    """Lock the table of chunks, so that searches wait."""
    engine = create_async_engine(for_asyncpg(url))
    try:
        async with engine.begin() as connection:
            await connection.execute(text("lock table chunks in access exclusive mode"))
            yield
    finally:
        await engine.dispose()


def error_facts(result: CallToolResult) -> dict[str, Any]:
    """The machine-readable part of a tool error."""
    assert result.is_error
    return (result.meta or {})["pallas/error"]


async def test_a_caller_with_many_slow_searches_delays_neither_others_nor_readiness(
    environ: dict[str, str], truth: Truth, callers: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    pings = 0

    async def counted(engine: AsyncEngine) -> None:
        nonlocal pings
        await ping(engine)
        pings += 1

    monkeypatch.setattr(library_search.app, "ping", counted)
    monkeypatch.setattr("pallas_runtime.probes.INTERVAL", 0.02)
    callers.libraries |= {"ann": ("shelf",), "bob": ("shelf",)}
    await truth.publish("created", "shelf")
    async with a_search(environ | {"PALLAS_POSTGRES_POOL": str(POOL)}) as search:
        await search.document("shelf", "a.txt", "Cats.")
        async with search.client("ann") as ann, search.client("bob") as bob:
            async with blocked(environ["PALLAS_POSTGRES_URL"]):
                greedy = [asyncio.create_task(ann.call_tool("search", {"query": "cats"})) for _ in range(2 * POOL)]
                await eventually(lambda: len(callers.asked) > 2 * POOL)
                before = pings
                # Without a limit per caller these would wait for a connection, and be refused after two seconds.
                async with within(2.0):
                    for _ in range(5):
                        assert len(structured(await soon(bob.call_tool("list_items", {})))["items"]) == 1
                    assert structured(await soon(ann.call_tool("get_health", {})))["status"] == "ok"
                    await eventually(lambda: pings > before + 3)
                assert search.process.probes.missing() == {}
                assert not any(task.done() for task in greedy)
            assert not any(result.is_error for result in await asyncio.gather(*greedy))


async def test_a_search_beyond_the_statement_timeout_fails_as_too_slow(
    environ: dict[str, str], truth: Truth, callers: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_search.app, "PLANS", library_search.app.PLANS | {"statement_timeout": "100ms"})
    callers.libraries["ann"] = ("shelf",)
    async with a_search(environ) as search, search.client("ann") as ann:
        async with blocked(environ["PALLAS_POSTGRES_URL"]):
            given_up = await ann.call_tool("search", {"query": "cats"})
        assert error_facts(given_up) == {"code": "too_slow", "retryable": True}
        assert search.measured("pallas_library_tool_seconds_count", tool="search", outcome="too_slow") == 1
        assert search.process.probes.missing().get("postgres") is None


async def test_extreme_numbers_are_refused_with_their_field_and_cause_no_internal_error(
    search: Search, truth: Truth, callers: StandIn
) -> None:
    await truth.publish("created", "shelf")
    callers.libraries["ann"] = ("shelf",)
    document = await search.document("shelf", "a.txt", "Cats.")
    valid: dict[str, dict[str, Any]] = {
        "search": {"query": "cats"},
        "get_document": {"document": document},
        "get_chunk": {"chunk": f"{document}:0"},
    }
    fields = [
        *(("search", "limit"), ("search", "offset"), ("get_document", "limit"), ("get_document", "offset")),
        *(("get_chunk", "before"), ("get_chunk", "after"), ("list_libraries", "limit"), ("list_items", "limit")),
    ]
    async with search.client("ann") as client:
        for tool, field in fields:
            for number in (-(2**63), -1, 2**31 - 1, 2**31, 2**63, 10**30, 1e308):
                result = await client.call_tool(tool, {**valid.get(tool, {}), field: number})
                assert error_facts(result) == {"code": "bad_arguments", "retryable": False, "field": field}
        for offset in (10**9, 2**30):
            answered = structured(await client.call_tool("get_document", {"document": document, "offset": offset}))
            assert (answered["text"], answered["next_offset"]) == ("", None)
        for chunk in (f"{document}:9999999", f"{document}:{2**31}", f"{document}:-1"):
            assert error_facts(await client.call_tool("get_chunk", {"chunk": chunk}))["code"] == "not_found"
