"""Where the spans of a process go, and that an unreachable or silent collector delays nothing."""

import signal
import socket
import time

import pytest
from tests.embedded import free_port
from tests.integration.runtime.test_run import ended, started, url_of
from tests.otlp import collecting

from pallas_runtime.span_export import FLUSH_SECONDS

LONG = {"OTEL_BSP_SCHEDULE_DELAY": "600000"}
"""Intervals so long that spans are sent at the end only."""


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_spans_are_sent_by_the_configured_protocol_before_the_process_ends(protocol: str) -> None:
    async with collecting() as collector:
        endpoint = collector.grpc if protocol == "grpc" else collector.http
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        async with started("traces", PALLAS_INSTANCE="one", **variables, **LONG) as process:
            await url_of(process)
            process.send_signal(signal.SIGTERM)
            assert (await ended(process))[0] == 0
        [span] = collector.spans
    assert (span.service, span.instance, span.name) == ("example", "one", "a-span-of-the-example")


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("silent", [False, True], ids=["away", "silent"])
async def test_a_collector_that_accepts_no_spans_does_not_keep_a_process_from_ending(
    protocol: str, silent: bool
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()
        port = listener.getsockname()[1] if silent else free_port()
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        async with started("traces", **variables, **LONG) as process:
            await url_of(process)
            process.send_signal(signal.SIGTERM)
            told_at = time.monotonic()
            assert (await ended(process))[0] == 0
    assert time.monotonic() - told_at < FLUSH_SECONDS + 10


async def test_an_unknown_protocol_stops_the_start() -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"}
    async with started("fine", **variables) as process:
        code, errors = await ended(process)
    assert (code, errors.strip()) == (2, "example: OTEL_EXPORTER_OTLP_PROTOCOL: must be grpc or http/protobuf")
