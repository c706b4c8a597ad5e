"""What is said of a collector: once that it takes no spans, with the reason, and once that it takes them again."""

import logging
from collections.abc import Generator, Sequence
from typing import override

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from pallas_runtime.collector_watch import CollectorWatch

EXPORTER = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
AWAY, AGAIN = "the collector takes no spans; they are dropped", "the collector takes spans again"


class Scripted(SpanExporter):
    """Does with each batch what comes next: takes it, refuses it with two lines, or crashes."""

    def __init__(self, *script: str) -> None:
        self._script = list(script)

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        match self._script.pop(0):
            case "takes":
                return SpanExportResult.SUCCESS
            case "crashes":
                raise ValueError("a bug")
            case why:
                EXPORTER.warning("%s, retrying", why)
                EXPORTER.error("gave up")
                return SpanExportResult.FAILURE


@pytest.fixture(autouse=True)
def keep_filters_as_they_were() -> Generator[None]:
    """Filters of loggers belong to the whole process."""
    loggers = [EXPORTER, logging.getLogger("opentelemetry.sdk._shared_internal")]
    before = [logger.filters[:] for logger in loggers]
    yield
    for logger, filters in zip(loggers, before, strict=True):
        logger.filters[:] = filters


def said(caplog: pytest.LogCaptureFixture, *script: str) -> list[tuple[str, str | None]]:
    """What is logged while an exporter does all that: events, with their reasons."""
    watch = CollectorWatch(Scripted(*script))
    for what in script:
        try:
            watch.export([])
        except ValueError:
            assert what == "crashes"
    return [(record.getMessage(), vars(record).get("reason")) for record in caplog.records]


def test_a_collector_that_goes_and_comes_is_told_once_each_with_the_first_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    told = said(caplog, "takes", "refused", "silent", "silent", "takes", "takes", "gone")
    assert told == [(AWAY, "refused, retrying"), (AGAIN, None), (AWAY, "gone, retrying")]


def test_a_collector_that_takes_everything_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert said(caplog, "takes", "takes") == []


def test_an_exporter_that_crashes_has_not_delivered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert said(caplog, "crashes", "crashes", "takes") == [(AWAY, None), (AGAIN, None)]


def test_at_the_level_debug_the_exporter_speaks_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    assert [event for event, _ in said(caplog, "refused")] == ["refused, retrying", "gave up", AWAY]
