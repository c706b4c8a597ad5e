"""Pages about the contracts with other systems: what Pallas promises of each section, and which tests show it."""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from docs.site.paths import DOCS, NOTE, ROOT
from tests.requirements import REQUIREMENTS

FOLDER = DOCS / "contracts-upstream"

_MARKED = re.compile(r"@requirement\(([^)]*)\)", re.DOTALL)
_INTRODUCTION = (
    "Pallas keeps five contracts with other systems. These pages say, section by section and in our words, what\n"
    "Pallas promises, and which tests show it. A *section 6.4* in code or documents is one of these contracts."
)


@dataclass(frozen=True)
class Upstream:
    """A contract: its page, title and subject, and its sections by what stands behind the letter of a row."""

    page: str
    title: str
    about: str
    sections: dict[str, str]


CONTRACTS = {
    "P": Upstream(
        "mcp-interface",
        "Pallas MCP Interface Specification",
        "how agents are listed, called and watched over MCP",
        {
            "0": "Release note",
            "1": "1. Registry Endpoint",
            "2": "2. Conversation State & History",
            "3": "3. Health Tool",
            "4": "4. Daedalus Consumption",
            "5": "5. Agent Progress Notifications",
            "6": "6. Why MCP",
        },
    ),
    "A": Upstream(
        "auth",
        "Daedalus ↔ Pallas ↔ Mnemosyne Integration v1",
        "who may read what, and how the three parties agree on it",
        {
            "3": "3. Architecture",
            "4": "4. Data model",
            "5": "5. JWT claim shapes",
            "6": "6. Auth flow",
            "7": "7. REST API",
            "8": "8. Daedalus lifecycle hooks",
            "9": "9. Operator workflows",
            "10": "10. UX changes in Daedalus",
            "11": "11. Migration",
            "12": "12. Deprecated / removed",
            "13": "13. Security",
            "14": "14. Testing",
            "15": "15. Phased delivery",
        },
    ),
    "D": Upstream(
        "data-agents",
        "Interface Specification Between Orchestration and Data Agent Pool",
        "programs that register their functions and are called by JSON-RPC",
        {
            "2": "2. Roles and Protocol Usage",
            "3": "3. Core Methods",
            "4": "4. Agent Capability Schema Requirements",
            "5": "5. Execution Lifecycle",
            "6": "6. Error Handling Specification",
            "7": "7. Security and Governance",
            "8": "8. Design Notes",
        },
    ),
    "C": Upstream(
        "pipelines",
        "RFC-018: MCP Server for LLM Integration",
        "programs of the Constellation language, written and run by models",
        {
            "arch": "Architecture",
            "res": "MCP Resources",
            "tools": "MCP Tools",
            "prompts": "MCP Prompts",
            "ns": "Cold Pipeline Namespacing",
            "cfg": "Configuration",
            "http": "HTTP API Additions",
            "sec": "Security Considerations",
            "ph": "Implementation Phases",
            "met": "Success Metrics",
            "lang": "The language",
            "run": "Executions",
            "pub": "Published pipelines",
        },
    ),
    "F": Upstream(
        "fleet",
        "MCP Tools Contract: Fleet MCP Server",
        "nine tools for coding agents in workspaces of Coder",
        {
            "create_agent": "create_agent",
            "list_agents": "list_agents",
            "show_agent": "show_agent",
            "history": "show_agent_task_history",
            "delete_agent": "delete_agent",
            "start_task": "start_agent_task",
            "stop_task": "stop_agent_task",
            "roles": "list_agent_roles",
            "projects": "list_agent_projects",
            "common": "Common Patterns",
            "run": "Tasks",
        },
    ),
}
"""By the letter of their rows."""


def upstream() -> dict[Path, str]:
    """The pages by their paths."""
    shown = _shown()
    pages = {FOLDER / f"{contract.page}.md": _page(letter, shown) for letter, contract in CONTRACTS.items()}
    rows = "\n".join(
        f"| [{contract.title}]({contract.page}.md) | {contract.about} | {len(_rows(letter))} |"
        for letter, contract in CONTRACTS.items()
    )
    head = "| contract | about | promises |\n|---|---|---:|"
    pages[FOLDER / "index.md"] = f"# Upstream contracts\n\n{NOTE}\n{_INTRODUCTION}\n\n{head}\n{rows}\n"
    return pages


def _page(letter: str, shown: dict[str, list[str]]) -> str:
    contract = CONTRACTS[letter]
    parts = defaultdict[str, list[str]](list)
    for row in _rows(letter):
        parts[re.split(r"[-.]", row)[1]].append(f"| {row} | {REQUIREMENTS[row]} | {_files(shown[row])} |\n")
    if unnamed := parts.keys() - contract.sections.keys():
        raise ValueError(f"sections of {contract.page} without a name: {', '.join(sorted(unnamed))}")
    sections = (
        f"\n## {title}\n| row | promise | shown by |\n|---|---|---|\n{''.join(parts[part])}"
        for part, title in contract.sections.items()
    )
    return f"# {contract.title}\n\n{NOTE}\nThis contract is about {contract.about}.\n{''.join(sections)}"


def _rows(letter: str) -> list[str]:
    return [row for row in REQUIREMENTS if row.startswith(f"{letter}-")]


def _files(files: list[str]) -> str:
    """The first of these files, and how many more there are."""
    return f"`{files[0]}`" + (f" and {len(files) - 1} more" if files[1:] else "")


def _shown() -> dict[str, list[str]]:
    """The files with tests of each row."""
    found = defaultdict[str, list[str]](list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        marked = {row for rows in _MARKED.findall(path.read_text("utf-8")) for row in re.findall(r'"([^"]+)"', rows)}
        for row in sorted(marked):
            found[row].append(str(path.relative_to(ROOT)))
    return found
