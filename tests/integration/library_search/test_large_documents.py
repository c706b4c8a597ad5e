"""Documents that one statement could not index before its timeout."""

import asyncio
import random

import pytest
from tests.integration.library_search.lab import StandIn, Truth, a_search

import library_search.app
from library_search.store.documents import BATCH

SIZE = 6 * 1024 * 1024


def long_text(size: int) -> str:
    """A text of `size` characters in many words, the last one `omega`."""
    chance = random.Random(size)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 10))) for _ in range(20_000)]
    sentences: list[str] = []
    length = 0
    while length < size - 200:
        sentences.append(" ".join(chance.choices(words, k=15)) + ".\n")
        length += len(sentences[-1])
    return "".join(sentences).ljust(size - len("omega")) + "omega"


@pytest.mark.timeout(120)
async def test_a_document_is_indexed_in_batches_that_each_stay_below_the_statement_timeout(
    environ: dict[str, str], truth: Truth, callers: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One statement for the whole text takes about two seconds on an idle machine.
    monkeypatch.setattr(library_search.app, "PLANS", library_search.app.PLANS | {"statement_timeout": "1s"})
    await truth.publish("created", "shelf")
    callers.libraries["ann"] = ("shelf",)
    async with a_search(environ) as search:
        story = long_text(SIZE)
        async with asyncio.timeout(90):
            # A statement also times out when the machine pauses. Then the client uploads again.
            while (done := await search.put("shelf", "long story.txt", story)).status_code == 503:
                assert done.json()["code"] == "too_slow"
        assert (done.status_code, done.json().get("status")) == (201, "created"), done.text
        assert done.json()["chunks"] > 10 * BATCH
        [found] = (await search.call("ann", "search", query="omega"))["results"]
        assert int(found["chunk"].rpartition(":")[2]) == done.json()["chunks"] - 1
        # Only the first chunk has the title, whichever batch the others are in.
        titled = (await search.call("ann", "search", query='"long story"', limit=50))["results"]
        assert [passage["chunk"].rpartition(":")[2] for passage in titled] == ["0"]
