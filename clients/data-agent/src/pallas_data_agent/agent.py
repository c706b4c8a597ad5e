"""A data agent: its functions, its limits, and what it registers with (`data-agent-pool.md`, sections 3.2 and 4)."""

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc
from typing import Any, TypeVar, overload

from pallas_data_agent.calls import Tool
from pallas_data_agent.hosting import host
from pallas_data_agent.shapes import object_shape, parameters_of, result_of, shape_of

F = TypeVar("F", bound=Callable[..., Any])

_TOKEN = re.compile(r"[a-z0-9_-]{1,64}")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?) ?(B|[KMG]i?B)")
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class DataAgent:
    """An agent whose tools are Python functions.

    Functions run in child processes, each call in a context of its own. Keep nothing in globals but caches: the next
    call may run in another process.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        title: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        memory: str | None = None,
        max_concurrency: int = 8,
        idempotent: bool = False,
        policy: str | None = None,
        resources: Sequence[str] = (),
        heartbeat: float | None = 60,
        allow: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`timeout` and `heartbeat` are in seconds; with `heartbeat=None` none are sent.

        `memory` is the address space of each child process, such as "128MB". With `idempotent` a call whose end is
        unknown may be made again. `allow` lists who may call the agent: `types`, `teams`, `tokens`; default: everybody.

        Raises:
            ValueError: a value is invalid.
        """
        if not _TOKEN.fullmatch(agent_id):
            raise ValueError(f"agent_id {agent_id!r}: use 1 to 64 of the characters a-z 0-9 _ -")
        self.agent_id = agent_id
        self.timeout = timeout
        self.max_concurrency = max_concurrency
        self.memory, self.memory_limit = _memory(memory) if memory is not None else (0, "")
        self.heartbeat = heartbeat
        self.tools: dict[str, Tool] = {}
        self._facts = {"title": title, "description": description, "resources": list(resources), "allow": allow}
        self._constraints = {"timeout": timeout, "memory": memory, "policy": policy}
        self._constraints |= {"max_concurrency": max_concurrency, "idempotent": idempotent or None}

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
    ) -> F | Callable[[F], F]:
        """Make a function, plain or async, a tool. Without a name, description or schema it has those of the function:
        its docstring describes it, its type hints are its schemas.

        Raises:
            TypeError: a type hint has no shape; give the schema.
            ValueError: there is a tool of this name.
        """

        def add(function: F) -> F:
            known = name or function.__name__
            if known in self.tools:
                raise ValueError(f"{self.agent_id} has two tools {known!r}")
            fields, open_ = parameters_of(function)
            takes = object_shape(fields) if input_schema is None else input_schema
            gives = shape_of(result_of(function)) if output_schema is None else output_schema
            self.tools[known] = Tool(function, fields, open_, takes, gives, description or getdoc(function) or "")
            return function

        return add if function is None else add(function)

    @property
    def registration(self) -> dict[str, Any]:
        """The parameters of `server.register`."""
        schema = {name: {"input": each.input_schema, "output": each.output_schema} for name, each in self.tools.items()}
        described = {name: each.description for name, each in self.tools.items() if each.description}
        return _given(
            agent_id=self.agent_id,
            tools=list(self.tools),
            schema=schema,
            descriptions=described,
            constraints=_given(**self._constraints),
            heartbeat_interval=self.heartbeat,
            **self._facts,
        )

    def run(self, url: str, token: str | None = None) -> None:
        """Connect to the pool at `url`, register, and answer calls until SIGTERM or SIGINT: see `run_agents`."""
        run_agents([self], url, token)


def run_agents(agents: Sequence[DataAgent], url: str, token: str | None = None) -> None:
    """Connect to the pool at `url`, register the agents, and answer calls until SIGTERM or SIGINT.

    A lost connection is opened again. Calls that run at the end are finished first; a second signal ends at once. This
    process is forked, so call this in the main thread, before other threads are started.

    Raises:
        SystemExit: the pool refuses the bearer or a registration (exit code 2; the message says why).
        ValueError: an agent has no tools, or a memory limit is less than what the program takes.
    """
    host({agent.agent_id: agent for agent in agents}, url, token)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], {})}


def _memory(text: str) -> tuple[int, str]:
    """The bytes that a text means, and the text as it is shown."""
    if (found := _MEMORY.fullmatch(text)) is None:
        raise ValueError(f'memory {text!r}: write it as "128MB" or "1.5 GiB"')
    return int(float(found[1]) * _UNITS[found[2]]), f"{found[1]} {found[2]}"
