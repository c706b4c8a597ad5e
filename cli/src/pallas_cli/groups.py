"""The root of all commands. Former names of commands still work for one release, and `--context` may stand anywhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperGroup

from pallas_cli.plain_text import print_plain

RENAMED: Mapping[tuple[str, ...], str] = {
    ("users", "add"): "create",
    ("libraries", "add"): "create",
    ("libraries", "remove"): "delete",
    ("keys", "add"): "create",
    ("tokens", "issue"): "create",
    ("tokens", "revoke"): "delete",
    ("instances", "register"): "create",
    ("deadletters", "drop"): "delete",
    ("budgets", "remove"): "delete",
}
"""What a command is called now, by its group and its former name. Former names are in no list and no help."""


class Root(TyperGroup):
    """All commands. One that is called by its former name runs, and says what it is called now."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options of `pallas` itself. `--context NAME` may also follow the command."""
        return super().parse_args(ctx, _context_first(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first arguments name, and the other arguments."""
        now = RENAMED.get(tuple(args[:2]))
        if now is not None:
            group, former, *others = args
            if not ctx.resilient_parsing and "--json" not in others:
                print_plain(
                    f"pallas: `{group} {former}` is now `{group} {now}`; the old name will be removed", err=True
                )
            args = [group, now, *others]
        return super().resolve_command(ctx, args)


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
