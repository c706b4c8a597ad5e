"""Pieces of a response are joined, and none is kept for a caller to whom nothing can be sent."""

import asyncio

import pytest
from starlette.types import Message
from tests.waiting import eventually, soon

from agent_gateway.http.coalesce import MANY, CoalescedSend


class Caller:
    """Takes a response; it is `gone` if it cannot."""

    def __init__(self) -> None:
        self.gone, self.bodies, self.tried = False, list[bytes](), asyncio.Event()

    async def send(self, message: Message) -> None:
        if self.gone:
            self.tried.set()
            raise OSError("the connection is lost")
        self.bodies.append(message.get("body", b""))


def piece(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def test_pieces_that_follow_closely_are_sent_as_one_and_the_last_at_once() -> None:
    caller = Caller()
    sending = CoalescedSend(caller.send)
    for body in (b"a", b"b"):
        await sending(piece(body))
    await eventually(lambda: caller.bodies == [b"ab"])
    await sending(piece(b"c"))
    await sending(piece(b"d", more=False))
    assert caller.bodies == [b"ab", b"cd"]
    assert sending.ended


async def test_after_a_failed_write_every_further_one_fails_and_nothing_is_kept() -> None:
    caller = Caller()
    sending = CoalescedSend(caller.send)
    caller.gone = True
    await sending(piece(b"a"))
    await soon(caller.tried.wait())
    await asyncio.sleep(0)
    for _ in range(MANY):
        with pytest.raises(OSError, match="the connection is lost"):
            await sending(piece(b"c"))
    with pytest.raises(OSError, match="the connection is lost"):
        await sending(piece(b"d", more=False))
