"""Where the spans of a process go, and that a collector which is away or silent holds nobody up."""

import signal
import socket
import time

import pytest
from tests.embedded import free_port
from tests.integration.runtime.test_run import ended, started, url_of
from tests.otlp import collecting

from pallas_runtime.span_export import FLUSH_SECONDS

LONG = {"OTEL_BSP_SCHEDULE_DELAY": "600000"}
"""Nothing is sent before the end."""


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_spans_are_sent_by_the_protocol_that_was_named_at_the_end_at_the_latest(protocol: str) -> None:
    async with collecting() as collector:
        endpoint = collector.grpc if protocol == "grpc" else collector.http
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        async with started("traces", PALLAS_INSTANCE="one", **told, **LONG) as process:
            await url_of(process)
            process.send_signal(signal.SIGTERM)
            assert (await ended(process))[0] == 0
        [span] = collector.spans
    assert (span.service, span.instance, span.name) == ("example", "one", "a-span-of-the-example")


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("silent", [False, True], ids=["away", "silent"])
async def test_a_collector_that_does_not_take_spans_does_not_keep_a_process_from_ending(
    protocol: str, silent: bool
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()
        port = listener.getsockname()[1] if silent else free_port()
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        async with started("traces", **told, **LONG) as process:
            await url_of(process)
            process.send_signal(signal.SIGTERM)
            told_at = time.monotonic()
            assert (await ended(process))[0] == 0
    assert time.monotonic() - told_at < FLUSH_SECONDS + 10


async def test_a_protocol_that_nobody_speaks_stops_the_start() -> None:
    told = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"}
    async with started("fine", **told) as process:
        code, errors = await ended(process)
    assert (code, errors.strip()) == (2, "example: OTEL_EXPORTER_OTLP_PROTOCOL: must be grpc or http/protobuf")
