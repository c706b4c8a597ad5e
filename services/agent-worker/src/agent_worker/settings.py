"""The settings of the worker: those of all workers of team folders."""

from pallas_executor.teams.settings import WorkerSettings as WorkerSettings
