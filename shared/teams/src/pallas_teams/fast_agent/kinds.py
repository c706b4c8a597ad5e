"""Which kind an agent is of. Folders that were written for fast-agent do not say it."""

from typing import TYPE_CHECKING, Literal

from pallas_teams.tree import Branch

if TYPE_CHECKING:
    from pallas_teams.schema import AgentSection

FAST_AGENT = "fast-agent"

type Kind = Literal["llm", "function", "fast-agent"]


def kind_of_section(section: "AgentSection") -> Kind:
    """The kind of a checked agent: the given one, else fast-agent for one that is made by a module or a card."""
    if section.kind is not None:
        return section.kind
    made = section.module or section.card
    instructed = section.instruction is not None or section.instruction_file is not None
    return FAST_AGENT if made and not instructed else "llm"


def kind_of(agent: Branch) -> str:
    """The same of an agent that is not checked yet."""
    given = agent.text("kind")
    if given is not None:
        return str(given.value)
    made = agent.has("module") or agent.has("card")
    return FAST_AGENT if made and not (agent.has("instruction") or agent.has("instruction_file")) else "llm"


def kinds_in(team: Branch) -> set[str]:
    """The kinds of all agents of a team."""
    agents = team.branch("agents").entries.values()
    return {kind_of(entry.node) for entry in agents if isinstance(entry.node, Branch)}
