"""Reads agent cards: YAML files, or Markdown files whose YAML is between two lines of three dashes."""

from collections.abc import Mapping
from pathlib import Path

from pallas_teams.addresses import check_forbidden
from pallas_teams.build import expand_foreign
from pallas_teams.fast_agent.source import FoundAgent
from pallas_teams.faults import FaultList
from pallas_teams.parse import parse_file, parse_front_matter
from pallas_teams.shape import Branch, Leaf, suggestion

SUFFIXES = (".md", ".markdown", ".yaml", ".yml")
_TYPES = {
    *("agent", "smart", "chain", "parallel", "evaluator_optimizer", "router", "orchestrator"),
    *("iterative_planner", "maker", "a2a"),
}
_OF_CARDS = ("name", "type", "servers", "model", "agents", "sequence", "instruction")
_MEMBERS = ("agents", "sequence", "fan_out")
_MEMBER = ("fan_in", "generator", "evaluator", "worker")


def cards_in(folder: Path) -> list[Path]:
    """The files of a folder that may be cards, by name."""
    return sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES and path.is_file())


def is_card(path: Path) -> bool:
    """Whether a file that is not in a folder of cards looks like one: it says what an agent is told or has."""
    if path.name.startswith(("SKILL.", "README")):
        return False
    faults = FaultList()
    card = _parsed(path, faults)
    if path.suffix in (".yaml", ".yml"):
        return card is not None and card.has("instruction")
    return bool(faults) or (card is not None and any(card.has(key) for key in _OF_CARDS))


def read_card(path: Path, environ: Mapping[str, str], faults: FaultList) -> FoundAgent | None:
    """The agent that a card describes; None for a Markdown file without YAML. `environ` has its variables.

    A card that cannot be read, or is of a type that fast-agent does not know, is left out. One that forwards bearers is
    a fault.
    """
    own = FaultList()
    parsed = _parsed(path, own)
    faults.warnings += own.warnings
    card = parsed and expand_foreign(parsed, environ, faults)
    if not isinstance(card, Branch):
        faults.leave_out_all(own)
        return None
    check_forbidden(card, faults)
    name, type_, model = (_text(card, key) for key in ("name", "type", "model"))
    if type_ is not None and type_.lower() not in _TYPES:
        faults.leave_out(card.entries["type"].mark, f"fast-agent has no cards of this type{suggestion(type_, _TYPES)}")
        return None
    members = [str(leaf.value) for key in _MEMBERS for _, leaf in card.texts(key)]
    members += [text for key in _MEMBER if (text := _text(card, key))]
    tool_only = card.node("tool_only")
    return FoundAgent(
        name=(name or path.resolve().stem).replace(" ", "_"),
        type=type_ or "agent",
        mark=card.mark,
        model=model,
        servers=tuple(str(leaf.value) for _, leaf in card.texts("servers")),
        members=tuple(members),
        tool_only=isinstance(tool_only, Leaf) and tool_only.value is True,
        description=_text(card, "description") or "",
        places={
            str(leaf.value): leaf.mark
            for key in ("servers", *_MEMBERS, *_MEMBER)
            for leaf in (*(leaf for _, leaf in card.texts(key)), *filter(None, [card.text(key)]))
        },
    )


def _parsed(path: Path, faults: FaultList) -> Branch | None:
    if path.suffix in (".yaml", ".yml"):
        return parse_file(path, faults, foreign=True)
    return parse_front_matter(path, faults)


def _text(card: Branch, key: str) -> str | None:
    leaf = card.text(key)
    return str(leaf.value).strip() if leaf else None
