"""Where the spans of a process go, and that an unreachable or silent collector delays nothing."""

import asyncio
import signal
import socket
import time

import pytest
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


async def test_a_collector_that_accepts_no_spans_does_not_keep_a_process_from_ending() -> None:
    with socket.socket() as silent, socket.socket() as away:
        for listener in (silent, away):
            listener.bind(("127.0.0.1", 0))
        silent.listen()
        kinds = {"silent": silent.getsockname()[1], "away": away.getsockname()[1]}
        cases = [(kind, protocol) for kind in kinds for protocol in ("http/protobuf", "grpc")]
        seconds = await asyncio.gather(*(_seconds_to_end(kinds[kind], protocol) for kind, protocol in cases))
    assert [case for case, took in zip(cases, seconds, strict=True) if took >= FLUSH_SECONDS + 10] == []


async def _seconds_to_end(port: int, protocol: str) -> float:
    """How long a process takes to end whose collector is at that port."""
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    async with started("traces", **endpoint, **LONG) as process:
        await url_of(process)
        since = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0
        return time.monotonic() - since


async def test_an_unknown_protocol_stops_the_start() -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"}
    async with started("fine", **variables) as process:
        code, errors = await ended(process)
    assert (code, errors.strip()) == (2, "example: OTEL_EXPORTER_OTLP_PROTOCOL: must be grpc or http/protobuf")
