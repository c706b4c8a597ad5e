"""A stand-in for Coder and AgentAPI: demo and test equipment, not a product and no part of Coder.

It serves the part of Coder's REST API that Pallas uses, and really runs a program per workspace in a terminal behind
AgentAPI's interface. `python -m pallas_demo.coder --help` starts one; `CoderStandIn` is one in the same process.
"""

from pallas_demo.coder.faults import Fault
from pallas_demo.coder.settings import DEMO_AGENT, StandInSettings, TerminalSettings
from pallas_demo.coder.stand_in import AgentHandle, CoderStandIn

__all__ = ["DEMO_AGENT", "AgentHandle", "CoderStandIn", "Fault", "StandInSettings", "TerminalSettings"]
