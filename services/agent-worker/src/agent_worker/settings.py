"""The settings of the worker: those of all workers of team folders."""

from pallas_hosting.worker import WorkerSettings as WorkerSettings
