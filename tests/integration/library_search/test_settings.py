"""A service with other settings, and one without a resolver."""

import logging

import pytest
from tests.integration.library_search.api.test_callers import post
from tests.integration.library_search.lab import StandIn, Truth, a_search

from pallas_contracts.errors import Rejected


async def test_a_file_that_is_too_large_is_refused(environ: dict[str, str], truth: Truth, callers: StandIn) -> None:
    await truth.publish("created", "shelf")
    async with a_search(environ | {"PALLAS_MAX_DOCUMENT_BYTES": "1024"}) as search:
        assert (await search.put("shelf", "a.txt", "x" * 1024)).status_code == 201
        assert (await search.put("shelf", "b.txt", "x" * 1025)).status_code == 413


async def test_without_a_password_hash_the_account_is_disabled(
    environ: dict[str, str], truth: Truth, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with a_search(environ | {"PALLAS_ADMIN_PASSWORD_HASH": ""}) as search:
        assert (await search.put("shelf", "a.txt", "x")).status_code == 401
    assert "PALLAS_ADMIN_PASSWORD_HASH is not set" in caplog.text


async def test_changing_the_languages_reindexes_all_documents(
    environ: dict[str, str], truth: Truth, callers: StandIn
) -> None:
    await truth.publish("created", "shelf")
    callers.libraries["ann"] = ("shelf",)
    async with a_search(environ) as search:
        await search.document("shelf", "a.txt", "Die Häuser standen leer.")
        assert (await search.call("ann", "search", query="Haus"))["results"] == []
    async with a_search(environ | {"PALLAS_SEARCH_LANGUAGES": "german"}) as search:
        assert len((await search.call("ann", "search", query="Haus"))["results"]) == 1
        assert (await search.call("ann", "search", query="die"))["results"] == []
    with pytest.raises(Rejected, match="no text search configuration 'klingon'"):
        async with a_search(environ | {"PALLAS_SEARCH_LANGUAGES": "simple,klingon"}):
            pass


async def test_without_a_resolver_callers_get_a_503_with_retry_after(environ: dict[str, str], truth: Truth) -> None:
    async with a_search(environ) as search:
        away = await post(search, Authorization="Bearer ann")
        assert (away.status_code, away.headers["retry-after"]) == (503, "1")
        assert away.json()["error"]["code"] == -32600
