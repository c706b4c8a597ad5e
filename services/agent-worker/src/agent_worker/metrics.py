"""The metrics of the worker: those of all workers of team folders."""

from pallas_hosting.metered import make_metrics as make_metrics
