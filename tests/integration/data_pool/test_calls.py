"""Agents that register over a WebSocket, and what becomes of their calls."""

from typing import Any

import pytest
from tests.integration.data_pool.lab import Lab, a_registration, nested

from pallas_contracts.turns import Result, ToolCompleted, ToolStarted


@pytest.mark.parametrize("form", [a_registration, nested])
async def test_an_agent_registers_in_both_forms_and_executes(lab: Lab, form: Any) -> None:
    pool = await lab.pool(gateway_url="https://pallas.example/")
    agent = await lab.connect(pool)
    answer = await agent.ask("server.register", form(lab.agent, heartbeat_interval=60))
    assert answer == {
        "jsonrpc": "2.0",
        "id": "a1",
        "result": {
            "agent_id": lab.agent,
            "registered": True,
            "team": "data",
            "tools": ["double"],
            "heartbeat_interval": 60.0,
            "mcp": f"https://pallas.example/teams/data/mcp/{lab.agent}",
        },
    }
    definition = await lab.definition()
    assert definition is not None
    turn = await lab.call(number=21)
    call = await agent.double()
    assert call["params"]["input"] == {"number": 21}
    assert (await turn.outcome()).status == "completed"
    [result] = [message for message in turn.messages if isinstance(message, Result)]
    assert result.structured == {"doubled": 42}
    assert [type(message) for message in turn.messages if isinstance(message, ToolStarted | ToolCompleted)] == [
        ToolStarted,
        ToolCompleted,
    ]
