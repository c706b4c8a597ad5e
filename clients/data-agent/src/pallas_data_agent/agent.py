"""A data agent: its functions, its limits, and what it registers with (`data-agent-pool.md`, sections 3.2 and 4)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from inspect import getdoc
from pickle import PicklingError
from typing import Any, TypeVar, overload

from pydantic import ByteSize, TypeAdapter

from pallas_data_agent.connection import Refused, stay_connected
from pallas_data_agent.tools import Tool
from pallas_data_agent.workers import Workers, prepare_workers

log = logging.getLogger("pallas_data_agent")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class DataAgent:
    """An agent whose tools are functions at the top level of a module.

    They run in worker processes, which import the module. Keep nothing in globals but caches: the next call may run in
    another process.

    Raises:
        ValueError: `memory` cannot be read.
    """

    agent_id: str
    _: KW_ONLY
    title: str | None = None
    description: str | None = None
    timeout: float | None = None
    """Seconds after which a call is killed."""
    memory: str | None = None
    """The address space of each worker, such as "128MB"."""
    max_concurrency: int = 8
    """Calls at the same time, each in a worker."""
    idempotent: bool = False
    """A call whose end is unknown may be made again."""
    policy: str | None = None
    resources: Sequence[str] = ()
    heartbeat: float | None = 60
    """Seconds between heartbeats; None: none are sent."""
    allow: Mapping[str, Sequence[str]] | None = None
    """Who may call the agent: `types`, `teams`, `tokens`. Default: everybody."""

    tools: dict[str, Tool] = field(default_factory=dict[str, Tool], init=False)
    memory_bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.memory is not None:
            self.memory_bytes = TypeAdapter(ByteSize).validate_python(self.memory)

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(self, /, *, name: str | None = None, description: str | None = None) -> Callable[[F], F]: ...

    def tool(
        self, function: F | None = None, /, *, name: str | None = None, description: str | None = None
    ) -> F | Callable[[F], F]:
        """Make a function, plain or async, a tool: its docstring describes it, its type hints are its JSON Schemas.

        Raises:
            TypeError, pydantic.errors.PydanticUserError: the parameters or a type hint have no schema.
            ValueError: there is a tool of this name.
        """

        def add(function: F) -> F:
            known = name or function.__name__
            if known in self.tools:
                raise ValueError(f"{self.agent_id} has two tools {known!r}")
            self.tools[known] = Tool(function, description or getdoc(function) or "")
            return function

        return add if function is None else add(function)

    @property
    def registration(self) -> dict[str, Any]:
        """The parameters of `server.register`."""
        constraints = _given(self, "timeout", "memory", "max_concurrency", "idempotent", "policy")
        return {
            **_given(self, "agent_id", "title", "description", "allow"),
            "tools": list(self.tools),
            "schema": {name: {"input": it.input_schema, "output": it.output_schema} for name, it in self.tools.items()},
            "descriptions": {name: it.description for name, it in self.tools.items()},
            "resources": list(self.resources),
            "constraints": constraints,
            "heartbeat_interval": self.heartbeat,
        }

    def run(self, url: str, token: str | None = None) -> None:
        """Connect to the pool at `url`, register, and answer calls until SIGTERM or SIGINT: see `run_agents`."""
        run_agents([self], url, token)


def run_agents(agents: Sequence[DataAgent], url: str, token: str | None = None) -> None:
    """Connect to the pool at `url`, register the agents, and answer calls until SIGTERM or SIGINT.

    A lost connection is opened again. Calls that run at the end are finished first; a second signal ends at once. Call
    this in the main thread, behind `if __name__ == "__main__"`.

    Raises:
        SystemExit: the pool refuses the bearer or a registration (exit code 2; the log says why).
        ValueError: an agent has no tools, or its worker does not start: a function is not at the top level of a module,
            or `memory` is too little.
    """
    if without := [agent.agent_id for agent in agents if not agent.tools]:
        raise ValueError(f"{without[0]} has no tools")
    hosted = dict[str, Workers]()
    try:
        prepare_workers({tool.function.__module__ for agent in agents for tool in agent.tools.values()})
        for agent in agents:
            try:
                hosted[agent.agent_id] = Workers(agent)
            except (AttributeError, ChildProcessError, PicklingError) as error:
                raise ValueError(f"{agent.agent_id}: {error}") from error
        stay_connected(hosted, url, token)
    except Refused as refused:
        log.error("%s", refused)
        raise SystemExit(2) from None
    finally:
        for each in hosted.values():
            each.kill()


def _given(agent: DataAgent, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(agent, name)) not in (None, False)}
