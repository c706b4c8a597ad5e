"""Logs once when the collector stops accepting spans, and once when it accepts them again.

The exporters would log every batch and every retry. Their own lines, each with its reason, appear at level DEBUG.
"""

import logging
import threading
from collections.abc import Sequence
from typing import override

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = logging.getLogger(__name__)

_BATCHES = "opentelemetry.sdk._shared_internal"
_NOISY = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    _BATCHES,
)


class ExporterWrapper(SpanExporter):
    """Wraps another exporter; subclasses define `export`."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner

    @override
    def shutdown(self) -> None:
        self._inner.shutdown()

    @override
    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class CollectorWatch(ExporterWrapper):
    """Exports spans with another exporter; `accepted` tells whether the last export succeeded."""

    def __init__(self, inner: SpanExporter) -> None:
        super().__init__(inner)
        self._reason = _FirstMessage()
        self.accepted = True
        for name in _NOISY:
            logging.getLogger(name).addFilter(self._reason)

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._reason.begin()
        accepted = False
        try:
            result = self._inner.export(spans)
            accepted = result is SpanExportResult.SUCCESS
            return result
        finally:
            self._log_change(accepted)

    def _log_change(self, accepted: bool) -> None:
        if accepted and not self.accepted:
            log.info("the collector takes spans again")
        elif self.accepted and not accepted:
            log.warning("the collector takes no spans; they are dropped", extra={"reason": self._reason.message})
        self.accepted = accepted


class _FirstMessage(logging.Filter):
    """Keeps the first message that an export logs on its thread: the reason why it failed.

    Lines pass at level DEBUG only, crashes always.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread = 0
        self.message: str | None = None

    def begin(self) -> None:
        """An export begins on this thread."""
        self._thread, self.message = threading.get_ident(), None

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if self.message is None and threading.get_ident() == self._thread:
            self.message = record.getMessage()
        crashed = record.name == _BATCHES and bool(record.exc_info)
        return crashed or log.isEnabledFor(logging.DEBUG)
