"""Which tools may be called again after a worker was lost."""

import pytest
from mcp_types import Tool, ToolAnnotations

from agent_worker.downstream.calls import is_safe

READS = ToolAnnotations(read_only_hint=True)
WRITES = ToolAnnotations(destructive_hint=True)


@pytest.mark.parametrize(
    ("said", "hints", "safe"),
    [
        (None, None, False),
        (None, WRITES, False),
        (None, READS, True),
        (None, ToolAnnotations(idempotent_hint=True), True),
        (True, WRITES, True),
        (False, READS, False),
    ],
    ids=["nobody", "writes", "reads", "idempotent", "team", "team against the tool"],
)
def test_a_tool_may_be_called_again_if_its_team_or_else_the_tool_says_so(
    said: bool | None, hints: ToolAnnotations | None, safe: bool
) -> None:
    tool = Tool(name="search", input_schema={"type": "object"}, annotations=hints)
    assert is_safe("argos", tool, lambda _server, _tool: said) is safe
