"""What the worker measures is what its executor measures."""

from pallas_executor.metrics import make_metrics

__all__ = ["make_metrics"]
