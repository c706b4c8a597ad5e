"""Whether the collector takes spans: said once when it stops, and once when it begins again.

The exporters would say it of every batch and of every try. Their own lines, with the reason each time, are there at
the level DEBUG.
"""

import logging
import threading
from collections.abc import Sequence
from typing import override

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = logging.getLogger(__name__)

_BATCHES = "opentelemetry.sdk._shared_internal"
_TALKATIVE = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    _BATCHES,
)


class HandingOn(SpanExporter):
    """Stands before another exporter, and says how spans get there."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner

    @override
    def shutdown(self) -> None:
        self._inner.shutdown()

    @override
    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class CollectorWatch(HandingOn):
    """Hands spans on, and knows whether the last ones were `taken`."""

    def __init__(self, inner: SpanExporter) -> None:
        super().__init__(inner)
        self._reason = _FirstSaid()
        self.taken = True
        for name in _TALKATIVE:
            logging.getLogger(name).addFilter(self._reason)

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._reason.listen()
        taken = False
        try:
            result = self._inner.export(spans)
            taken = result is SpanExportResult.SUCCESS
            return result
        finally:
            self._tell(taken)

    def _tell(self, taken: bool) -> None:
        if taken and not self.taken:
            log.info("the collector takes spans again")
        elif self.taken and not taken:
            log.warning("the collector takes no spans; they are dropped", extra={"reason": self._reason.said})
        self.taken = taken


class _FirstSaid(logging.Filter):
    """Keeps what is said first by the thread that exports, which is why. Lines get through at the level DEBUG only,
    crashes always.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread = 0
        self.said: str | None = None

    def listen(self) -> None:
        """An export begins on this thread."""
        self._thread, self.said = threading.get_ident(), None

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if self.said is None and threading.get_ident() == self._thread:
            self.said = record.getMessage()
        crashed = record.name == _BATCHES and bool(record.exc_info)
        return crashed or log.isEnabledFor(logging.DEBUG)
