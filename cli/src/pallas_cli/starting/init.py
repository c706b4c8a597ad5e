"""Writes a team folder, and says how to run it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from pallas_cli.plain_text import print_plain
from pallas_cli.private_files import write_atomically
from pallas_cli.refused import Refused
from pallas_cli.starting import templates

_READABLE = 0o644


def write_team(folder: Path, *, python: bool, as_json: bool) -> None:
    """Write a new team into `folder`, which is created; with `python`, also an agent written in Python.

    Raises:
        Refused: the folder is not empty, or cannot be written.
    """
    files = _files(_team_name(folder), python=python)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise Refused(f"{folder} is not empty: choose another folder", word="exists")
        for name, text in files.items():
            write_atomically(folder / name, text, _READABLE)
    except OSError as error:
        raise Refused(f"{folder}: {error.strerror}") from error
    commands = [f"pallas up --teams {folder}", "pallas chat assistant"]
    commands += ["pallas rpc clock now '{\"offset\": 2}'"] if python else []
    if as_json:
        print(json.dumps({"folder": str(folder), "files": list(files), "next": commands}, indent=2))
        return
    print_plain(f"{folder} is a team with {'two agents' if python else 'one agent'}. Next, and in another terminal:")
    for command in commands:
        print_plain(f"  {command}")


def _files(team: str, *, python: bool) -> Mapping[str, str]:
    agents = templates.AGENTS.format(team=team)
    files = {
        "agents.yaml": agents + (templates.FUNCTION if python else ""),
        "assistant.md": templates.INSTRUCTION,
        "fastagent.config.yaml": templates.CONFIG,
        ".gitignore": templates.IGNORED,
    }
    return files | ({"clock.py": templates.CLOCK} if python else {})


def _team_name(folder: Path) -> str:
    """The name of the folder as the name of a team."""
    return re.sub(r"[^a-z0-9_-]+", "-", folder.absolute().name.lower()).strip("-")[:64] or "team"
