"""Where an agent is called."""

import pytest

from pallas_cli.chat.conversation import agent_endpoint


@pytest.mark.parametrize(
    ("gateway", "agent", "url"),
    [
        ("http://host:1", "harper", "http://host:1/mcp/harper"),
        ("http://host:1/", "demo/harper", "http://host:1/teams/demo/mcp/harper"),
        ("http://host:24101/mcp", "harper", "http://host:24101/mcp"),
        ("http://host:1/teams/demo/mcp/harper/", "harper", "http://host:1/teams/demo/mcp/harper"),
    ],
)
def test_an_agent_is_found_by_name_by_team_or_by_its_own_endpoint(gateway: str, agent: str, url: str) -> None:
    assert agent_endpoint(gateway, agent) == (url, "harper")
