"""What is logged about a collector: once that it takes no spans, with the reason, and once that it takes them again."""

import logging
from collections.abc import Generator, Sequence
from typing import override

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from pallas_runtime.metrics import CollectorWatch

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


def logged(caplog: pytest.LogCaptureFixture, *script: str) -> list[tuple[str, str | None]]:
    """What is logged while an exporter does all that: events, with their reasons."""
    watch = CollectorWatch(Scripted(*script))
    for what in script:
        try:
            watch.export([])
        except ValueError:
            assert what == "crashes"
    return [(record.getMessage(), vars(record).get("reason")) for record in caplog.records]


def test_each_outage_of_a_collector_and_its_end_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    events = logged(caplog, "takes", "refused", "silent", "silent", "takes", "takes", "gone")
    assert events == [(AWAY, "refused, retrying"), (AGAIN, None), (AWAY, "gone, retrying")]


def test_nothing_is_logged_while_a_collector_takes_all_spans(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert logged(caplog, "takes", "takes") == []


def test_a_crash_of_the_exporter_is_logged_as_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert logged(caplog, "crashes", "crashes", "takes") == [(AWAY, None), (AGAIN, None)]


def test_at_level_debug_the_lines_of_the_exporter_are_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    assert [event for event, _ in logged(caplog, "refused")] == ["refused, retrying", "gave up", AWAY]
