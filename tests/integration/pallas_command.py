"""The `pallas` command as a person runs it, but in a thread of the test: processes would be slower.

Each run has its own arguments, variables and output.
"""

import asyncio
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

from pallas_cli import main

# typer would build all commands again at each run.
_COMMANDS = typer.main.get_command(main.commands)


@dataclass(frozen=True)
class CommandResult:
    """The arguments, exit code and output of one run."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on standard output."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The document on standard error."""
        return json.loads(self.err)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table, without its headers; empty ones are left out."""
        return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in self.out.splitlines()[1:]]


@dataclass
class Pallas:
    """Runs the command in `folder`. `results` has every run."""

    environ: dict[str, str]
    folder: Path
    results: list[CommandResult] = field(default_factory=list[CommandResult])

    async def __call__(self, *words: str) -> CommandResult:
        """Run it with these arguments."""
        result = await asyncio.to_thread(self._run, words)
        self.results.append(result)
        return result

    async def done(self, *words: str) -> CommandResult:
        """Run it and expect exit code 0."""
        result = await self(*words)
        assert result.code == 0, result
        return result

    async def refused(self, *words: str, code: int = 1) -> list[str]:
        """Run it and expect exit code `code` without output. Returns the lines on stderr."""
        result = await self(*words)
        assert (result.code, result.out) == (code, ""), result
        return result.err.splitlines()

    def _run(self, words: tuple[str, ...]) -> CommandResult:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            patch.setattr(main, "commands", _COMMANDS)
            patch.setattr(sys, "argv", ["pallas", *words])
            for name in ("PALLAS_ADMIN_PASSWORD", "PALLAS_TEAM_LIFECYCLE_URL"):
                patch.delenv(name, raising=False)
            for name, value in self.environ.items():
                patch.setenv(name, value)
            try:
                main.app()
            except SystemExit as end:
                code = int(end.code or 0)
        return CommandResult(words, code, out.getvalue(), err.getvalue())
