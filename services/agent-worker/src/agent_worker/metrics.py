"""The metrics of the worker: those of all workers of team folders."""

from pallas_hosting.worker import make_metrics as make_metrics
