"""A turn as a tree of spans, made from its log."""

from tests.unit.cli.test_turn_timeline import NESTED, a_turn, done, model, step, tool

from pallas_bus.history.turns import TurnHistory
from pallas_cli.turns.show import Node, tree_of
from pallas_cli.turns.show import tree_lines as lines_of
from pallas_contracts.turns import AnyEvent, ToolFailed

BAR = 33


def drawn(turn: TurnHistory) -> list[str]:
    """The lines without the bars."""
    return [line[:20] + line[20 + BAR :] for line in lines_of(turn)]


def test_the_steps_of_one_run_of_an_agent_are_one_span() -> None:
    assert drawn(NESTED) == [
        "    after      took",
        "    0.000     0.500 ├─ wait_in_queue",
        "    0.500     1.500 └─ take_turn attempt 1 by w1",
        "    0.500     1.500    └─ invoke_agent harper",
        "    0.500     0.200       ├─ chat offline (7 in, 2 out)",
        "    0.700     1.000       ├─ execute_tool search",
        "    0.800     0.900       │  └─ invoke_agent research",
        "    0.800     0.200       │     ├─ chat offline (7 in, 2 out)",
        "    1.000     0.500       │     ├─ execute_tool argos__search",
        "    1.000     0.600       │     └─ execute_tool argos__search",
        "    1.700     0.200       └─ chat offline (7 in, 2 out)",
    ]


def test_a_bar_shows_the_part_of_the_turn_that_a_span_took() -> None:
    bars = [line[20 : 20 + BAR - 1] for line in lines_of(NESTED)[1:4]]
    assert bars == [
        "|========                      |",
        "|        ======================|",
        "|        ======================|",
    ]


def test_attempts_are_siblings_and_an_unfinished_one_has_no_duration() -> None:
    turn = a_turn((0.1, [(0.2, tool("1"))]), (5.1, [(5.2, step("harper", 1, "llm"))]), ends=None)
    [_, first, second] = tree_of(turn)
    assert (first.name, first.took, second.name, second.took) == ("take_turn", 0.1, "take_turn", None)
    assert [child.took for child in (*first.children, *second.children)] == [0.0, None]
    assert all("=" in line for line in lines_of(turn)[1:])


def test_a_failed_tool_shows_its_code() -> None:
    failed = ToolFailed(call="1", server="argos", tool="search", duration_ms=100, code="tool_error")
    [*_, attempt] = tree_of(a_turn((0.1, [(0.2, tool("1")), (0.3, failed)]), ends=0.4))
    [call] = attempt.children
    assert (call.failed, call.note) == (True, "failed (tool_error)")


def test_a_sub_agent_that_is_called_twice_has_two_runs() -> None:
    events: list[tuple[float, AnyEvent]] = [
        (0.1, step("harper", 1, "tool")),
        (0.2, tool("1", "research", leaf=False)),
        (0.2, step("research", 1, "llm")),
        (0.3, model("research", 0.05)),
        (0.3, done("1", 0.1, "research")),
        (0.4, step("harper", 2, "tool")),
        (0.4, tool("2", "research", leaf=False)),
        (0.4, step("research", 2, "llm")),
        (0.5, done("2", 0.1, "research")),
    ]
    [*_, attempt] = tree_of(a_turn((0.1, events), ends=1.0))
    [harper] = attempt.children
    assert [names(call) for call in harper.children] == [["invoke_agent research"], ["invoke_agent research"]]


def names(node: Node) -> list[str]:
    """The names of its children."""
    return [child.name for child in node.children]


def test_a_turn_without_events_has_no_tree() -> None:
    assert lines_of(TurnHistory("red", "harper", "t1")) == ["    after      took"]
