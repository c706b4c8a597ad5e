"""The metrics of a worker are those of its executor. `deploy.observability` finds them by this module."""

from pallas_executor.metrics import make_metrics

__all__ = ["make_metrics"]
