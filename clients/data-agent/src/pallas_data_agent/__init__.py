"""Data agents in Python: decorate functions, connect to a Pallas pool, answer calls."""

from pallas_data_agent.agent import DataAgent, run_agents
from pallas_data_agent.tools import ToolError, call_meta

__all__ = ["DataAgent", "ToolError", "call_meta", "run_agents"]
