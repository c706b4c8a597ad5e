"""Imports run one way inside a package too: a room imports from rooms below it, never from those above."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.tree import ROOT, packages

ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pallas_bus": (
        ("access", "headers"),
        ("client", "connection", "errors"),
        ("streams", "snapshots"),
        ("reads", "leaders"),
        ("kv", "ask", "follow", "servers"),
    ),
    "pallas_runtime": (("http",), ("",)),
    "pallas_turns": (
        ("claims", "queue", "events", "definitions"),
        ("model", "positions", "content", "feed", "pull", "liveness"),
        ("budgets", "store", "journal", "write", "metrics", "feeds", "history"),
        ("admission", "runtime", "dead_letters", "replay"),
        ("attempts", "cancel", "conclude", "settle", "expiry", "replays"),
        ("submit", "execute", "restores", "rights"),
        ("relay", "decode"),
        ("calls", "executor"),
        ("keys", "offer"),
    ),
    "pallas_hosting": (("redact", "seed", "functions"), ("definition", "folders", "metered"), ("worker",)),
    "pallas_cli": (
        ("",),
        ("agents", "broker_config", "chat", "data_agents"),
        ("calling", "fleet", "k8s", "libraries", "processes", "turns"),
        ("embedded",),
        ("stack", "rest"),
        ("backup", "doctor"),
        ("commands",),
        ("main", "reference"),
        ("start", "__main__"),
    ),
    "agent_gateway": (("",), ("answers",), ("handshake",), ("mcp",), ("rpc",), ("http",), ("app", "__main__")),
    "agent_worker": (("",), ("downstream",), ("llm",), ("teams",), ("app", "__main__")),
    "auth_resolver": (("",), ("app", "__main__")),
    "registry": (("",), ("listing",), ("catalogue",), ("http",), ("app", "__main__")),
    "data_pool": (
        ("",),
        ("registering",),
        ("reaching",),
        ("executing",),
        ("hosting",),
        ("methods",),
        ("http",),
        ("app", "__main__"),
    ),
    "pipelines": (
        ("",),
        ("modules",),
        ("programs",),
        ("storing",),
        ("running", "handlers"),
        ("agent",),
        ("http",),
        ("app", "__main__"),
    ),
    "fleet": (
        ("",),
        ("reaching",),
        ("terminal",),
        ("coder",),
        ("storing",),
        ("seeing",),
        ("running",),
        ("handlers",),
        ("agent",),
        ("app", "__main__"),
    ),
    "team_lifecycle": (("",), ("lookups",), ("changes", "handlers"), ("http",), ("app", "__main__")),
    "health_monitor": (("",), ("broker", "spending"), ("probes",), ("judging",), ("app", "__main__")),
    "library_search": (("",), ("reading",), ("store",), ("handlers",), ("mcp",), ("http",), ("app", "__main__")),
    "workspaces": (
        ("",),
        ("live",),
        ("changes",),
        ("access", "registries", "mnemosyne"),
        ("reconciling", "agents"),
        ("chat", "turns"),
        ("handlers",),
        ("http",),
        ("app", "__main__"),
    ),
}
"""Rooms of each package, the lowest first. A room is a folder, or a module beside the folders; `""` is all other
modules beside them."""


def imports_of(path: Path, module: str) -> Iterator[tuple[str, ...]]:
    """What a file imports from its own package, as the parts below the package's name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == module:
            parts = tuple(node.module.split(".")[1:])
            yield from (parts or (alias.name,) for alias in node.names)


def floor_of(parts: tuple[str, ...], rooms: tuple[tuple[str, ...], ...]) -> int:
    """The level of the room that a module is in; -1 where it is in none."""
    named = [floor for floor, names in enumerate(rooms) if parts and parts[0] in names]
    return named[0] if named else next((floor for floor, names in enumerate(rooms) if "" in names), -1)


@pytest.mark.parametrize("module", ROOMS)
def test_a_room_imports_only_from_rooms_below_it(module: str) -> None:
    [source] = [package.folder / "src" / module for package in packages() if package.module == module]
    rooms, wrong = ROOMS[module], list[str]()
    for path in sorted(source.rglob("*.py")):
        if path == source / "__init__.py":
            continue
        own = tuple(path.relative_to(source).with_suffix("").parts)
        floor = floor_of(own, rooms)
        assert floor >= 0, f"{path.relative_to(ROOT)} is in no room"
        for imported in imports_of(path, module):
            if floor_of(imported, rooms) > floor:
                wrong.append(f"{path.relative_to(ROOT)} imports {'.'.join(imported)}")
    assert wrong == []


LAYERS = frozenset({"keys", "budgets", "replay", "replays", "restores", "expiry", "rights", "history", "offer"})
"""What stands around the engine, besides the decoder and dead letters. A plain turn needs none of it."""


def test_the_engine_imports_no_layer_that_stands_around_it() -> None:
    [source] = [package.folder / "src" / "pallas_turns" for package in packages() if package.module == "pallas_turns"]
    core = [path for path in sorted(source.glob("*.py")) if path.stem not in LAYERS]
    assert [path.stem for path in core for parts in imports_of(path, "pallas_turns") if parts[0] in LAYERS] == []
    assert len(core) > 20
