"""The root of all commands. `--context` may stand anywhere, and a command is imported when it is wanted."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

ALONE: Mapping[str, str] = {
    "init": "Write a team folder that runs at once, without a key.",
    "up": "Run the whole platform on this machine, until Ctrl-C.",
    "doctor": "Find out what is wrong with an installation.",
    "chat": "Talk to an agent.",
    "call": "Call a tool of an agent, and print its answer.",
    "console": "Print a link that logs in to the console once.",
    "rpc": "Call a function of an agent by JSON-RPC and print its result.",
    "costs": "Print tokens and costs of models, added up from the log.",
    "completion": "Print the completion script of a shell.",
}
"""The commands that are in no group, in the order of the help. Each is in the module of that name in `commands`."""

GROUPS: Mapping[str, str] = {
    "context": "Contexts: the platforms that you work with, by name.",
    "agents": "Agents and their team folders.",
    "data-agent": "Data agents that are written in Python.",
    "pipelines": "Pipelines: programs that call tools of agents.",
    "turns": "Turns, read from the turn log.",
    "budgets": "What teams and callers may spend on models in a day (UTC).",
    "events": "The recorded messages of all streams.",
    "deadletters": "Dead letters: turns that could not be handled.",
    "libraries": "Libraries, their members and their documents.",
    "users": "Users, the owners of opaque tokens.",
    "tokens": "Opaque tokens for the MCP clients of users.",
    "teams": "Teams at team-lifecycle: their JWTs and their workspaces.",
    "keys": "Signing keys of team JWTs and per-turn JWTs.",
    "workspaces": "Workspaces of the console, and the teams attached to them.",
    "instances": "Instances of Pallas at the console: agents, JWTs of teams.",
    "sessions": "Sessions of browsers at the console.",
    "k8s": "The platform and its teams in a Kubernetes cluster.",
    "broker": "The broker's users, certificate, servers and leaders.",
    "backup": "Backups of an installation, made while it runs.",
}
"""The groups of commands, in the order of the help. `app` of the module of that name in `commands` has each."""

_TABLES: Mapping[str, str] = {
    **dict[str, str].fromkeys(("users", "tokens", "teams", "keys"), "lifecycle"),
    **dict[str, str].fromkeys(("workspaces", "instances", "sessions"), "console"),
}
"""The module in `rest` with the table of a group, in place of a module of its own."""


class Group(TyperGroup):
    """A group, whose module is imported when one of its commands is wanted."""

    def __init__(self, name: str, about: str) -> None:
        super().__init__(name=name, help=about, no_args_is_help=True, rich_markup_mode=None)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None if there is none."""
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        if not self.commands:
            name = (self.name or "").replace("-", "_")
            table = _TABLES.get(name)
            path, key = (f"rest.{table}", name.upper()) if table is not None else (f"commands.{name}", "app")
            found: Any = getattr(import_module(f"pallas_cli.{path}"), key)
            app: typer.Typer = found.app if table is not None else found
            app.rich_markup_mode = None
            self.commands.update(typer.main.get_group(app).commands)


class Alone(TyperCommand):
    """A command, whose module is imported when it is wanted. This has its name and its short help."""

    @property
    def loaded(self) -> Any:
        """The command itself."""
        app: typer.Typer = import_module(f"pallas_cli.commands.{self.name}").app
        app.rich_markup_mode = None
        return typer.main.get_group(app).commands[self.name or ""]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of a run of the command itself."""
        return self.loaded.make_context(info_name, args, parent, **extra)


class Root(TyperGroup):
    """All commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, about in ALONE.items():
            self.add_command(Alone(name, help=about, rich_markup_mode=None))
        for name, about in GROUPS.items():
            self.add_command(Group(name, about))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options of `pallas` itself. `--context NAME` may also follow the command."""
        return super().parse_args(ctx, _context_first(args))


def _context_first(args: Sequence[str]) -> list[str]:
    """The arguments with each `--context NAME` before the command. Those behind `--` are left as they are.

    If the last one has no name, it is alone in the list, so that it is what the error and the completion are about.
    """
    end = args.index("--") if "--" in args else len(args)
    moved, others, words = list[str](), list[str](), iter(args[:end])
    for word in words:
        if word.startswith("--context="):
            moved.append(word)
        elif word != "--context":
            others.append(word)
        elif (name := next(words, None)) is None:
            return [word]
        else:
            moved += word, name
    return [*moved, *others, *args[end:]]
