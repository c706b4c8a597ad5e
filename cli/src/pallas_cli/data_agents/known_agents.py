"""Says which agents a caller may have meant, when the gateway does not know the one that was named."""

from collections.abc import Generator
from contextlib import contextmanager

from pallas_cli.data_agents.execute import execute
from pallas_cli.refused import not_there
from pallas_mcp_calls.model import CallFailed

_OTHERWISE = "; `pallas agents list` shows all agents"


@contextmanager
def naming_agents(gateway: str, agent: str, token: str | None) -> Generator[None]:
    """While an agent is connected over MCP: an error for one that is not there names those that are like it.

    Raises:
        Refused: there is no such agent at the gateway.
        CallFailed: it cannot be called for another reason.
    """
    try:
        yield
    except CallFailed as error:
        if error.code != "not_found":
            raise
        raise not_there("agent", agent, _known(gateway, agent, token), otherwise=_OTHERWISE) from error


def _known(gateway: str, agent: str, token: str | None) -> list[str]:
    """Ids of agents that this caller may call; the gateway gives them with its error for an unknown one."""
    facts = execute(gateway, agent, "-", {}, {"task_id": "which-agents"}, token).get("error", {}).get("data", {})
    team, slash, _ = agent.rpartition("/")
    return [f"{team}{slash}{each}" for each in facts.get("known", ())] if facts.get("reason") == "unknown agent" else []
