"""Builds the worker: it hosts the fast-agent agents of one team folder and executes their turns.

This process runs nothing of the team. It keeps one for each program of the folder, and starts them anew when the folder
has changed, because modules and settings of fast-agent cannot be loaded twice.
"""

from fast_agent_worker.programs.supervisor import programs_of
from fast_agent_worker.settings import FastAgentSettings
from pallas_runtime.run import Service

SERVICE = Service("agent-worker", FastAgentSettings, programs_of)

"""At the broker it is an agent-worker: it has the same rights."""
