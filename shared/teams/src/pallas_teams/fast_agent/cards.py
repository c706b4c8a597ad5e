"""Reads agent cards: YAML files, or Markdown files whose YAML is between two lines of three dashes."""

from pathlib import Path

from pallas_teams.addresses import check_forbidden
from pallas_teams.fast_agent.source import FoundAgent
from pallas_teams.faults import FaultList
from pallas_teams.parse import parse_file, parse_front_matter
from pallas_teams.tree import Branch, Leaf

SUFFIXES = (".md", ".markdown", ".yaml", ".yml")
_MEMBERS = ("agents", "sequence", "fan_out")
_MEMBER = ("fan_in", "generator", "evaluator", "worker")


def cards_in(folder: Path) -> list[Path]:
    """The files of a folder that may be cards, by name."""
    return sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES and path.is_file())


def read_card(path: Path, faults: FaultList) -> FoundAgent | None:
    """The agent that a card describes; None for a Markdown file without YAML, or one with faults."""
    card = parse_file(path, faults) if path.suffix in (".yaml", ".yml") else parse_front_matter(path, faults)
    if card is None:
        return None
    check_forbidden(card, faults)
    name, type_, model = (_text(card, key) for key in ("name", "type", "model"))
    members = [str(leaf.value) for key in _MEMBERS for _, leaf in card.texts(key)]
    members += [text for key in _MEMBER if (text := _text(card, key))]
    tool_only = card.node("tool_only")
    return FoundAgent(
        name=(name or path.stem).replace(" ", "_"),
        type=type_ or "agent",
        mark=card.mark,
        model=model,
        servers=tuple(str(leaf.value) for _, leaf in card.texts("servers")),
        members=tuple(members),
        tool_only=isinstance(tool_only, Leaf) and tool_only.value is True,
        description=_text(card, "description") or "",
    )


def _text(card: Branch, key: str) -> str | None:
    leaf = card.text(key)
    return str(leaf.value).strip() if leaf else None
