"""The connection to a downstream server: pauses between attempts, and its end."""

import asyncio
import socket
import time

import pytest
from pydantic import SecretStr
from tests.waiting import soon

from agent_worker.downstream import connection
from agent_worker.downstream.connection import Connection, next_delay
from pallas_contracts.errors import Unavailable
from pallas_teams.model import HttpServer


def nothing(*_: object) -> None:
    """Do nothing."""


def test_pauses_grow_and_are_short_again_after_a_connection_that_held() -> None:
    delays, delay = list[float](), 0.5
    for _ in range(6):
        delay = next_delay(delay, None)
        delays.append(delay)
    assert delays == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert next_delay(10.0, time.monotonic() - 60) == 0.5
    assert next_delay(10.0, time.monotonic()) == 10.0


async def test_who_waits_for_a_connection_that_is_closed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_CLOSE_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute:  # it accepts, and never answers
        mute.setblocking(False)
        address = SecretStr(f"http://127.0.0.1:{mute.getsockname()[1]}/mcp")
        made = Connection(HttpServer(name="mute", url=address, headers={}), "mute", nothing, nothing, nothing)
        waiting = asyncio.create_task(made.get())
        accepted, _ = await soon(asyncio.get_running_loop().sock_accept(mute))
        await made.close()
        with pytest.raises(Unavailable):
            await soon(waiting)
        with pytest.raises(Unavailable):
            await made.get()
        accepted.close()
