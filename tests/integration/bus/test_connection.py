"""The connection to a real server: its errors, and how it survives restarts and outages."""

import asyncio
import gc
import ssl
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.builders import a_stream, subject_of
from tests.conftest import Connecting
from tests.embedded import NatsServer, free_port
from tests.waiting import Collected, eventually, soon

from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_cli.broker_config.authority import AUTHORITY, CERTIFICATE, KEY, make_certificate
from pallas_cli.private_files import PRIVATE
from pallas_contracts.errors import Conflict, Rejected, Unavailable


async def test_a_stored_message_has_a_position(bus: Connecting) -> None:
    tester = await bus("tester")
    stream = a_stream()
    await declare(tester, stream)
    assert [(await tester.put(subject_of(stream), b"x")).seq for _ in range(3)] == [1, 2, 3]


async def test_a_message_id_that_the_broker_knows_is_a_duplicate(bus: Connecting) -> None:
    tester = await bus("tester")
    stream = a_stream()
    await declare(tester, stream)
    headers = {"Nats-Msg-Id": "turn.requested:1"}
    first = await tester.put(subject_of(stream), b"x", headers)
    again = await tester.put(subject_of(stream), b"x", headers)
    assert (again.seq, again.duplicate) == (first.seq, True)


async def test_a_wrong_last_sequence_is_a_conflict(bus: Connecting) -> None:
    tester = await bus("tester")
    stream = a_stream()
    await declare(tester, stream)
    await tester.put(subject_of(stream), b"x")
    with pytest.raises(Conflict) as refused:
        await tester.put(subject_of(stream), b"x", {"Nats-Expected-Last-Subject-Sequence": "0"})
    assert refused.value.code == "wrong_last_sequence"


async def test_a_full_subject_is_unavailable_and_others_are_not(bus: Connecting) -> None:
    tester = await bus("tester")
    stream = a_stream(refuse_when_full=True, max_per_subject=2)
    await declare(tester, stream)
    for _ in range(2):
        await tester.put(subject_of(stream), b"x")
    with pytest.raises(Unavailable) as refused:
        await tester.put(subject_of(stream), b"x")
    assert refused.value.code == "queue_full"
    assert (await tester.put(subject_of(stream, "other"), b"x")).seq == 3


async def test_a_subject_without_a_stream_is_unavailable_at_once(bus: Connecting) -> None:
    tester = await bus("tester")
    with pytest.raises(Unavailable) as refused:
        await soon(tester.put("pallas.v1.nobody.listens", b"x"), within=2.0)
    assert refused.value.code == "no_stream"


async def test_a_message_over_the_limit_is_rejected(bus: Connecting) -> None:
    tester = await bus("tester")
    with pytest.raises(Rejected) as refused:
        await tester.send("pallas.v1.any", b"x" * (tester.max_payload + 1))
    assert refused.value.code == "too_large"


async def test_a_request_without_responders_is_unavailable_at_once(bus: Connecting) -> None:
    tester = await bus("tester")
    with pytest.raises(Unavailable) as refused:
        await soon(tester.request("pallas.v1.nobody", b""), within=2.0)
    assert refused.value.code == "no_responders"


async def test_an_unreachable_server_is_unavailable() -> None:
    port = free_port()
    with pytest.raises(Unavailable) as failed:
        async with connect(f"nats://me:secret@127.0.0.1:{port}", "tester", timeout=0.3):
            pass
    assert failed.value.message == f"cannot connect to NATS at nats://127.0.0.1:{port}: the connection was refused"


async def test_a_server_whose_name_is_unknown_is_unavailable() -> None:
    with pytest.raises(Unavailable) as failed:
        async with connect("nats://no.invalid:1", "tester", timeout=2.0):
            pass
    assert failed.value.message == "cannot connect to NATS at nats://no.invalid:1: the host name cannot be resolved"


async def test_a_server_that_does_not_finish_the_tls_handshake_is_unavailable(tmp_path: Path) -> None:
    """A deadline that ends a handshake gives no notice that the connection has closed."""
    make_certificate(tmp_path, ["127.0.0.1"], mode=PRIVATE)
    ended_turn = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended_turn.wait()
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        access = Access(f"nats://127.0.0.1:{port}", ca=(tmp_path / AUTHORITY).read_text("ascii"))
        with pytest.raises(Unavailable):
            await soon(connect(access, "tester", timeout=0.3).__aenter__())
        ended_turn.set()


async def test_a_refused_connection_is_closed_even_if_the_deadline_passes_meanwhile() -> None:
    opened, ended = list[bool](), Collected[bool]()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(True)
        writer.write(b"INFO {}\r\n-ERR 'Authorization Violation'\r\n")
        while await reader.read(1000):
            pass
        ended.add(True)
        writer.close()

    async def stand_still(_: Exception) -> None:
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            pass
        await asyncio.sleep(0)

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(Unavailable) as refused:
            async with connect(url, "tester", timeout=0.3, options={"error_cb": stand_still}):
                pass
        try:
            await ended.until(lambda closed: len(closed) == len(opened) > 0)
        finally:
            server.close_clients()
    assert refused.value.code == "unavailable"


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_every_refused_reconnect_is_closed_before_the_next_attempt(tmp_path: Path, tls: bool) -> None:
    """A socket that is left to the garbage collector fails the test, too."""
    refused, ended, lost = Collected[bool](), Collected[bool](), asyncio.Event()
    make_certificate(tmp_path, ["127.0.0.1"], mode=PRIVATE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / CERTIFICATE, tmp_path / KEY)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = not lost.is_set()
        writer.write(b"INFO {}\r\n")
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n" if first else b"-ERR 'Authorization Violation'\r\n")
        if first:
            await lost.wait()
        else:
            refused.add(True)
            with suppress(OSError):
                while await reader.read(1000):
                    pass
            ended.add(True)
        writer.close()

    gc.collect()
    gc.disable()
    try:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context if tls else None) as server:
            url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with connect(Access(url, ca=(tmp_path / AUTHORITY).read_text("ascii") if tls else None), "tester"):
                lost.set()
                await refused.count(3)
                await ended.count(2)
            await ended.until(lambda closed: len(closed) == len(refused.items))
    finally:
        gc.enable()
        gc.collect()


@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "SIGKILL"])
async def test_a_connection_survives_a_restart_and_runs_its_reconnect_actions(
    nats_server: NatsServer, bus: Connecting, kill: bool
) -> None:
    tester = await bus("tester", url=nats_server.url)
    stream, reconnected = a_stream(), asyncio.Event()
    await declare(tester, stream)
    await tester.put(subject_of(stream), b"before")

    async def broken() -> None:
        raise RuntimeError("one failing action does not keep the others from running")

    async def note() -> None:
        reconnected.set()

    tester.on_reconnect(broken)
    tester.on_reconnect(note)
    nats_server.restart(kill=kill)
    await soon(reconnected.wait())
    assert tester.connected
    assert (await tester.put(subject_of(stream), b"after")).seq == 2


async def test_a_removed_reconnect_action_does_not_run_after_a_restart(
    nats_server: NatsServer, bus: Connecting
) -> None:
    tester = await bus("tester", url=nats_server.url)
    ran = Collected[str]()

    async def say(word: str) -> None:
        ran.add(word)

    remove = tester.on_reconnect(lambda: say("removed"))
    tester.on_reconnect(lambda: say("kept"))
    remove()
    nats_server.restart()
    assert await ran.count(1) == ["kept"]


async def test_a_message_put_while_the_server_is_away_is_stored_when_it_is_back(
    nats_server: NatsServer, bus: Connecting
) -> None:
    tester = await bus("tester", url=nats_server.url)
    stream = a_stream()
    await declare(tester, stream)
    nats_server.stop()
    await eventually(lambda: not tester.connected)
    putting = asyncio.create_task(tester.put(subject_of(stream), b"x", timeout=10.0))
    nats_server.start()
    assert (await soon(putting)).seq == 1


async def test_a_failing_background_task_is_logged(bus: Connecting, caplog: pytest.LogCaptureFixture) -> None:
    tester = await bus("tester")

    async def fail() -> None:
        raise RuntimeError("broken")

    await asyncio.wait({tester.spawn(fail())}, timeout=5)
    assert "a background task failed" in caplog.text
