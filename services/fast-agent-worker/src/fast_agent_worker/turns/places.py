"""Where in a turn something happens. A call is named by its place, so a later attempt finds it in the journal.

`2` is the second call of the called agent's model, `2.1` the first tool of its answer, and `2.1.1` the first call of a
sub-agent's model there. `w1` is the first agent that a workflow calls. What an agent that is neither does there has the
agent's name in front: `planner/1`.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Here:
    """`agent` runs where all names of calls begin with `prefix`.

    `batch` has the places of the tools that are being called, by the model's ids of the calls. `tool` is the place of
    the tool that runs; empty outside of tools.
    """

    agent: str
    prefix: str = ""
    batch: Mapping[str, str] = field(default_factory=dict[str, str])
    tool: str = ""


HERE: ContextVar[Here] = ContextVar("where in the turn")
