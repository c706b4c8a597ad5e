"""Makes once for the process what fast-agent makes for each agent or each call, although it is alike every time.

An agent lives for one turn, so making these things each time would be more than half of what a turn costs. They hold
nothing of a turn, and do not change what a model is sent.
"""

import sys
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import metadata
from typing import Any

import httpcore2
from fast_agent.agents.llm_agent import LlmAgent
from fast_agent.agents.mcp_agent import McpAgent
from fast_agent.core.logging.logger import Logger
from fast_agent.mcp import client_callback_runtime, client_gateway
from fast_agent.ui.console_display import ConsoleDisplay

from fast_agent_worker.project.models import share_connections
from fast_agent_worker.project.shorter import shorten
from fast_agent_worker.project.stderr import stderr_of
from fast_agent_worker.project.transport import bound_transports

_MODELS = 64
"""Models of which the factory is kept: those of the agents, and some that turns are replayed with."""
_PRINTED = ("warning", "error")


def make_once() -> None:
    """Replace what would be made again and again.

    - The TLS context with the default authorities: each client reads all of them, for each call of a model.
    - The version of fast-agent, which is read from a file for each call of a tool.
    - The theme of the terminal, which each agent looks for three times. There is no terminal.
    - Log events below a warning. Each is a task and an entry of a queue, and none is printed.
    - What a terminal would show of an answer.

    What servers over stdio write on standard error is kept.
    """
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
    client_callback_runtime.__dict__["version"] = cache(metadata.version)
    ConsoleDisplay._apply_console_theme = _nothing
    Logger.event = _printed_only(Logger.event)
    LlmAgent.show_assistant_message = McpAgent.show_assistant_message = _show_nothing
    bound_transports()
    client_gateway.__dict__["get_stderr_handler"] = stderr_of
    shorten()


def factory_once(make: Callable[..., Any]) -> Callable[..., Any]:
    """A maker of factories of models that resolves each model once. The settings of a process do not change."""

    @lru_cache(_MODELS)
    def factory(model: str | None) -> Any:
        found = make(model=model)
        share_connections(sys.modules)  # fast-agent imports a provider when a model of it is first used
        return found

    def made(model: str | None = None, request_params: Any = None) -> Any:
        return factory(model) if request_params is None else make(model=model, request_params=request_params)

    return made


def _nothing(self: ConsoleDisplay) -> None:
    """Leave the terminal as it is."""


async def _show_nothing(self: LlmAgent, message: Any, *_arguments: Any, **_options: Any) -> None:
    """There is no terminal."""


def _printed_only(event: Callable[..., None]) -> Callable[..., None]:
    def emit(logger: Logger, etype: Any, *others: Any) -> None:
        if etype in _PRINTED:
            event(logger, etype, *others)

    return emit
