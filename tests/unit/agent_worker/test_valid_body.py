"""Halves of surrogate pairs in a body, wherever its parts end."""

import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from pallas_contracts.valid import valid_text
from pallas_mcp_calls.readable import ValidBody

TEXTS = [
    "a\ud83d",
    "😀",
    "\\ud83d",
    "\\\ud83d",
    "\ud83d😀",
    "\ude00\ud83d",
    "\ud83d\\ude00",
    "😀😀\ude00x",
    "\\" * 200,
    "\\" * 100 + "\ud83d",
    "\\" * 100 + "ud83d",
    "",
]


class Parts(httpx2.AsyncByteStream):
    def __init__(self, data: bytes, size: int) -> None:
        self._parts = [data[at : at + size] for at in range(0, len(data), size)]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


@pytest.mark.parametrize("size", [1, 2, 5, 7, 1000])
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
async def test_halves_are_replaced_and_nothing_else_is_changed(text: str, size: int) -> None:
    written = json.dumps(text).encode()
    got = b"".join([part async for part in ValidBody(Parts(written, size))])
    assert json.loads(got) == valid_text(text)


async def test_an_event_that_has_ended_is_not_held_back() -> None:
    event = b'data: "\\ud83d"\n\n'
    first = await anext(aiter(ValidBody(Parts(event, len(event)))))
    assert first == b'data: "\\ufffd"\n\n'
